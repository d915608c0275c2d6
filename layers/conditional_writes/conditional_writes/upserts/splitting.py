"""Splits the entries of an upsert into requests."""

import random
from collections.abc import Iterable, Iterator, Sequence, Set

from conditional_writes.upserts.entries import MapEntry, MapPath, is_erasure, maps_along


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


def in_requests_from_any_on(entries: Iterable[MapEntry]) -> list[list[MapEntry]]:
    """The requests, beginning with one of them at random.

    If an upsert is repeated because most requests fail, it shall not always begin with those that are done.
    """
    requests = list(in_requests(entries))
    first = random.randrange(len(requests)) if requests else 0
    return requests[first:] + requests[:first]


def erased_and_others(entries: Sequence[MapEntry]) -> tuple[list[MapEntry], list[MapEntry]]:
    """The erasure, if there is one, with the entries that it supersedes; and all other entries."""
    erasing = next(filter(is_erasure, entries), None)
    if erasing is None or erasing.as_of is None:
        return [], list(entries)
    erased, others = [erasing], list[MapEntry]()
    for entry in entries:
        if entry is not erasing:
            (erased if entry.as_of is not None and entry.as_of <= erasing.as_of else others).append(entry)
    return erased, others


_OPERATORS = 280
_UPDATE_CHARACTERS = 3_600
_CONDITION_CHARACTERS = 4_000
"""An expression holds 300 operators and 4,096 characters. The rest is for the parts of every request."""


def _fit_one_request(entries: Sequence[MapEntry], maps: Set[MapPath]) -> bool:
    """`maps` has the paths of all maps around the entries."""
    operators = 2 * len(entries) + 8 * len(maps)
    in_update = sum(32 + 5 * (len(entry.path) - 2) for entry in entries) + 40 * len(maps)
    in_condition = 150 + 22 * len(entries) + sum(75 + 5 * len(path) for path in maps)
    fit = operators <= _OPERATORS and in_update <= _UPDATE_CHARACTERS and in_condition <= _CONDITION_CHARACTERS
    return fit and not any(entry.path in maps for entry in entries)
