"""A clock as a text that sorts as the writes do, and the name of the attribute that has the clocks of a map."""

import hashlib
import json
from datetime import UTC
from decimal import Context, Decimal
from typing import Any

from conditional_writes.own_attributes import CLOCKS_PREFIX
from conditional_writes.upserts.entries import REMOVED, MapEntry, MapPath

MAP_MARK = "~"
"""Instead of a clock, for a map with entries of its own. Sorts after every clock."""


def clocks_attribute(path: MapPath) -> str:
    """The attribute with the clocks of this map's entries: `cw:as_of ["preferences"]`."""
    return CLOCKS_PREFIX + json.dumps(path, ensure_ascii=False)


def clock(entry: MapEntry) -> str:
    """Sorts by time. Ties: a value beats a removal; the larger hash of two values beats the smaller."""
    assert entry.as_of is not None
    time = entry.as_of.astimezone(UTC).isoformat(timespec="microseconds")
    if entry.value is REMOVED:
        return time
    return f"{time} {hashlib.sha256(_spelled(entry.value).encode()).hexdigest()[:16]}"


def _spelled(value: Any) -> str:
    """The same text for all values that are the same in DynamoDB."""
    match value:
        case bool() | None | str():
            return repr(value)
        case int() | Decimal():
            return str(_ANY_NUMBER.normalize(Decimal(value)) or 0)
        case dict():
            return "{" + ",".join(f"{name!r}:{_spelled(value[name])}" for name in sorted(value)) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_spelled, value)) + "]"
        case set() | frozenset():
            return "(" + ",".join(sorted(map(_spelled, value))) + ")"
        case bytes() | bytearray():
            return repr(bytes(value))
    return repr(value)  # DynamoDB has no such type: the entry is refused when it is serialized


_ANY_NUMBER = Context(prec=1000)
