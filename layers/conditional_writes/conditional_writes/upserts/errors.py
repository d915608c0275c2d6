"""Why entries can't be written."""

from conditional_writes.items import Item, Key
from conditional_writes.sizes import MAXIMUM_ITEM_BYTES
from conditional_writes.upserts.entries import MapPath

MAXIMUM_UPSERTED_BYTES = MAXIMUM_ITEM_BYTES - 9_600
"""Upserts leave some room in an item: for other writers, and because the count of bytes may be too low."""


class NotAMap(Exception):
    """A value without a clock is in the place of a map, or an entry without `as_of` is inside of an entry.

    So no time decides. Nothing of this request was written.

    `path` leads to it; `found` says what it is: "a string", "an entry", …. `item` is the item as it is; None if two
    entries of one call contradict each other.
    """

    def __init__(self, key: Key, path: MapPath, found: str, item: Item | None) -> None:
        super().__init__(key, path, found, item)
        self.key, self.path, self.found, self.item = key, path, found, item

    def __str__(self) -> str:
        return f"{self.key}: {'.'.join(self.path)} is {self.found}, expected a map, to hold entries"


class NotAnEntry(Exception):
    """An entry without `as_of` would replace a map whose entries have clocks. Nothing of this request was written."""

    def __init__(self, key: Key, path: MapPath, item: Item | None) -> None:
        super().__init__(key, path, item)
        self.key, self.path, self.item = key, path, item

    def __str__(self) -> str:
        return f"{self.key}: {'.'.join(self.path)} holds entries of its own, expected an entry"


class ItemTooLarge(Exception):
    """The item would exceed, or come too close to, DynamoDB's 400 kB. Nothing of this request was written."""

    def __init__(self, key: Key, bytes_needed: int) -> None:
        super().__init__(key, bytes_needed)
        self.key, self.bytes_needed = key, bytes_needed

    def __str__(self) -> str:
        expected = f"expected at most {MAXIMUM_UPSERTED_BYTES:,}: an item holds 400 kB"
        return f"{self.key}: would have {self.bytes_needed:,} bytes, {expected}"
