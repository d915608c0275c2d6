"""Map entries: one name and its value in a map attribute, however deep the map is. Checked, and split into requests."""

import random
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from conditional_writes.core.items import Key
from conditional_writes.core.own_attributes import PREFIX

type MapPath = tuple[str, ...]
"""The names from an attribute down to a map in it, or down to an entry."""


class _Removed:
    def __repr__(self) -> str:
        return "REMOVED"

    def __reduce__(self) -> str:
        """By its name: a copy, or another process, has the same one."""
        return "REMOVED"


REMOVED: Final = _Removed()
"""As a value: removes the entry, or the map. With `as_of` its clock stays, so that no earlier write undoes it."""


class MapEntry(NamedTuple):
    """`path` has the names from the attribute down to the entry, at least two; `as_of` is the time of the value.

    An `erasure` is a removal without a path.

    Without `as_of` the last write to arrive wins. With it the later time wins, also between an entry and a map of its
    name. If two times are equal, every replay still has the same winner: a value beats a removal, of two values the
    larger hash beats the smaller, and what is inside a map beats what is in the map's place.
    """

    path: tuple[str, ...]
    value: Any
    as_of: datetime | None = None


def erasure(as_of: datetime) -> MapEntry:
    """The removal of the whole item: everything that isn't later than `as_of`, and what has no clock."""
    return MapEntry((), REMOVED, as_of)


def check_entry(key: Key, entry: MapEntry) -> None:
    """Raises ValueError or TypeError for an entry that no item can hold, and for what is no entry."""
    if not isinstance(entry, MapEntry):
        raise TypeError(f"{key}: {entry!r} is no MapEntry: expected a list of them")
    if entry.as_of is None or entry != erasure(entry.as_of):
        _check_path(key, entry.path)
    if entry.as_of is None:
        return
    if not isinstance(entry.as_of, datetime):
        raise TypeError(f"{key}: as_of is {entry.as_of!r}, expected a datetime with its offset from UTC")
    if entry.as_of.tzinfo is None:
        raise ValueError(f"{key}: {entry.as_of!r}: expected a time with its offset from UTC")
    try:
        entry.as_of.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{key}: {entry.as_of!r}: expected a time between the years 1 and 9999 in UTC") from None


def _check_path(key: Key, path: MapPath) -> None:
    names = path if isinstance(path, tuple) else ()
    if len(names) < 2 or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{key}: {path!r}: expected a tuple of names: of an attribute and of an entry, at least")
    attribute = path[0]
    if attribute in dict(key.attributes) or attribute.startswith(PREFIX):
        raise ValueError(f"{key}: {attribute} can't hold entries: it is part of the key, or the library's own")


def maps_along(path: MapPath) -> list[MapPath]:
    """The paths of the maps from the attribute down to `path` itself: `a`, `a.b`, `a.b.c`."""
    return [path[:length] for length in range(1, len(path) + 1)]


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


def in_requests_from_any_on(entries: Sequence[MapEntry]) -> list[list[MapEntry]]:
    """The requests: an erasure with all that it supersedes comes first. The others begin with a random one of them.

    If an upsert is repeated because most requests fail, it shall not always begin with those that are done.
    """
    first = next((entry for entry in entries if not entry.path), None)
    erased, others = [] if first is None else [first], list[MapEntry]()
    for entry in entries:
        if entry is not first:
            (erased if first is not None and _is_erased(entry, first) else others).append(entry)
    requests = list(in_requests(others))
    at = random.randrange(len(requests)) if requests else 0
    return [*([erased] if erased else []), *requests[at:], *requests[:at]]


def _is_erased(entry: MapEntry, erasing: MapEntry) -> bool:
    if entry.as_of is None or erasing.as_of is None:
        return False
    return entry.as_of.astimezone(UTC) <= erasing.as_of.astimezone(UTC)


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
