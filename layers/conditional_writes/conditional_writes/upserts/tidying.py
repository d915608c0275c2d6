"""Forgets removals, once no earlier write can arrive any more. Else each name that ever was would stay for ever.

An upsert doesn't see the item, so it counts: `cw:removed_bytes` has the bytes of the removals' clocks that were written
since the last tidying, minus those that were still needed then. If the count is too high, a request with a removal is
refused, and the item that comes back is tidied.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from conditional_writes.core.items import Item
from conditional_writes.core.own_attributes import CLOCKS_PREFIX
from conditional_writes.upserts.clocks import (
    MISSING,
    clock_path,
    clocks_attribute,
    floor_of,
    is_map_mark,
    is_removal,
    map_mark,
    path_of,
)
from conditional_writes.upserts.edit import Edit
from conditional_writes.upserts.entries import MapPath

MOST_REMOVED_BYTES = 1_024
"""A write unit's worth. Fewer bytes aren't worth a request."""


def clock_bytes(names: Iterable[str]) -> int:
    """The bytes of the clocks of removals, or of floors, under these names."""
    return sum(2 + len(name.encode()) + _TIME_BYTES for name in names)


_TIME_BYTES = len("2026-02-28T12:00:00.000000+00:00")


class Tidied(NamedTuple):
    """`forgotten_bytes` are those of the removals' clocks that go. `needed_bytes` are those of the clocks that stay.

    `needed_bytes` is None if the edit became full before all maps were tidied.
    """

    edit: Edit
    forgotten_bytes: int
    needed_bytes: int | None


def tidied(found: Item, before: str) -> Tidied:
    """Forgets the removals before this time, the floors of maps likewise, and drops the maps that were left empty."""
    edit, forgotten_bytes, needed_bytes = Edit(found), 0, 0
    paths = [path_of(attribute) for attribute in found if attribute.startswith(CLOCKS_PREFIX)]
    for path in sorted(paths, reverse=True):  # inner maps first, so that an outer one may become empty
        if edit.is_full:
            return Tidied(edit, forgotten_bytes, None)
        clocks = edit.clocks(path)
        kept = {
            name: map_mark() if is_map_mark(each) and floor_of(each) < before else each
            for name, each in clocks.items()
            if not (is_removal(each) and each < before)
        }
        is_left_empty = not kept and edit.get(path) in (MISSING, {})
        for name, clock in list(clocks.items()):  # a map inside may have made them the edit's own
            if kept.get(name) == clock:
                continue
            if edit.is_full:
                return Tidied(edit, forgotten_bytes, None)
            forgotten_bytes += clock_bytes([name])
            if name in kept:
                edit.put((clocks_attribute(path), name), kept[name])
            elif not is_left_empty:
                edit.drop((clocks_attribute(path), name))
        if is_left_empty:
            _drop_map(edit, path)
        needed_bytes += _removed_bytes_of(kept)
    return Tidied(edit, forgotten_bytes, needed_bytes)


def removed_bytes(edit: Edit) -> int:
    """The bytes of the clocks of all removals in the item, and of all floors."""
    return sum(_removed_bytes_of(clocks) for name, clocks in edit.item.items() if name.startswith(CLOCKS_PREFIX))


def _removed_bytes_of(clocks: Mapping[str, str]) -> int:
    return clock_bytes(
        name for name, each in clocks.items() if is_removal(each) or (is_map_mark(each) and floor_of(each))
    )


def _drop_map(edit: Edit, path: MapPath) -> None:
    edit.drop((clocks_attribute(path),))
    edit.expect_as_found(path)
    edit.drop(path)
    edit.drop(clock_path(path))  # Its floor can be forgotten, too: whatever was inside of the map was later.
