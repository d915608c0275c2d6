"""Clocks: when an entry was last written, kept beside its map, so that the later of two writes wins.

Why they aren't kept inside of the map: docs/decisions/clocks-beside-the-maps.md.
"""

from collections.abc import Iterable, Sequence

from conditional_writes.conditions import absent, at_least, equals, is_map
from conditional_writes.items import Item, Key
from conditional_writes.upserts.clock_text import MAP_MARK, clock, clocks_attribute
from conditional_writes.upserts.draft import Draft
from conditional_writes.upserts.entries import MapEntry, MapPath, check_entry, maps_of
from conditional_writes.upserts.errors import NotAMap, NotAnEntry
from conditional_writes.upserts.shape import Shape


def winning(key: Key, entries: Iterable[MapEntry]) -> list[MapEntry]:
    """For each path the entry that wins. Raises ValueError for an invalid entry, NotAMap if one contains another."""
    winners: dict[MapPath, MapEntry] = {}
    for entry in entries:
        check_entry(key, entry)
        earlier = winners.get(entry.path)
        if earlier is None or _wins(entry, earlier):
            winners[entry.path] = entry
    for path in maps_of(winners.values()):
        if path in winners:
            raise NotAMap(key, path, "an entry", None)
    return sorted(winners.values(), key=lambda entry: entry.path)


def _wins(entry: MapEntry, earlier: MapEntry) -> bool:
    """Whether the entry wins over one that arrived before it."""
    if entry.as_of is None or earlier.as_of is None:
        return True
    return clock(entry) >= clock(earlier)


def is_superseded(key: Key, entry: MapEntry, shape: Shape, item: Item | None) -> bool:
    found = shape.clock(entry.path)
    if found == MAP_MARK:
        raise NotAnEntry(key, entry.path, item)
    return found is not None and entry.as_of is not None and bool(found >= clock(entry))


def set_clocks(draft: Draft, entries: Sequence[MapEntry], shape: Shape) -> None:
    """Sets the clock of each entry that has one, if it is later than the one in the item.

    An entry without `as_of` only asserts that it doesn't replace a map whose entries have clocks.
    """
    clocked = [entry for entry in entries if entry.as_of is not None]
    for entry in entries:
        if entry.as_of is None:
            draft.forbidden.append(equals((clocks_attribute(entry.path[:-1]), entry.path[-1]), MAP_MARK))
    for path, clocks in _new_clocks(clocked).items():
        attribute = clocks_attribute(path)
        if path not in shape.clocks:
            draft.required.append(absent(attribute))
            draft.values[attribute] = clocks
            continue
        draft.required.append(is_map(attribute))
        for name, new in clocks.items():
            if new != MAP_MARK:
                draft.forbidden.append(at_least((attribute, name), new))
                draft.values[attribute, name] = new
            elif (*path, name) not in shape.clocks and shape.clock((*path, name)) != MAP_MARK:
                draft.required.append(absent((attribute, name)))
                draft.values[attribute, name] = MAP_MARK


def _new_clocks(entries: Sequence[MapEntry]) -> dict[MapPath, dict[str, str]]:
    """By each map's path the clocks of its entries, and the mark of each map in it."""
    clocks: dict[MapPath, dict[str, str]] = {path: {} for path in maps_of(entries)}
    for path in clocks:
        outer, name = path[:-1], path[-1]
        if outer in clocks:
            clocks[outer][name] = MAP_MARK
    for entry in entries:
        clocks[entry.path[:-1]][entry.path[-1]] = clock(entry)
    return clocks
