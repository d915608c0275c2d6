"""Map entries: one name and its value in a map attribute, however deep the map is."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from conditional_writes.items import Key
from conditional_writes.own_attributes import is_own

type MapPath = tuple[str, ...]
"""The names from an attribute down to a map in it, or down to an entry."""


class _Removed:
    def __repr__(self) -> str:
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


def is_erasure(entry: MapEntry) -> bool:
    return not entry.path


def check_entry(key: Key, entry: MapEntry) -> None:
    """Raises ValueError for an entry that no item can hold."""
    if entry.as_of is None or entry != erasure(entry.as_of):
        _check_path(key, entry.path)
    if entry.as_of is not None and not isinstance(entry.as_of, datetime):
        raise TypeError(f"{key}: as_of is {entry.as_of!r}, expected a datetime with its offset from UTC")
    if entry.as_of is not None and entry.as_of.tzinfo is None:
        raise ValueError(f"{key}: {entry.as_of!r}: expected a time with its offset from UTC")
    try:
        if entry.as_of is not None:
            entry.as_of.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{key}: {entry.as_of!r}: expected a time between the years 1 and 9999 in UTC") from None


def _check_path(key: Key, path: MapPath) -> None:
    names = path if isinstance(path, tuple) else ()
    if len(names) < 2 or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{key}: {path!r}: expected the names of an attribute and of an entry, at least")
    attribute = path[0]
    if attribute in dict(key.attributes) or is_own(attribute):
        raise ValueError(f"{key}: {attribute} can't hold entries: it is part of the key, or the library's own")


def maps_along(path: MapPath) -> list[MapPath]:
    """The paths of the maps from the attribute down to `path` itself: `a`, `a.b`, `a.b.c`."""
    return [path[:length] for length in range(1, len(path) + 1)]


def maps_of(entries: Iterable[MapEntry]) -> list[MapPath]:
    """The paths of all maps that contain one of these entries, outer maps first."""
    paths = {path for entry in entries for path in maps_along(entry.path[:-1])}
    return sorted(paths, key=lambda path: (len(path), path))
