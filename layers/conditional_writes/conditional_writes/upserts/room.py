"""The room in an item: an upsert doesn't see the item, so it counts the bytes that it writes."""

from typing import Any

from conditional_writes.conditions import AttributePath, equals, more_than
from conditional_writes.items import Item, Key, serialized
from conditional_writes.own_attributes import ITEM_BYTES
from conditional_writes.sizes import MAXIMUM_UPSERTED_BYTES, item_bytes, value_bytes
from conditional_writes.upserts.draft import Draft
from conditional_writes.upserts.edit import Edit
from conditional_writes.upserts.errors import ItemTooLarge


def count_bytes(draft: Draft, key: Key, item: Item | None) -> None:
    """Adds the bytes of the new values to the item's count. Raises ItemTooLarge if they would exceed the limit."""
    new = sum(_bytes_of(path, value) for path, value in draft.values.items())
    if new > MAXIMUM_UPSERTED_BYTES:
        raise ItemTooLarge(key, new)
    counted = int(item.get(ITEM_BYTES, 0)) if item else 0
    if item and counted + new > MAXIMUM_UPSERTED_BYTES:
        # The count is an upper bound. DynamoDB returned the item, so its bytes can be counted.
        draft.required.append(equals(ITEM_BYTES, counted))
        draft.values[ITEM_BYTES] = _bytes_after(draft, key, item)
    else:
        draft.forbidden.append(more_than(ITEM_BYTES, MAXIMUM_UPSERTED_BYTES - new))
        draft.added[ITEM_BYTES] = new


def _bytes_of(path: AttributePath, value: Any) -> int:
    name = path if isinstance(path, str) else path[-1]
    serialized(name, value)  # raises the error for a value that DynamoDB can't hold
    return 1 + len(name.encode()) + value_bytes(value)


def _bytes_after(draft: Draft, key: Key, item: Item) -> int:
    """The item's size after this request. Raises ItemTooLarge."""
    after = Edit(item | dict(key.attributes))
    for path, value in draft.values.items():
        after.put((path,) if isinstance(path, str) else path, value)
    for path in draft.removed:
        after.drop(path)
    size = item_bytes(after.item)
    check_size(key, size)
    return size


def check_size(key: Key, size: int) -> None:
    """Raises ItemTooLarge."""
    if size > MAXIMUM_UPSERTED_BYTES:
        raise ItemTooLarge(key, size)
