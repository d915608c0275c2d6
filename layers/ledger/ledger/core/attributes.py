"""An item's attributes, which may be anything: others can write to the tables."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def attribute[Value](item: Mapping[str, Any], name: str, kind: type[Value]) -> Value:
    """The attribute, of this type. Raises KeyError and TypeError."""
    value = item[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def version(item: Mapping[str, Any], name: str) -> int:
    """The attribute, a whole number of 0 or more. Raises KeyError, TypeError and ValueError."""
    number = item[name] if isinstance(item[name], int) else attribute(item, name, Decimal)
    if isinstance(number, bool) or number < 0 or number != int(number):
        raise ValueError(f"{name}: expected a whole number, got {number}")
    return int(number)
