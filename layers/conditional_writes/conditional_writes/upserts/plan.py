"""The plan of a request: entries of one item as one Update, made from the item's shape.

DynamoDB sets `a.b.c` only if `a.b` is a map. So the entries are set one by one in the maps that exist, and the highest
missing map is set whole, with its entries in it. A condition names each map that is assumed to exist or to be missing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from conditional_writes.conditions import (
    AttributePath,
    absent,
    equals,
    is_map,
    more_than,
)
from conditional_writes.items import Item, Key, copied, serialized
from conditional_writes.loop import Observed, Plan
from conditional_writes.own_attributes import ITEM_BYTES
from conditional_writes.requests import Update
from conditional_writes.sizes import stored_bytes, value_bytes
from conditional_writes.upserts.clocks import is_superseded, set_clocks
from conditional_writes.upserts.draft import Draft
from conditional_writes.upserts.entries import REMOVED, MapEntry, MapPath, maps_along, maps_of
from conditional_writes.upserts.errors import MAXIMUM_UPSERTED_BYTES, ItemTooLarge
from conditional_writes.upserts.shape import Shape, assumed_shape, map_at, observed_shape


class Done(NamedTuple):
    """`written` counts the entries that weren't superseded; `depths` has how many maps of each path existed."""

    written: int
    depths: dict[MapPath, int]


def plan_request(
    key: Key,
    entries: Sequence[MapEntry],
    expected_depths: Mapping[MapPath, int],
    version_attribute: str | None,
    observed: Observed,
) -> Plan[Done]:
    """One request for these entries. `expected_depths` has all their maps' paths, for the time before the item is seen.

    Raises NotAMap, NotAnEntry and ItemTooLarge.
    """
    item = observed.get(key)
    shape = observed_shape(key, entries, item) if key in observed else assumed_shape(expected_depths)
    current = [entry for entry in entries if not is_superseded(key, entry, shape, item)]
    done = Done(len(current), {path: shape.depth(path) for path in expected_depths})
    if not current:
        return Plan(done)
    return Plan(done, [_update(key, current, shape, item, version_attribute)])


def in_requests(entries: Sequence[MapEntry]) -> Iterator[list[MapEntry]]:
    """The entries in as few requests as DynamoDB's expressions have room for."""
    request: list[MapEntry] = []
    for entry in entries:
        if request and not _fit_one_request([*request, entry]):
            yield request
            request = []
        request.append(entry)
    if request:
        yield request


_OPERATORS = 280
_CHARACTERS = 3_600
"""An expression holds 300 operators and 4,096 characters. The rest is for the conditions that every request has."""


def _fit_one_request(entries: Sequence[MapEntry]) -> bool:
    maps = len(maps_of(entries))
    operators = 2 * len(entries) + 8 * maps
    characters = sum(32 + 5 * (len(entry.path) - 2) for entry in entries) + 40 * maps
    return operators <= _OPERATORS and characters <= _CHARACTERS


def _update(
    key: Key, entries: Sequence[MapEntry], shape: Shape, item: Item | None, version_attribute: str | None
) -> Update:
    draft = Draft()
    _set_entries(draft, entries, shape)
    set_clocks(draft, entries, shape)
    if version_attribute:
        draft.added[version_attribute] = 1
    _count_bytes(draft, key, item)
    return draft.update(key)


def _set_entries(draft: Draft, entries: Sequence[MapEntry], shape: Shape) -> None:
    for path in maps_of(entries):
        if path in shape.maps:
            draft.required.append(is_map(path))
        elif len(path) == 1 or path[:-1] in shape.maps:
            draft.required.append(absent(path))
            draft.values[path] = {}
    for entry in entries:
        *outer, name = entry.path
        if tuple(outer) not in shape.maps:
            _set_in_missing_map(draft, entry)
        elif entry.value is REMOVED:
            draft.removed.append(entry.path)
        else:
            draft.values[*outer, name] = entry.value


def _set_in_missing_map(draft: Draft, entry: MapEntry) -> None:
    """Sets the entry inside of the highest missing map, and makes the maps between the two."""
    *outer, name = entry.path
    highest = next(path for path in maps_along(tuple(outer)) if path in draft.values)
    inside = draft.values[highest]
    for step in outer[len(highest) :]:
        inside = inside.setdefault(step, {})
    if entry.value is not REMOVED:
        inside[name] = entry.value


def _count_bytes(draft: Draft, key: Key, item: Item | None) -> None:
    """Adds the bytes of the new values to the item's count. Raises ItemTooLarge if they would exceed the limit."""
    new = sum(_bytes_of(path, value) for path, value in draft.values.items())
    if new > MAXIMUM_UPSERTED_BYTES:
        raise ItemTooLarge(key, new)
    counted = 0 if item is None else int(item.get(ITEM_BYTES, 0))
    if item is not None and counted + new > MAXIMUM_UPSERTED_BYTES:
        # The count never shrinks, so the item may be smaller. DynamoDB returned the item, so its bytes can be counted.
        draft.required.append(equals(ITEM_BYTES, counted))
        draft.values[ITEM_BYTES] = _bytes_after(draft, key, item)
    else:
        draft.forbidden.append(more_than(ITEM_BYTES, MAXIMUM_UPSERTED_BYTES - new))
        draft.added[ITEM_BYTES] = new


def _bytes_of(path: AttributePath, value: Any) -> int:
    name = path if isinstance(path, str) else path[-1]
    return 1 + len(name.encode()) + value_bytes(serialized(name, value))


def _bytes_after(draft: Draft, key: Key, item: Item) -> int:
    """The item's size after this request. Raises ItemTooLarge."""
    after = copied(item) | dict(key.attributes)
    for path, value in draft.values.items():
        *outer, name = (path,) if isinstance(path, str) else path
        map_at(after, outer)[name] = value
    for *outer, name in draft.removed:
        map_at(after, outer).pop(name, None)
    size = stored_bytes(after)
    if size > MAXIMUM_UPSERTED_BYTES:
        raise ItemTooLarge(key, size)
    return size
