"""Turns an entry into a map, or a map into an entry, if a later write says so.

A write at a path is superseded by a later write of a map around it. So a map keeps what is inside of it and isn't
earlier than the latest entry or removal in its own place, whose time is the floor in the map's mark.
"""

from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import NamedTuple

from conditional_writes.core.items import Item, Key, item_bytes, value_bytes
from conditional_writes.core.own_attributes import CLOCKS_PREFIX
from conditional_writes.upserts.clocks import (
    MISSING,
    Standing,
    clock_path,
    clocks_attribute,
    floor_of,
    is_map_mark,
    map_mark,
    path_of,
    standing,
    time_of,
    time_text,
    value_at,
)
from conditional_writes.upserts.edit import Edit
from conditional_writes.upserts.entries import REMOVED, MapEntry, MapPath


class Reshaped(NamedTuple):
    """An edit that makes these entries, as many of them as fit into a request.

    The `superseded` entries include those whose place keeps a map, because a part of it is later. The `unfinished`
    entry replaces a map that is too large for one request to drop.
    """

    edit: Edit
    written: list[MapEntry]
    superseded: list[MapEntry]
    unfinished: MapEntry | None = None


def reshaped(key: Key, entries: Sequence[MapEntry], edit: Edit) -> Reshaped:
    """Adds entries to a copy of the edit. Raises NotAMap and NotAnEntry."""
    written, superseded = list[MapEntry](), list[MapEntry]()
    for entry in entries:
        if edit.is_full:
            break
        if standing(key, entry, edit.item) is Standing.SUPERSEDED:
            superseded.append(entry)
            continue
        with_it = edit.copy()
        is_whole = _make_room(with_it, entry)
        if is_whole:
            (written if _set_entry(with_it, entry) else superseded).append(entry)
        elif not edit.is_empty:
            break  # it is too large for the rest of this request
        edit = with_it
        if not is_whole:
            return Reshaped(edit, written, superseded, unfinished=entry)
    return Reshaped(edit, written, superseded)


def bytes_in_the_end(entry: MapEntry, found: Item) -> int:
    """The size of the item once the entry is in the place of a map. At least, if a part of the map stays."""
    attributes = (name for name in found if name.startswith(CLOCKS_PREFIX))
    clocks = {name: found[name] for name in attributes if path_of(name)[: len(entry.path)] == entry.path}
    value = 0 if entry.value is REMOVED else value_bytes(entry.value)
    there = value_at(found, entry.path)
    return item_bytes(found) - item_bytes(clocks) - (0 if there is MISSING else value_bytes(there)) + value


def _make_room(edit: Edit, entry: MapEntry) -> bool:
    """Whether everything in the entry's place that is earlier was dropped. If not, the edit is full."""
    mark = edit.clocks(entry.path[:-1]).get(entry.path[-1])
    if mark is None or not is_map_mark(mark):
        return True
    assert entry.as_of is not None, "an entry without a clock doesn't replace a map"
    edit.lock()
    if drop_earlier(edit, entry.path, time_text(entry.as_of)):
        return True
    # The entry itself follows. Meanwhile nothing earlier may come into the map.
    floor = time_text(entry.as_of.astimezone(UTC) - timedelta(microseconds=1))
    edit.put(clock_path(entry.path), map_mark(floor))
    return False


def drop_earlier(edit: Edit, path: MapPath, time: str) -> bool:
    """Drops from a map what is earlier than `time`, or has no clock; inner maps first. False: the edit is full."""
    for name, mark in list(edit.clocks(path).items()):
        inner = (*path, name)
        if not is_map_mark(mark):
            continue
        if edit.is_full or not drop_earlier(edit, inner, time):
            return False
        if not edit.clocks(inner):
            edit.drop((clocks_attribute(inner),))
            edit.drop((clocks_attribute(path), name))
            edit.drop(inner)
        elif "" < floor_of(mark) < time:
            edit.put((clocks_attribute(path), name), map_mark())
    clocks, found = edit.clocks(path), edit.get(path)
    kept = {name: each for name, each in clocks.items() if time_of(each) >= time}  # a mark sorts after it
    if not isinstance(found, dict):  # another program's value in place of the map
        edit.drop(path)
    elif not found.keys() <= kept.keys():
        edit.put(path, {name: value for name, value in found.items() if name in kept})
    if kept != clocks:
        edit.put((clocks_attribute(path),), kept)
    return True


def _set_entry(edit: Edit, entry: MapEntry) -> bool:
    """Sets the entry, or removes it. If there is a map in its place, only the map's floor is set: False."""
    if edit.clocks(entry.path):
        assert entry.as_of is not None, "an entry without a clock doesn't replace a map"
        edit.put(clock_path(entry.path), map_mark(time_text(entry.as_of)))
        return False
    edit.drop((clocks_attribute(entry.path),))
    edit.fit([entry])
    return True
