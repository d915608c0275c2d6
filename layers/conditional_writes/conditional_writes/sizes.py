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


def item_bytes(attributes: dict[str, Any]) -> int:
    """The size of an item in DynamoDB's types, as boto3 sends it: `{"name": {"S": value}}`."""
    return sum(len(name.encode()) + value_bytes(value) for name, value in attributes.items())


def value_bytes(value: dict[str, Any]) -> int:
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return _number_bytes(Decimal(content))
        case "B":
            return len(bytes(content))
        case "M":
            return 3 + sum(1 + len(name.encode()) + value_bytes(element) for name, element in content.items())
        case "L":
            return 3 + sum(1 + value_bytes(element) for element in content)
        case "SS" | "NS" | "BS":
            return sum(value_bytes({kind[0]: element}) for element in content)
        case _:  # NULL, BOOL
            return 1


def stored_bytes(item: Item) -> int:
    """The size of an item in Python's types, as `item_bytes` has it, but without a copy in DynamoDB's types.

    Such a copy of an item of 400 KB may take 75 MB.
    """
    return sum(len(name.encode()) + _stored_bytes(value) for name, value in item.items())


def _stored_bytes(value: Any) -> int:
    match value:
        case str():
            return len(value.encode())
        case bool() | None:
            return 1
        case int() | Decimal():
            return _number_bytes(value)
        case list() | tuple():
            return 3 + len(value) + sum(map(_stored_bytes, value))
        case set() | frozenset():
            return sum(map(_stored_bytes, value))
        case bytes() | bytearray():
            return len(value)
    return 3 + sum(1 + len(name.encode()) + _stored_bytes(element) for name, element in value.items())


@functools.lru_cache(1024)
def _number_bytes(number: int | Decimal) -> int:
    """Two digits take a byte. Zeros at the end take none, and neither do those in front of 0.001."""
    digits = f"{Decimal(number):f}".lstrip("-0.").replace(".", "").rstrip("0")
    return math.ceil(len(digits) / 2) + 2
