"""An item's size, by DynamoDB's rules.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
"""

import functools
import math
from decimal import Decimal
from typing import Any

from conditional_writes.items import Item

MAXIMUM_ITEM_BYTES = 409_600
"""DynamoDB's limit for an item: 400 kB."""
MAXIMUM_UPSERTED_BYTES = MAXIMUM_ITEM_BYTES - 9_600
"""Upserts leave some room in an item: for other writers, and because the count of bytes may be too low."""


def item_bytes(item: Item) -> int:
    """The size of an item in Python's types."""
    return sum(len(name.encode()) + value_bytes(value) for name, value in item.items())


def value_bytes(value: Any) -> int:
    match value:
        case str():
            return len(value.encode())
        case bool() | None:
            return 1
        case int() | Decimal():
            return _number_bytes(value)
        case list() | tuple():
            return 3 + len(value) + sum(map(value_bytes, value))
        case set() | frozenset():
            return sum(map(value_bytes, value))
        case bytes() | bytearray():
            return len(value)
    return 3 + sum(1 + len(name.encode()) + value_bytes(element) for name, element in value.items())


@functools.lru_cache(1024)
def _number_bytes(number: int | Decimal) -> int:
    """Two digits take a byte. Zeros at the end take none, and neither do those in front of 0.001."""
    digits = f"{Decimal(number):f}".lstrip("-0.").replace(".", "").rstrip("0")
    return math.ceil(len(digits) / 2) + 2
