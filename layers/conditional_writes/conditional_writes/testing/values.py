"""Attribute values in DynamoDB's JSON: which are valid, what they weigh, and how they are ordered.

A value that was checked is in one form, so that equal values are equal dicts: numbers have no needless digits, and sets
are sorted. Checked values are never changed in place; so items share them.
"""

import base64
import binascii
import functools
import itertools
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any

from conditional_writes.testing.errors import Refused, invalid, invalid_parameter

type Value = dict[str, Any]
"""One type and its value, as in `{"S": "text"}`."""
type Item = dict[str, Value]
type Scalar = str | bytes | Decimal
"""A key's value, ordered as DynamoDB orders it."""

MAXIMUM_ITEM_BYTES = 409_600
MAXIMUM_DIGITS = 38
LARGEST_EXPONENT, SMALLEST_EXPONENT = 125, -130
"""Of a number's first digit: 9.9…E+125 and 1E-130 can be stored."""
MAXIMUM_NESTING = 32
MAXIMUM_NAME_BYTES = 65_535
EXACT = Context(prec=400)

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*[0-9]{1,9})?")


def checked_item(item: Item) -> Item:
    """The item in its one form. Raises Refused if a value isn't valid."""
    return _checked_map(item, -1)


def check_name(name: str) -> None:
    """Raises Refused for what is no attribute's name, be it an attribute of an item or of a map."""
    if not name:
        raise invalid("Empty attribute name")
    if len(name.encode()) > MAXIMUM_NAME_BYTES:
        raise invalid("Attribute name is too large, must be less than 65536 bytes")


def checked(value: Value, depth: int = 0) -> Value:
    """The value in its one form. Raises Refused if it isn't valid."""
    if depth >= MAXIMUM_NESTING:
        raise invalid("Nesting Levels have exceeded supported limits")
    if len(value) != 1:
        wrong = "has more than one datatypes set" if value else "is empty"
        raise invalid(f"Supplied AttributeValue {wrong}, must contain exactly one of the supported datatypes")
    [(kind, content)] = value.items()
    if kind in {"S", "BOOL"}:
        return value
    check = _CHECKS.get(kind)
    if check is None:
        raise invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
    return {kind: check(content, depth)}


def number_text(number: Decimal) -> str:
    """The number as DynamoDB gives it: without an exponent. Raises Refused if it can't be stored."""
    if not number:
        return "0"
    exponent = number.adjusted()
    if exponent > LARGEST_EXPONENT:
        raise invalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
    if exponent < SMALLEST_EXPONENT:
        raise invalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
    number = number.normalize(EXACT)
    if len(number.as_tuple().digits) > MAXIMUM_DIGITS:
        raise invalid("Attempting to store more than 38 significant digits in a Number")
    return f"{number:f}"


@functools.lru_cache(4096)
def _checked_number(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        found = f": {text}" if text else ""
        raise invalid(f"The parameter cannot be converted to a numeric value{found}")
    return number_text(Decimal(text))


def _checked_binary(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise Refused("SerializationException", str(error)) from None
    return text


def _checked_null(content: Any) -> bool:
    if content is not True:
        raise invalid_parameter("Null attribute value types must have the value of true")
    return True


SET_ORDERS: dict[str, Callable[[str], Any]] = {"SS": str, "NS": Decimal, "BS": base64.b64decode}
"""By which the members of a set are sorted."""


def _set_of(kind: str, member: Callable[[str], str], empty: str) -> Callable[[Any, int], list[str]]:
    def check(content: list[str], _: int) -> list[str]:
        if not content:
            raise invalid_parameter(empty)
        members = sorted(map(member, content), key=SET_ORDERS[kind])
        if any(first == second for first, second in itertools.pairwise(members)):
            if kind == "NS":
                raise invalid("Input collection contains duplicates")
            of_kind = "of type BS" if kind == "BS" else ""
            raise invalid_parameter(f"Input collection [{', '.join(content)}]{of_kind} contains duplicates.")
        return members

    return check


def _checked_map(content: Item, depth: int) -> Item:
    for name in content:
        check_name(name)
    return {name: checked(value, depth + 1) for name, value in content.items()}


_CHECKS: dict[str, Callable[[Any, int], Any]] = {
    "N": lambda content, _: _checked_number(content),
    "B": lambda content, _: _checked_binary(content),
    "NULL": lambda content, _: _checked_null(content),
    "L": lambda content, depth: [checked(value, depth + 1) for value in content],
    "M": _checked_map,
    "SS": _set_of("SS", str, "An string set  may not be empty"),
    "NS": _set_of("NS", _checked_number, "An number set  may not be empty"),
    "BS": _set_of("BS", _checked_binary, "Binary sets should not be empty"),
}


def kind_of(value: Value) -> str:
    """The value's type, as in "S"."""
    return next(iter(value))


def scalar(value: Value) -> Scalar:
    """The sort key of this value among those of its type: S, N or B."""
    [(kind, content)] = value.items()
    if kind == "N":
        return _decimal(content)
    return base64.b64decode(content) if kind == "B" else str(content)


_decimal = functools.lru_cache(4096)(Decimal)


def item_bytes(item: Mapping[str, Value]) -> int:
    """The item's size.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
    """
    total = 0
    for name, value in item.items():
        total += (len(name) if name.isascii() else len(name.encode())) + value_bytes(value)
    return total


def value_bytes(value: Value) -> int:
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return len(content) if content.isascii() else len(content.encode())
        case "N":
            return _number_bytes(content)
        case "BOOL" | "NULL":
            return 1
        case "B":
            return _binary_bytes(content)
        case "L":
            return 3 + sum(1 + value_bytes(each) for each in content)
        case "M":
            return 3 + len(content) + item_bytes(content)
        case "SS":
            return sum(len(each.encode()) for each in content)
        case "NS":
            return sum(map(_number_bytes, content))
    return sum(map(_binary_bytes, content))


@functools.lru_cache(4096)
def _number_bytes(text: str) -> int:
    """Two digits take a byte: those that stand together when one counts pairs from the decimal point. One byte more."""
    number = Decimal(text).normalize(EXACT)
    if not number:
        return 1
    sign, digits, _ = number.as_tuple()
    stands_alone = number.adjusted() % 2 == 0  # the first digit
    return 1 + (len(digits) // 2 + 1 if stands_alone else (len(digits) + 1) // 2) + sign


def _binary_bytes(text: str) -> int:
    return len(text) // 4 * 3 - text.count("=", -2)
