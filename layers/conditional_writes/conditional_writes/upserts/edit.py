"""An item that was found, and what a request changes in it, if that depends on more than the shape of the item."""

from typing import Any, Final

from conditional_writes.conditions import Condition, absent, equals, is_map
from conditional_writes.items import Item
from conditional_writes.own_attributes import CLOCKS_PREFIX, MARKS
from conditional_writes.sizes import item_bytes
from conditional_writes.upserts.clock_text import clocks_attribute
from conditional_writes.upserts.draft import Draft
from conditional_writes.upserts.entries import MapPath
from conditional_writes.upserts.shape import map_at

_CHARACTERS = 3_400
_OPERATORS = 240
"""An expression holds 4,096 characters and 300 operators. The rest is for the last change, which has one path a level
and three more, and for the parts of every request."""


_CONDITION_CHARACTERS = 24
"""Of `(attribute_type(…,…)) AND`."""


def _characters(path: MapPath) -> int:
    """A placeholder and a dot for each name, and the value's."""
    return 7 + 5 * len(path)


MISSING: Final = object()


class Edit:
    """The item after a request. It shares unchanged values with the item that was found, which is never modified.

    The request is conditional on the clocks that it changes, so that other entries may be written at the same time. If
    it depends on more, `lock` makes it conditional on the whole item.
    """

    def __init__(self, found: Item) -> None:
        self.found = found
        self.item = dict(found)
        self._expected: set[MapPath] = set()
        self._is_locked = False
        self._changed: set[MapPath] = set()

    def copy(self) -> "Edit":
        """An independent copy: a change to one of the two edits doesn't change the other."""
        other = Edit(self.found)
        other.item = dict(self.item)
        other._changed, other._expected, other._is_locked = set(self._changed), set(self._expected), self._is_locked
        return other

    def get(self, path: MapPath) -> Any:
        """The value at the path, or MISSING."""
        value: Any = self.item
        for name in path:
            value = value.get(name, MISSING) if isinstance(value, dict) else MISSING
        return value

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
            del self._map_around(path)[path[-1]]

    def lock(self) -> None:
        """Makes the request fail if the library writes the item in between."""
        self._is_locked = True

    def expect_as_found(self, path: MapPath) -> None:
        """Makes the request fail if the value at the path isn't what was found: also if nothing was."""
        if not self._is_inside_a_change(path):
            self._expected.add(path)

    def _all_expected(self) -> list[MapPath]:
        """The paths whose values have to be as they were found: the marks of the last writes, or the changed clocks."""
        if self._is_locked:
            return [(mark,) for mark in MARKS]
        return sorted(self._expected | {path for path in self._changed if path[0].startswith(CLOCKS_PREFIX)})

    def _is_inside_a_change(self, path: MapPath) -> bool:
        return any(path[:length] in self._changed for length in range(1, len(path) + 1))

    def _map_around(self, path: MapPath) -> Item:
        """A copy of the map, in its place; the path counts as changed."""
        if not self._is_inside_a_change(path):
            self._changed = {other for other in self._changed if other[: len(path)] != path} | {path}
        inside = self.item
        for name in path[:-1]:
            inside[name] = dict(inside[name])
            inside = inside[name]
        return inside

    @property
    def is_empty(self) -> bool:
        return not self._changed

    @property
    def is_full(self) -> bool:
        """Whether a request may have no room for another change."""
        conditions = [*self._maps_around(), *self._all_expected()]
        return (
            sum(map(_characters, self._changed)) > _CHARACTERS
            or sum(_CONDITION_CHARACTERS + _characters(path) for path in conditions) > _CHARACTERS
            or 2 * len(conditions) > _OPERATORS
        )

    @property
    def grown_bytes(self) -> int:
        """How much larger the item will be; negative, if it will be smaller."""
        return item_bytes(self.item) - item_bytes(self.found)

    def draft(self) -> Draft:
        """The request with its conditions."""
        draft = Draft()
        for path in sorted(self._changed):
            value = self.get(path)
            if value is MISSING:
                draft.removed.append(path)
            else:
                draft.values[path] = value
        as_found = map(self._as_found, self._all_expected())
        draft.required += [*map(is_map, self._maps_around()), *as_found]
        return draft

    def _as_found(self, path: MapPath) -> Condition:
        *outer, name = path
        found = map_at(self.found, outer).get(name, MISSING)
        return absent(path) if found is MISSING else equals(path, found)

    def _maps_around(self) -> list[MapPath]:
        return sorted({path[:-1] for path in self._changed if len(path) > 1})
