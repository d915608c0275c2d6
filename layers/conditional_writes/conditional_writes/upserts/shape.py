"""The shape of an item: which of the maps around the entries exist, and the clocks in them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from conditional_writes.items import Item, Key, serialized
from conditional_writes.upserts.clock_text import MAP_MARK, clocks_attribute
from conditional_writes.upserts.entries import MapEntry, MapPath, maps_along, maps_of
from conditional_writes.upserts.errors import NotAMap


class Shape(NamedTuple):
    """`maps` has the paths of the maps that exist. `clocks` has the clocks of a map's entries by the map's path.

    In an assumed shape the clocks are None: they exist, but their values aren't known.
    """

    maps: set[MapPath]
    clocks: dict[MapPath, Item | None]

    def depth(self, path: MapPath) -> int:
        """How many of the maps along the path exist."""
        return sum(each in self.maps for each in maps_along(path))

    def clock(self, path: MapPath, default: str | None = None) -> Any:
        """The clock of the entry at this path; MAP_MARK for a map with entries of its own; else the default."""
        clocks = self.clocks.get(path[:-1]) or {}
        return clocks.get(path[-1], default)


def assumed_shape(depths: Mapping[MapPath, int]) -> Shape:
    """The shape before the item was seen: along each path the first maps exist, as many as its depth says."""
    maps = {each for path, depth in depths.items() for each in maps_along(path)[:depth]}
    return Shape(maps, dict.fromkeys(maps))


def observed_shape(key: Key, entries: Sequence[MapEntry], item: Item | None) -> Shape:
    """The shape of the item as it was found. Raises NotAMap."""
    attributes = item or {}
    shape = Shape(set(), {})
    for path in maps_of(entries):
        *outer, name = path
        clocks = attributes.get(clocks_attribute(path))
        if clocks is not None:
            shape.clocks[path] = clocks
        if shape.clock(path, MAP_MARK) != MAP_MARK:
            raise NotAMap(key, path, "an entry", item)
        if outer and tuple(outer) not in shape.maps:
            continue
        siblings = map_at(attributes, outer)
        if name not in siblings:
            continue
        found = siblings[name]
        if not isinstance(found, dict):
            raise NotAMap(key, path, _TYPES[next(iter(serialized("", found)))], item)
        shape.maps.add(path)
    return shape


def map_at(item: Item, path: Iterable[str]) -> Item:
    """The map at this path; for the empty path the item itself."""
    for name in path:
        item = item[name]
    return item


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
