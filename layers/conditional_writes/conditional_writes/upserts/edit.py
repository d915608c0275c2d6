"""The changes of one request to an item that was found, or that is assumed, and their conditions."""

import itertools
from collections.abc import Iterable
from typing import Any

from conditional_writes.core.items import Item, Key, item_bytes, serialized, value_bytes
from conditional_writes.core.own_attributes import CLOCKS_PREFIX, ERASED_AS_OF, ITEM_BYTES, MARKS
from conditional_writes.core.requests import (
    Condition,
    Update,
    absent,
    all_of,
    any_of,
    at_least,
    equals,
    is_map,
    less_than,
    more_than,
)
from conditional_writes.upserts.clocks import (
    MISSING,
    clock_path,
    clocks_attribute,
    is_map_mark,
    later_around,
    later_at,
    map_mark,
    time_of,
    time_text,
    value_at,
)
from conditional_writes.upserts.entries import REMOVED, MapEntry, MapPath, maps_along
from conditional_writes.upserts.errors import MAXIMUM_UPSERTED_BYTES, ItemTooLarge

_CHARACTERS = 3_400
"""An expression holds 4,096 characters, and 300 operators, which so few characters don't have. The rest is for the last
change, which has one path a level and three more, and for the parts of every request."""


_CONDITION_CHARACTERS = 24
"""Of `(attribute_type(…,…)) AND`."""


def _characters(path: MapPath) -> int:
    """A placeholder and a dot for each name, and the value's."""
    return 7 + 5 * len(path)


