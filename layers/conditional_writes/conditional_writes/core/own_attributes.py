"""The attributes that the library adds to items. All their names begin with one prefix."""

PREFIX = "cw:"

WRITE_ID = f"{PREFIX}write_id"
"""The id of the last write that made no version of the item: a repeated write finds its own id there."""

WRITE_ID_BYTES = len(WRITE_ID) + 32
"""The attribute's size in an item: its name, and a UUID's hexadecimal digits."""

VERSION_ID = f"{PREFIX}version_id"
"""The id of the write that made the item's version. A write that makes no version leaves it as it is."""

MARKS = (WRITE_ID, VERSION_ID)
"""The attributes that hold the id of a write."""

ITEM_BYTES = f"{PREFIX}item_bytes"
"""An upper bound of the item's size in bytes: upserts add what they write, and subtract what they forget. If the item
seems full, the bytes are counted anew."""

REMOVED_BYTES = f"{PREFIX}removed_bytes"
"""How much the clocks of removals have grown since the item was last tidied, in bytes."""

ERASED_AS_OF = f"{PREFIX}erased_as_of"
"""The time of the latest erasure. No upsert as of this time or an earlier one is written any more."""

CLOCKS_PREFIX = f"{PREFIX}as_of "
"""Begins the name of the attribute that has the clocks of one map's entries. The map's path follows, as a JSON list."""


def is_own(name: str) -> bool:
    """Whether the attribute is the library's own, so that nobody else may change it."""
    return name.startswith(PREFIX)
