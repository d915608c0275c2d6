"""Clocks: when an entry was last written, kept beside its map, so that the later of two writes wins.

A clock is a text that sorts as the writes do. An entry's is its time and a hash of its value; a removal's is its time
alone. A map inside a map has a mark instead, which sorts after every clock. The mark has a floor if the map's own name
was written, too, as an entry or as a removal: the time of the latest of those writes.

| found in the item                 | at the entry's path             | at the path of a map around it |
|-----------------------------------|---------------------------------|--------------------------------|
| no clock                          | the entry fits                  | it fits                        |
| an earlier entry or removal       | it fits                         | it becomes a map               |
| a later one                       | the entry is superseded         | the entry is superseded        |
| a map, its floor earlier, or none | the map becomes the entry       | it fits                        |
| a map, its floor later            | the entry is superseded         | the entry is superseded        |

`Later` has the texts from which on a row is a later one. They are compared with what was found, in `standing`, and by
DynamoDB, in the condition of a request (`Edit.fit`). Why clocks aren't inside of the map:
docs/decisions/clocks-beside-the-maps.md.
"""

import functools
import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Context, Decimal
from enum import Enum
from typing import Any, Final, NamedTuple

from conditional_writes.core.items import Item, Key, serialized
from conditional_writes.core.own_attributes import CLOCKS_PREFIX, ERASED_AS_OF
from conditional_writes.upserts.entries import REMOVED, MapEntry, MapPath, check_entry, maps_along
from conditional_writes.upserts.errors import NotAMap, NotAnEntry

MAP_MARK = "~"
MISSING: Final = object()


@functools.lru_cache(1024)
def clocks_attribute(path: MapPath) -> str:
    """The attribute with the clocks of this map's entries: `cw:as_of ["preferences"]`."""
    return CLOCKS_PREFIX + json.dumps(path, ensure_ascii=False)


def path_of(clocks_attribute: str) -> MapPath:
    """The path of the map whose clocks are in this attribute."""
    return tuple(json.loads(clocks_attribute.removeprefix(CLOCKS_PREFIX)))


def clock_path(path: MapPath) -> MapPath:
    """The place of the entry's clock, or of the map's mark: the attribute with its map's clocks, and its name."""
    return clocks_attribute(path[:-1]), path[-1]


def value_at(item: Item, path: MapPath) -> Any:
    """The value at the path, or MISSING."""
    value: Any = item
    for name in path:
        value = value.get(name, MISSING) if isinstance(value, dict) else MISSING
    return value


def time_text(time: datetime) -> str:
    """A time in UTC, to the microsecond."""
    return _utc_text(time.astimezone(UTC))


_utc_text = functools.lru_cache(1024)(functools.partial(datetime.isoformat, timespec="microseconds"))
"""Of times in UTC: two of one other zone are equal if their digits are, which come twice as summer time ends."""


def just_after(time: str) -> str:
    """A text that sorts after this time, and before every later one."""
    return time + " "


def time_of(clock: str) -> str:
    return clock.partition(" ")[0]


def clock(entry: MapEntry) -> str:
    """Sorts by time. Ties: a value beats a removal; the larger hash of two values beats the smaller."""
    assert entry.as_of is not None
    time = time_text(entry.as_of)
    if entry.value is REMOVED:
        return time
    return f"{time} {hashlib.sha256(_spelled(entry.value).encode()).hexdigest()[:16]}"


def map_mark(floor: str = "") -> str:
    return MAP_MARK + floor


def is_map_mark(clock: str) -> bool:
    return clock.startswith(MAP_MARK)


def is_removal(clock: str) -> bool:
    return not is_map_mark(clock) and " " not in clock


def floor_of(mark: str) -> str:
    """The time in a map's mark: everything earlier in the map is superseded. Empty if there is none."""
    return mark.removeprefix(MAP_MARK)


class Later(NamedTuple):
    """From `entry` on a clock is that of a later entry or removal; from `floor` on a mark has a later floor."""

    entry: str
    floor: str

    def supersedes(self, found: str) -> bool:
        return found >= (self.floor if is_map_mark(found) else self.entry)


def later_at(entry: MapEntry) -> Later:
    """Clocks later than the entry at its own path: the same write, and a floor of its time, count as later."""
    assert entry.as_of is not None
    return Later(clock(entry), map_mark(time_text(entry.as_of)))


def later_around(time: str) -> Later:
    """Clocks later than an entry of this time at the path of a map around it: at equal times the inside wins."""
    return Later(time + MAP_MARK, just_after(map_mark(time)))