class Edit:
    """The item after a request. It shares unchanged values with the item that was found, which is never modified.

    DynamoDB sets `a.b.c` only if `a.b` is a map. So a value is set in its map if that exists, and the highest missing
    map is set whole. The request is refused if a map in which it sets something is none. A clock that it changes must
    be as it was found, or below a limit, so that other entries may be written at the same time. If the request depends
    on more, `lock` makes it conditional on the whole item.

    `added` has the numbers that it adds to attributes.
    """

    def __init__(self, found: Item) -> None:
        self.found = found
        self.item = dict(found)
        self.added: dict[str, int] = {}
        self._changed: dict[MapPath, None] = {}  # a set that keeps its order
        self._own: dict[MapPath, Item] = {}  # the maps that are copies already
        self._maps: set[MapPath] = set()
        self._expected: set[MapPath] = set()
        self._limits: dict[MapPath, str] = {}
        self._forbidden: dict[MapPath, Condition] = {}
        self._is_locked = False

    def copy(self) -> "Edit":
        """An independent copy: a change to one of the two edits doesn't change the other."""
        other = Edit(self.found)
        other.item, other.added, other._is_locked = dict(self.item), dict(self.added), self._is_locked
        other._changed, other._maps, other._expected = dict(self._changed), set(self._maps), set(self._expected)
        other._limits, other._forbidden = dict(self._limits), dict(self._forbidden)
        self._own = {}  # from now on both share the maps
        return other

    def get(self, path: MapPath) -> Any:
        """The value at the path, or MISSING."""
        return value_at(self.item, path)

    def clocks(self, path: MapPath) -> Item:
        """The clocks of a map's entries; empty if it has none."""
        clocks: Item = self.item.get(clocks_attribute(path), {})
        return clocks

    def put(self, path: MapPath, value: Any) -> None:
        """Sets the value. All maps around it exist."""
        self._map_around(path)[path[-1]] = value

    def drop(self, path: MapPath) -> None:
        """Removes the value, if there is one."""
        if self.get(path) is not MISSING:
            self.remove(path)

    def remove(self, path: MapPath) -> None:
        """Removes the value, also one that comes in between. All maps around it exist."""
        self._map_around(path).pop(path[-1], None)

    def lock(self) -> None:
        """Makes the request fail if the library writes the item in between."""
        self._is_locked = True

    def expect_as_found(self, path: MapPath) -> None:
        """Makes the request fail if the value at the path isn't what was found: also if nothing was."""
        if not self._is_inside_a_change(path):
            self._expected.add(path)

    def limit(self, path: MapPath, text: str) -> None:
        """Makes the request fail if there is a text at the path that is this one or a later one."""
        if not self._is_inside_a_change(path):
            self._limits[path] = min(text, self._limits.get(path, text))

    def forbid(self, path: MapPath, condition: Condition) -> None:
        """Makes the request fail if this condition of the value at the path holds."""
        self._forbidden[path] = condition

    def fit(self, entries: Iterable[MapEntry]) -> None:
        """Sets or removes entries, and sets their clocks. In the place of none is a map with clocks.

        No entry is inside of another.
        """
        earliest: dict[tuple[MapPath, bool], str] = {}
        for entry in entries:
            time = "" if entry.as_of is None else time_text(entry.as_of)
            group = entry.path[:-1], bool(time)
            earliest[group] = min(time, earliest.get(group, time))
        for (path, _), time in earliest.items():
            self.make_maps(path, time)
        for entry in entries:
            self._set(entry)

    def _set(self, entry: MapEntry) -> None:
        if entry.value is REMOVED:
            self.remove(entry.path)
        else:
            self.put(entry.path, entry.value)
        place = clock_path(entry.path)
        if entry.as_of is None:
            self.limit(place, map_mark())
            return
        later = later_at(entry)
        if not is_map_mark(self.clocks(entry.path[:-1]).get(entry.path[-1], "")):
            self.limit(place, later.entry)
        self.put(place, later.entry)

    def make_maps(self, path: MapPath, time: str) -> None:
        """Makes the missing maps down to this path, and maps of earlier entries: for entries of this time or later.

        Each has its clocks. For entries without a time, which is empty, maps are made without clocks.
        """
        if time:
            self.limit((ERASED_AS_OF,), time)
        for each in maps_along(path):
            place = clock_path(each) if len(each) > 1 else None
            mark = self.clocks(each[:-1]).get(each[-1])
            was_entry = mark is not None and not is_map_mark(mark)
            if was_entry or self.get(each) is MISSING:
                if not was_entry:
                    self.expect_as_found(each)
                self.put(each, {})
            if not time:
                if place:  # an entry with a clock can't become a map
                    self.forbid(place, less_than(place, map_mark()))
                continue
            if place and (was_entry or mark is None):
                self.put(place, map_mark(time_of(mark or "")))
            elif place and not self._is_inside_a_change(place):
                self._maps.add(place[:1])
                self.limit(place, later_around(time).floor)
            if was_entry or clocks_attribute(each) not in self.item:
                self.put((clocks_attribute(each),), {})

    def _all_expected(self) -> list[MapPath]:
        """The paths whose values have to be as they were found: the marks of the last writes, or the changed clocks."""
        if self._is_locked:
            return [(mark,) for mark in MARKS]
        clocks = {path for path in self._changed if path[0].startswith(CLOCKS_PREFIX) and path not in self._limits}
        return sorted(self._expected | clocks)

    def _is_inside_a_change(self, path: MapPath) -> bool:
        for length in range(1, len(path) + 1):  # noqa: SIM110 (a generator takes thrice the time)
            if path[:length] in self._changed:
                return True
        return False

    def _map_around(self, path: MapPath) -> Item:
        """A copy of the map, in its place; the path counts as changed, and what was changed inside of it doesn't."""
        inside = self._copied(path[:-1])
        if isinstance(inside.get(path[-1]), dict):
            self._own = {other: copy for other, copy in self._own.items() if other[: len(path)] != path}
            self._changed = {other: None for other in self._changed if other[: len(path)] != path}
        if not self._is_inside_a_change(path):
            self._changed[path] = None
        return inside

    def _copied(self, path: MapPath) -> Item:
        if not path:
            return self.item
        if path not in self._own:
            around = self._copied(path[:-1])
            self._own[path] = around[path[-1]] = dict(around[path[-1]])
        return self._own[path]

    @property
    def is_empty(self) -> bool:
        return not self._changed

    @property
    def is_full(self) -> bool:
        """Whether a request may have no room for another change."""
        conditions = [*self._maps_around(), *self._all_expected(), *self._limits]
        return (
            sum(map(_characters, self._changed)) > _CHARACTERS
            or sum(_CONDITION_CHARACTERS + _characters(path) for path in conditions) > _CHARACTERS
        )

    def update(self, key: Key, version_attribute: str | None) -> Update:
        """The request. It counts the item's bytes, and with `version_attribute` a version. Raises ItemTooLarge."""
        changed = {path: self.get(path) for path in self._changed}
        values = {path: value for path, value in changed.items() if value is not MISSING}
        self._count_bytes(key, values)
        required = [*map(is_map, self._maps_around()), *map(self._as_found, self._all_expected())]
        forbidden = [*itertools.starmap(at_least, self._limits.items()), *self._forbidden.values()]
        return Update(
            key,
            values,
            all_of([*required, *([~any_of(forbidden)] if forbidden else [])]),
            [path for path, value in changed.items() if value is MISSING],
            self.added | ({version_attribute: 1} if version_attribute else {}),
            makes_version=version_attribute is not None,
            may_repeat=True,  # the count of bytes is an upper bound, and a version may grow by two
        )

    def _count_bytes(self, key: Key, values: dict[MapPath, Any]) -> None:
        """Sets the count of the item's bytes, or adds to it. It is an upper bound, because entries are set unseen.

        The bytes are counted anew if nobody can write in between, or if the upper bound would exceed the limit. If all
        that the request changes is as it was found, it is known by how much the item grows.
        """
        if self._is_locked:
            values[ITEM_BYTES,] = self._size(key)
        elif not self._limits:
            if ITEM_BYTES in self.found:
                self.added[ITEM_BYTES] = item_bytes(self.item) - item_bytes(self.found)
        else:
            self._add_bytes(key, values)

    def _add_bytes(self, key: Key, values: dict[MapPath, Any]) -> None:
        counted, new = int(self.found.get(ITEM_BYTES, 0)), 0
        for path, value in values.items():
            serialized(".".join(path), value)  # raises the error for a value that DynamoDB can't hold
            new += 1 + len(path[-1].encode()) + value_bytes(value)
        if counted + new > MAXIMUM_UPSERTED_BYTES:
            self._expected.add((ITEM_BYTES,))
            values[ITEM_BYTES,] = self._size(key)
        else:
            self.forbid((ITEM_BYTES,), more_than(ITEM_BYTES, MAXIMUM_UPSERTED_BYTES - new))
            self.added[ITEM_BYTES] = new

    def _size(self, key: Key) -> int:
        """The size of the item after the request. Raises ItemTooLarge if it is too large, and grows."""
        size = item_bytes(self.item | dict(key.attributes))
        if size > item_bytes(self.found | dict(key.attributes)):
            check_size(key, size)
        return size

    def _as_found(self, path: MapPath) -> Condition:
        found = value_at(self.found, path)
        return absent(path) if found is MISSING else equals(path, found)

    def _maps_around(self) -> list[MapPath]:
        return sorted({path[:-1] for path in self._changed if len(path) > 1} | self._maps)


def check_size(key: Key, size: int) -> None:
    """Raises ItemTooLarge."""
    if size > MAXIMUM_UPSERTED_BYTES:
        raise ItemTooLarge(key, size)
