"""Clocks: when an entry was last written, kept beside its map, so that the later of two writes wins.

Of an entry, its removal, and a map of the same name the latest wins, too, whichever arrives first. Why the clocks
aren't kept inside of the map: docs/decisions/clocks-beside-the-maps.md.
"""

from collections.abc import Iterable, Sequence
from enum import Enum

from conditional_writes.conditions import absent, at_least, is_map, less_than, more_than
from conditional_writes.items import Item, Key
from conditional_writes.own_attributes import ERASED_AS_OF
from conditional_writes.upserts.clock_text import (
    clock,
    clocks_attribute,
    floor_of,
    is_map_mark,
    map_mark,
    time_of,
    time_text,
)
from conditional_writes.upserts.draft import Draft
from conditional_writes.upserts.entries import MapEntry, MapPath, check_entry, is_erasure, maps_along, maps_of
from conditional_writes.upserts.errors import NotAMap, NotAnEntry
from conditional_writes.upserts.shape import Shape


def winning(key: Key, entries: Iterable[MapEntry]) -> list[MapEntry]:
    """For each path the entry that wins. Raises ValueError for an invalid entry.

    Raises NotAMap if an entry without `as_of` is inside of another, or has another inside of it.
    """
    winners: dict[MapPath, MapEntry] = {}
    for entry in entries:
        check_entry(key, entry)
        earlier = winners.get(entry.path)
        if earlier is None or _wins(entry, earlier):
            winners[entry.path] = entry
    for inner in winners.values():
        for path in maps_along(inner.path[:-1]):
            if path in winners and None in (inner.as_of, winners[path].as_of):
                raise NotAMap(key, path, "an entry", None)
    return list(winners.values())


def _wins(entry: MapEntry, earlier: MapEntry) -> bool:
    """Whether the entry wins over one that arrived before it."""
    if entry.as_of is None or earlier.as_of is None:
        return True
    return clock(entry) >= clock(earlier)


class Standing(Enum):
    """The relation of an entry to the item that was found."""

    SUPERSEDED = "the item has this write, or a later one at its path or at that of a map around it, or was erased"
    ERASES = "it is an erasure, later than the one that the item has a mark of"
    FITS = "each map around it is a map or missing, and it is an entry or missing"
    RESHAPES = "an earlier entry has to become a map around it, or a map has to become the entry"


def standing(key: Key, entry: MapEntry, shape: Shape, item: Item) -> Standing:
    """The standing of an entry. `shape` is that of the `item`.

    Raises NotAMap or NotAnEntry if the entry, or the value in its way, has no clock, so that no time decides.
    """
    time = "" if entry.as_of is None else time_text(entry.as_of)
    if time and time <= shape.erased_as_of:
        return Standing.SUPERSEDED
    return Standing.ERASES if is_erasure(entry) else _standing_in_its_maps(key, entry, time, shape, item)


def _standing_in_its_maps(key: Key, entry: MapEntry, time: str, shape: Shape, item: Item) -> Standing:
    reshapes = False
    for path in maps_along(entry.path[:-1]):
        found = shape.clock(path)
        if found is None or is_map_mark(found):
            if path in shape.others and not reshapes:  # else it is a part of an earlier entry's value
                raise NotAMap(key, path, shape.others[path], item)
            if time and found is not None and time < floor_of(found):
                return Standing.SUPERSEDED
            continue
        if not time:
            raise NotAMap(key, path, "an entry", item)
        if time < time_of(found):
            return Standing.SUPERSEDED
        reshapes = True
    found = shape.clock(entry.path)
    if found is not None and is_map_mark(found):
        if not time:
            raise NotAnEntry(key, entry.path, item)
        return Standing.SUPERSEDED if time <= floor_of(found) else Standing.RESHAPES
    if found is not None and time and found >= clock(entry):
        return Standing.SUPERSEDED
    return Standing.RESHAPES if reshapes else Standing.FITS


def set_clocks(draft: Draft, entries: Sequence[MapEntry], shape: Shape) -> None:
    """Sets the clock of each entry that has one, if it is later than the one in the item and than its erasure.

    An entry without `as_of` only asserts that it doesn't replace a map whose entries have clocks, and that it isn't
    inside of an entry that has one.
    """
    clocked = [entry for entry in entries if entry.as_of is not None]
    others = [entry for entry in entries if entry.as_of is None]
    for *outer, name in (entry.path for entry in others):
        draft.forbidden.append(at_least((clocks_attribute(tuple(outer)), name), map_mark()))
    for *outer, name in (path for path in maps_of(others) if len(path) > 1):
        draft.forbidden.append(less_than((clocks_attribute(tuple(outer)), name), map_mark()))
    if clocked:
        draft.forbidden.append(at_least(ERASED_AS_OF, min(time_text(each.as_of) for each in clocked if each.as_of)))
    earliest = _earliest_times(clocked)
    for path, clocks in _new_clocks(clocked).items():
        attribute = clocks_attribute(path)
        if path not in shape.clocks:
            draft.required.append(absent(attribute))
            draft.values[attribute] = clocks
            continue
        draft.required.append(is_map(attribute))
        for name, new in clocks.items():
            inner = (*path, name)
            if not is_map_mark(new):
                draft.forbidden.append(at_least((attribute, name), new))
                draft.values[attribute, name] = new
            elif inner in shape.clocks or shape.clock(inner) is not None:
                draft.forbidden.append(more_than((attribute, name), map_mark(earliest[inner])))
            else:
                draft.required.append(absent((attribute, name)))
                draft.values[attribute, name] = new


def _new_clocks(entries: Sequence[MapEntry]) -> dict[MapPath, dict[str, str]]:
    """The new clocks by the path of their map, `{path: {name: clock}}`, and the mark of each map inside another."""
    clocks: dict[MapPath, dict[str, str]] = {path: {} for path in maps_of(entries)}
    for path in clocks:
        outer, name = path[:-1], path[-1]
        if outer in clocks:
            clocks[outer][name] = map_mark()
    for entry in entries:
        clocks[entry.path[:-1]][entry.path[-1]] = clock(entry)
    return clocks


def _earliest_times(entries: Iterable[MapEntry]) -> dict[MapPath, str]:
    """The time of the earliest of the entries in each map, which no floor of the map may exceed."""
    earliest: dict[MapPath, str] = {}
    for entry in entries:
        assert entry.as_of is not None
        time = time_text(entry.as_of)
        for path in maps_along(entry.path[:-1]):
            earliest[path] = min(time, earliest.get(path, time))
    return earliest
