"""The attributes of a lock's record that decide who gets the lock, and their types.

DynamoDB compares values of different types as unequal, so that a lease's end that is a number would be none.
"""

from decimal import Decimal

from conditional_writes.core.conditions import all_of
from conditional_writes.core.items import Item
from conditional_writes.core.requests import Condition

_TYPES = {
    "leased_until": "S",
    "token": "N",
    "times_acquired": "N",
    "last_released": "N",
    "windows_done": "L",
    "windows_done_through": "S",
}
_IN_PYTHON: dict[str, tuple[type, str]] = {
    "S": (str, "a text"),
    "N": (Decimal, "a number"),
    "L": (list, "a list of texts"),
}

READABLE = all_of(
    Condition("attribute_not_exists({}) OR attribute_type({}, [])", (name, name), (kind,))
    for name, kind in _TYPES.items()
)
"""Each of these attributes is absent, or has its type."""


def why_unreadable(record: Item) -> str | None:
    """A sentence about the first of these attributes that isn't of its type, or None."""
    for name in (name for name in _TYPES if name in record):
        value, (kind, expected) = record[name], _IN_PYTHON[_TYPES[name]]
        windows = value if isinstance(value, list) else []
        if not isinstance(value, kind) or not all(isinstance(window, str) for window in windows):
            return f"{name}: expected {expected}, got {value if isinstance(value, Decimal) else repr(value)}"
    return None
