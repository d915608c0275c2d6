"""The shape of an item: which of the maps around the entries exist, and the clocks in them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from conditional_writes.items import Item, serialized
from conditional_writes.own_attributes import ERASED_AS_OF
from conditional_writes.upserts.clock_text import clocks_attribute
from conditional_writes.upserts.entries import MapEntry, MapPath, maps_along, maps_of


class Shape(NamedTuple):
    """`maps` has the paths of the maps that exist. `clocks` has the clocks of a map's entries by the map's path.

    `others` says what else is at the path of a map: "a string". In an assumed shape the clocks are None: they exist,
    but their values aren't known. `erased_as_of` is the time of the latest erasure, empty if there was none.
    """

    maps: set[MapPath]
    clocks: dict[MapPath, Item | None]
    others: dict[MapPath, str]
    erased_as_of: str = ""

    def depth(self, path: MapPath) -> int:
        """How many of the maps along the path exist."""
        return sum(each in self.maps for each in maps_along(path))

    def clock(self, path: MapPath) -> str | None:
        """The clock of the entry at this path, or the mark of the map; None if it has none."""
        clocks = self.clocks.get(path[:-1]) or {}
        return clocks.get(path[-1])


def assumed_shape(depths: Mapping[MapPath, int]) -> Shape:
    """The shape before the item was seen: along each path the first maps exist, as many as its depth says."""
    maps = {each for path, depth in depths.items() for each in maps_along(path)[:depth]}
    return Shape(maps, dict.fromkeys(maps), {})


def observed_shape(entries: Sequence[MapEntry], item: Item) -> Shape:
    """The shape of the item as it was found."""
    shape = Shape(set(), {}, {}, item.get(ERASED_AS_OF, ""))
    for path in maps_of(entries):
        *outer, name = path
        clocks = item.get(clocks_attribute(path))
        if clocks is not None:
            shape.clocks[path] = clocks
        if outer and tuple(outer) not in shape.maps:
            continue
        siblings = map_at(item, outer)
        if name not in siblings:
            continue
        found = siblings[name]
        if isinstance(found, dict):
            shape.maps.add(path)
        else:
            shape.others[path] = _TYPES[next(iter(serialized("", found)))]
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
