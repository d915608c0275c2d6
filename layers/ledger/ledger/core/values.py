"""The values of items: exact decimals, in the range of DynamoDB's numbers, and attributes of their types.

Nothing is ever rounded in silence. Other programs may write any attribute.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Underflow
from typing import Any, cast

EXACT = Context(prec=38, Emin=-130, Emax=125, traps=[Inexact, InvalidOperation, Overflow, Underflow])
"""Arithmetic with DynamoDB's numbers: 38 digits, 1E-130 to 9.9E+125. An inexact result raises.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html
"""


WIDE = Context(prec=600, Emin=-1000, Emax=1000)
"""Arithmetic for comparisons, and for what no item holds: the sum of any of DynamoDB's numbers is exact."""


def sum_of(numbers: Iterable[Decimal]) -> Decimal:
    """The sum, with all its digits."""
    return functools.reduce(WIDE.add, numbers, Decimal(0))


JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""A number in JSON, whole. Python's Decimal reads more: `12_50`, `.5`, and the digits of any script."""


_SURELY_HELD = EXACT.Emin + EXACT.prec
"""The first digit of such a number, or a larger one: the last of at most 38 digits is then held, too."""


def exact(field: str, number: Decimal) -> Decimal:
    """The number without trailing zeros. Raises ValueError, which names `field`, if DynamoDB can't hold the number."""
    try:
        shortest = EXACT.normalize(number)
        if shortest.adjusted() >= _SURELY_HELD and shortest.is_finite():
            return shortest or Decimal(0)
    except ArithmeticError:
        pass  # it is said below which of the limits it breaks
    if not number.is_finite():
        raise ValueError(f"{field}: expected a finite decimal number")
    significant = len("".join(map(str, number.as_tuple().digits)).strip("0"))
    if significant > EXACT.prec:
        raise ValueError(f"{field}: {significant} digits, expected at most {EXACT.prec}")
    if number and not EXACT.Emin <= number.adjusted() <= EXACT.Emax:
        raise ValueError(f"{field}: expected a number between 1E{EXACT.Emin} and 9.9E+{EXACT.Emax}")
    shortest = normalized(number)
    if int(shortest.as_tuple().exponent) < EXACT.Emin:
        raise ValueError(f"{field}: expected at most {-EXACT.Emin} decimal places")
    return shortest


def decimal_places(number: Decimal) -> int:
    """The number's decimals, without zeros at the end: 1 for `12.50`."""
    return max(0, -int(EXACT.normalize(number).as_tuple().exponent))


def normalized(number: Decimal) -> Decimal:
    """`100.00` as `1E+2`; `-0` as `0`."""
    return EXACT.normalize(number) if number else Decimal(0)


def format_decimal(number: Decimal) -> str:
    """`100.00`, `1E+2` and `100` as `100`; `-0` as `0`. All digits, also if they are more than an item holds."""
    text = str(number)
    if number.is_finite() and "E" not in text and ("." not in text or text[-1] != "0") and text != "-0":
        return text  # most numbers are spelled so already
    return format(WIDE.normalize(number) if number else Decimal(0), "f")


def attribute[Value](item: Mapping[str, Any], name: str, kind: type[Value]) -> Value:
    """The attribute, of this type; for `int` a whole number of 0 or more. Raises KeyError, TypeError and ValueError."""
    value = item[name]
    if kind is int:
        return cast("Value", _whole(name, value))
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def _whole(name: str, number: Any) -> int:
    if not isinstance(number, int | Decimal):
        raise TypeError(f"{name}: expected Decimal, got {type(number).__name__}")
    whole = int(number)
    if whole != number or whole < 0 or isinstance(number, bool):
        raise ValueError(f"{name}: expected a whole number, got {number}")
    return whole
