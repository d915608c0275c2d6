"""Why entries can't be written."""

from conditional_writes.core.items import MAXIMUM_ITEM_BYTES, Item, Key
from conditional_writes.upserts.entries import MapPath

MAXIMUM_UPSERTED_BYTES = MAXIMUM_ITEM_BYTES - 9_600
"""Upserts leave some room in an item: for other writers, and because the count of bytes may be too low."""


class NotAMap(Exception):
    """A value without a clock is in the place of a map, or an entry without `as_of` is inside of an entry.

    So no time decides. Nothing of this request was written.

    `path` leads to the value; `kind` says what it is: "a string", "an entry", …. `found` is the item as it is; None if
    two entries of one call contradict each other.
    """

    def __init__(self, key: Key, path: MapPath, kind: str, found: Item | None) -> None:
        super().__init__(key, path, kind, found)
        self.key, self.path, self.kind, self.found = key, path, kind, found

    def __str__(self) -> str:
        return f"{self.key}: {'.'.join(self.path)} is {self.kind}, expected a map, to hold entries"


class NotAnEntry(Exception):
    """An entry without `as_of` would replace a map whose entries have clocks. Nothing of this request was written.

    `path` leads to the map. `found` is the item as it is; None if two entries of one call contradict each other.
    """

    def __init__(self, key: Key, path: MapPath, found: Item | None) -> None:
        super().__init__(key, path, found)
        self.key, self.path, self.found = key, path, found

    def __str__(self) -> str:
        return f"{self.key}: {'.'.join(self.path)} holds entries of its own, expected an entry"


class ItemTooLarge(Exception):
    """The item would exceed, or come too close to, DynamoDB's 400 kB. Nothing of this request was written.

    `bytes_needed` is the size that the item would have; None if DynamoDB refused it, and didn't say.
    """

    def __init__(self, key: Key, bytes_needed: int | None) -> None:
        super().__init__(key, bytes_needed)
        self.key, self.bytes_needed = key, bytes_needed

    def __str__(self) -> str:
        needed = f"more than {MAXIMUM_ITEM_BYTES:,}" if self.bytes_needed is None else f"{self.bytes_needed:,}"
        expected = f"expected at most {MAXIMUM_UPSERTED_BYTES:,}: an item holds 400 kB"
        return f"{self.key}: would have {needed} bytes, {expected}"