def winning(key: Key, entries: Iterable[MapEntry]) -> list[MapEntry]:
    """For each path the entry that wins: the latest, or without `as_of` the last. Raises ValueError for an invalid one.

    Raises NotAMap if an entry without `as_of` is inside of another, or has another inside of it.
    """
    winners: dict[MapPath, MapEntry] = {}
    for entry in entries:
        check_entry(key, entry)
        earlier = winners.get(entry.path)
        if earlier is None or None in (entry.as_of, earlier.as_of) or clock(entry) >= clock(earlier):
            winners[entry.path] = entry
    for inner in winners.values():
        for path in maps_along(inner.path[:-1]):
            if path in winners and None in (inner.as_of, winners[path].as_of):
                raise NotAMap(key, path, "an entry", None)
    return list(winners.values())


class Standing(Enum):
    """The relation of an entry to the item that was found."""

    SUPERSEDED = "the item has this write, or a later one, or was erased since"
    FITS = "each map around it is a map or missing, and it is an entry or missing"
    RESHAPES = "an earlier entry has to become a map around it, or a map has to become the entry"


def is_erased(item: Item, entry: MapEntry) -> bool:
    """Whether the item was erased as of the entry's time, or of a later one."""
    return entry.as_of is not None and time_text(entry.as_of) <= item.get(ERASED_AS_OF, "")


def standing(key: Key, entry: MapEntry, item: Item) -> Standing:
    """The standing of an entry.

    Raises NotAMap or NotAnEntry if the entry, or the value in its way, has no clock, so that no time decides.
    """
    if is_erased(item, entry):
        return Standing.SUPERSEDED
    return _standing_by_clock(key, entry, item) if entry.as_of else _standing_by_shape(key, entry, item)


def _standing_by_clock(key: Key, entry: MapEntry, item: Item) -> Standing:
    assert entry.as_of is not None
    around, reshapes = later_around(time_text(entry.as_of)), False
    for path in maps_along(entry.path[:-1]):
        found = _clock_at(item, path)
        if (found is None or is_map_mark(found)) and not reshapes:  # else it is a part of an earlier entry's value
            _check_is_map(key, path, item)
        if found is not None and around.supersedes(found):
            return Standing.SUPERSEDED
        reshapes |= found is not None and not is_map_mark(found)
    found = _clock_at(item, entry.path)
    if found is not None and later_at(entry).supersedes(found):
        return Standing.SUPERSEDED
    return Standing.RESHAPES if reshapes or (found is not None and is_map_mark(found)) else Standing.FITS


def _standing_by_shape(key: Key, entry: MapEntry, item: Item) -> Standing:
    """An entry without a clock replaces neither an entry that has one by a map, nor a map whose entries have clocks."""
    for path in maps_along(entry.path[:-1]):
        found = _clock_at(item, path)
        if found is not None and not is_map_mark(found):
            raise NotAMap(key, path, "an entry", item)
        _check_is_map(key, path, item)
    if is_map_mark(_clock_at(item, entry.path) or ""):
        raise NotAnEntry(key, entry.path, item)
    return Standing.FITS


def _clock_at(item: Item, path: MapPath) -> str | None:
    """The clock of the entry at this path, or the mark of the map; None if it has none, as an attribute."""
    attribute, name = clock_path(path)
    clocks = item.get(attribute)
    return clocks.get(name) if clocks else None


def _check_is_map(key: Key, path: MapPath, item: Item) -> None:
    found = value_at(item, path)
    if found is not MISSING and not isinstance(found, dict):
        raise NotAMap(key, path, _TYPES[next(iter(serialized("", found)))], item)


_TYPES = {
    "S": "a string",
    "N": "a number",
    "B": "binary",
    "BOOL": "a truth value",
    "NULL": "null",
    "L": "a list",
    "SS": "a set of strings",
    "NS": "a set of numbers",
    "BS": "a set of binaries",
}


def _spelled(value: Any) -> str:
    """The same text for all values that are the same in DynamoDB."""
    match value:
        case bool() | None | str():
            return repr(value)
        case int() | Decimal():
            return str(_ANY_NUMBER.normalize(Decimal(value)) or 0)
        case dict():
            return "{" + ",".join(f"{name!r}:{_spelled(value[name])}" for name in sorted(value, key=str)) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_spelled, value)) + "]"
        case set() | frozenset():
            return "(" + ",".join(sorted(map(_spelled, value))) + ")"
        case bytes() | bytearray():
            return repr(bytes(value))
    return repr(value)  # DynamoDB has no such type: the entry is refused when it is serialized


_ANY_NUMBER = Context(prec=1000)
