"""JSON of DynamoDB's values and times."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

MOST_EXACT = 2**53
"""Larger whole numbers are texts: many programs that read JSON would round them."""


def as_json(value: Any, indent: int | None = None) -> str:
    """The letters of all scripts stay readable. What isn't printable is escaped, more than JSON has to escape."""
    lines = json.dumps(value, indent=indent, ensure_ascii=False, default=plain).split("\n")
    return "\n".join(line if line.isprintable() else _escaped(line) for line in lines)


def _escaped(line: str) -> str:
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in line)


def plain(value: Any) -> Any:
    """Times in ISO 8601, binaries in hexadecimal digits. A number that isn't exact in JSON's usual readers is a text.

    Raises TypeError for other types.
    """
    match value:
        case Decimal() if value == value.to_integral_value():
            return int(value) if abs(value) <= MOST_EXACT else f"{value:f}"
        case Decimal():
            return float(value) if Decimal(repr(float(value))) == value else str(value)
        case datetime():
            return value.isoformat()
        case set():
            return sorted(value, key=str)
        case bytes():
            return value.hex()
    raise TypeError(f"{type(value).__name__} can't be JSON")
