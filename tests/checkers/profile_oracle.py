"""The profile that a set of writes makes, whatever their order: docs/profiles.md, as a function of the set alone.

A write sets or removes the entry at a path, as of a time. Of an entry, its removal and a map of the same name the later
time wins; of equal times a value beats a removal, the larger hash of two values the smaller, and a map both. An
erasure beats all that isn't later.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from conditional_writes.core.items import Item, item_bytes, same
from conditional_writes.upserts import REMOVED, MapEntry
from conditional_writes.upserts.clocks import clock

type Path = tuple[str, ...]
"""The names from an attribute down to an entry, or to a map in which entries are."""
EVERYTHING: Path = ()
TIME = "2026-02-28T12:09:00.000000+00:00"


class Write(NamedTuple):
    """`value` is REMOVED for a removal. `path` has two names at least, for an attribute is always a map.

    An erasure of the whole profile is a removal at EVERYTHING.
    """

    path: Path
    value: Any
    time: datetime


def living(writes: Iterable[Write]) -> list[Write]:
    """The writes that no other one supersedes: none at the same path is greater, and none of a map around is later.

    All are later than every erasure. The erasures themselves aren't among them.
    """
    writes = list(writes)
    erasures = [write.time for write in writes if write.path == EVERYTHING]
    greatest: dict[Path, Write] = {}
    for write in writes:
        if any(write.time <= time for time in erasures):
            continue
        greatest[write.path] = max(greatest.get(write.path, write), write, key=_rank)

    def is_latest(write: Write) -> bool:
        return all(greatest[outer].time <= write.time for outer in _around(write.path) if outer in greatest)

    return [write for write in greatest.values() if is_latest(write)]


def standing(writes: Iterable[Write]) -> dict[Path, Any]:
    """The values that are in the profile, by their paths. A name with a live write below it is a map, maybe empty."""
    live = living(writes)
    maps = _maps(live)
    return {write.path: write.value for write in live if write.path not in maps and write.value is not REMOVED}


def differences(values: Mapping[Path, Any], found: Item) -> Iterator[str]:
    """Yields a sentence for each value that isn't found, and for each that is found but doesn't stand.

    `found` has the item's maps, without the key and the library's own attributes. Empty maps don't count.
    """
    for path, value in values.items():
        there = _at(found, path)
        if there is REMOVED:
            yield f"{_named(path)} is lost, expected {value!r}"
        elif not same(there, value):
            yield f"{_named(path)} is {there!r}, expected {value!r}"
    maps = {path[:length] for path in values for length in range(1, len(path))}
    yield from _unexpected((), found, values.keys(), maps)


def most_bytes(writes: Iterable[Write], oldest: datetime, key_and_marks: Item) -> int:
    """The size of an item that holds what stands, its clocks, and the removals' clocks that aren't before `oldest`.

    No map has gone yet: neither one that removals have left empty, nor the time of its own last entry or removal.
    """
    live = living(writes)
    maps = _maps(live)
    item: Item = dict(key_and_marks)
    for path in sorted(maps, key=len):
        _put(item, path, {})
        item[f"cw:as_of {json.dumps(path, ensure_ascii=False)}"] = {}
    for write in live:
        if write.path not in maps and write.value is not REMOVED:
            _put(item, write.path, write.value)
    clocks = {path: f"~{TIME}" for path in maps if len(path) > 1} | {
        write.path: TIME if write.value is REMOVED else f"{TIME} {'f' * 16}"
        for write in live
        if write.path not in maps and (write.value is not REMOVED or write.time >= oldest)
    }
    for path, text in clocks.items():
        item[f"cw:as_of {json.dumps(path[:-1], ensure_ascii=False)}"][path[-1]] = text
    return item_bytes(item)


def removal_bytes(writes: Iterable[Write], oldest: datetime) -> int:
    """The bytes of the removals' clocks that aren't before `oldest`: they must be remembered, of what is gone."""
    removals = [write for write in living(writes) if write.value is REMOVED and write.time >= oldest]
    return sum(1 + len(write.path[-1].encode()) + len(TIME) for write in removals)


def _rank(write: Write) -> tuple[datetime, bool, str]:
    is_value = write.value is not REMOVED
    return write.time, is_value, clock(MapEntry(*write)) if is_value else ""


def _around(path: Path) -> list[Path]:
    """The paths of the maps around an entry that could be entries themselves."""
    return [path[:length] for length in range(2, len(path))]


def _maps(live: Iterable[Write]) -> set[Path]:
    return {write.path[:length] for write in live for length in range(1, len(write.path))}


def _put(item: Item, path: Path, value: Any) -> None:
    for name in path[:-1]:
        item = item[name]
    item[path[-1]] = value


def _at(item: Any, path: Path) -> Any:
    """The value at the path, or REMOVED if there is none."""
    for name in path:
        if not isinstance(item, dict) or name not in item:
            return REMOVED
        item = item[name]
    return item


def _unexpected(outer: Path, found: Item, values: Iterable[Path], maps: set[Path]) -> Iterator[str]:
    for name, value in found.items():
        path = (*outer, name)
        if path in maps and isinstance(value, dict):
            yield from _unexpected(path, value, values, maps)
        elif path not in values and path not in maps and not _is_empty(value):
            yield f"{_named(path)} is {value!r}, but no write of it stands"


def _is_empty(value: Any) -> bool:
    """Whether it is a map with nothing but empty maps in it."""
    return isinstance(value, dict) and all(map(_is_empty, value.values()))


def _named(path: Sequence[str]) -> str:
    return ".".join(path)


def is_mark(attribute: str) -> bool:
    marks = {"account_id", "cw:write_id", "cw:version_id", "cw:item_bytes", "cw:removed_bytes", "cw:erased_as_of"}
    return attribute in marks or attribute.startswith("cw:as_of [")
