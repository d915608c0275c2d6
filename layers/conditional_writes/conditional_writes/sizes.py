"""An item's size, by DynamoDB's rules.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
"""

import math
from decimal import Decimal
from typing import Any

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
            # Two digits take a byte. Zeros at the end take none.
            digits = "".join(map(str, Decimal(content).as_tuple().digits)).strip("0")
            return math.ceil(len(digits) / 2) + 2
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
