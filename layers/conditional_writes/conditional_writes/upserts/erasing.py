"""Erases an item up to a time: what is left is what it would be if only the later entries had ever been written.

The mark of the erasure stays on the item: no upsert as of its time, or of an earlier one, is written any more. It never
expires, and names nothing of what was erased.
"""

from collections.abc import Collection
from typing import Any

from conditional_writes.core.own_attributes import CLOCKS_PREFIX, ERASED_AS_OF, ITEM_BYTES, REMOVED_BYTES, WRITE_ID
from conditional_writes.upserts.clocks import clocks_attribute, just_after, path_of
from conditional_writes.upserts.edit import Edit
from conditional_writes.upserts.reshape import drop_earlier

_KEPT = frozenset({WRITE_ID, ITEM_BYTES, REMOVED_BYTES})


def erase_up_to(edit: Edit, time: str, kept: Collection[str]) -> bool:
    """Drops all but the `kept` attributes and what is later than `time`. False: the edit is full before it is marked.

    What has no clock goes, too: other programs' attributes, and clocks that nobody can read.
    """
    edit.lock()
    kept = _KEPT.union(kept)
    for name in _attributes(edit):
        if name in kept:
            continue
        if edit.is_full or not drop_earlier(edit, (name,), just_after(time)):
            return False
        if not edit.clocks((name,)):
            edit.drop((clocks_attribute((name,)),))
            edit.drop((name,))
    for attribute in _clocks_of_no_map(edit):
        if edit.is_full:
            return False
        edit.drop((attribute,))
    edit.put((ERASED_AS_OF,), time)
    return True


def _attributes(edit: Edit) -> list[str]:
    """The item's attributes, and those of which only clocks are left; without the attributes that have the clocks."""
    for name, value in list(edit.item.items()):
        if name.startswith(CLOCKS_PREFIX) and not _are_clocks(name, value):
            edit.drop((name,))
    paths = (path_of(name) for name in edit.item if name.startswith(CLOCKS_PREFIX))
    names = {path[0] for path in paths if len(path) == 1}
    return sorted(names.union(name for name in edit.item if not name.startswith(CLOCKS_PREFIX)))


def _are_clocks(name: str, value: Any) -> bool:
    try:
        path = path_of(name)
    except (ValueError, TypeError):
        return False
    return isinstance(value, dict) and all(isinstance(text, str) for text in (*path, *value.values()))


def _clocks_of_no_map(edit: Edit) -> list[str]:
    """The attributes with the clocks of maps that nothing leads to, since another program removed a map around them."""
    led_to, lost = set(), list[str]()
    for path in sorted(path_of(name) for name in edit.item if name.startswith(CLOCKS_PREFIX)):
        if len(path) == 1 or (path[:-1] in led_to and path[-1] in edit.clocks(path[:-1])):
            led_to.add(path)
        else:
            lost.append(clocks_attribute(path))
    return lost
