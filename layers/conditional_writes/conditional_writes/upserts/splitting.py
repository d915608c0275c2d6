"""Splits the entries of an upsert into requests."""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence, Set

from conditional_writes.upserts.entries import MapEntry, MapPath, maps_along


def in_requests(entries: Iterable[MapEntry]) -> Iterator[list[MapEntry]]:
    """The entries in as few requests as DynamoDB's expressions have room for, and none with another inside of it."""
    request: list[MapEntry] = []
    maps: set[MapPath] = set()
    for entry in entries:
        with_it = maps.union(maps_along(entry.path[:-1]))
        if request and not _fit_one_request([*request, entry], with_it):
            yield request
            request = []
            with_it = set(maps_along(entry.path[:-1]))
        request.append(entry)
        maps = with_it
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


def _fit_one_request(entries: Sequence[MapEntry], maps: Set[MapPath]) -> bool:
    """`maps` has the paths of all maps around the entries."""
    operators = 2 * len(entries) + 8 * len(maps)
    characters = sum(32 + 5 * (len(entry.path) - 2) for entry in entries) + 40 * len(maps)
    one_in_another = any(entry.path in maps for entry in entries)
    return operators <= _OPERATORS and characters <= _CHARACTERS and not one_in_another
