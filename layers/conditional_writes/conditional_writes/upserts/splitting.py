"""Splits the entries of an upsert into requests."""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence

from conditional_writes.upserts.entries import MapEntry, maps_of


def in_requests(entries: Iterable[MapEntry]) -> Iterator[list[MapEntry]]:
    """The entries in as few requests as DynamoDB's expressions have room for, and none with another inside of it."""
    request: list[MapEntry] = []
    for entry in entries:
        if request and not _fit_one_request([*request, entry]):
            yield request
            request = []
        request.append(entry)
    if request:
        yield request


def from_any_request_on(entries: Sequence[MapEntry]) -> list[MapEntry]:
    """The entries, beginning with those of one of their requests, at random.

    If an upsert is repeated because most requests fail, it shall not always begin with those that are done.
    """
    requests = list(in_requests(entries))
    first = random.randrange(len(requests)) if requests else 0
    return list(itertools.chain(*requests[first:], *requests[:first]))


_OPERATORS = 280
_CHARACTERS = 3_600
"""An expression holds 300 operators and 4,096 characters. The rest is for the conditions that every request has."""


def _fit_one_request(entries: Sequence[MapEntry]) -> bool:
    maps = set(maps_of(entries))
    operators = 2 * len(entries) + 8 * len(maps)
    characters = sum(32 + 5 * (len(entry.path) - 2) for entry in entries) + 40 * len(maps)
    one_in_another = any(entry.path in maps for entry in entries)
    return operators <= _OPERATORS and characters <= _CHARACTERS and not one_in_another
