"""Interest on an overdrawn balance, exact: what has accrued, and what of it is due.

In each commit of an account with a rate, the product of the overdrawn balance, the time since the last commit and the
rate is added to what has accrued. At the end of each month, in UTC, the whole units of it become due, and the rest is
carried on. What is due bears interest itself, whether it was charged yet or not. So neither the time of a charge nor
the number of charges changes what is due in the end.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.values import WIDE, attribute, format_decimal

MILLISECONDS_PER_YEAR = Decimal(365 * 24 * 60 * 60 * 1000)
"""In a leap year, too."""
DECIMAL_PLACES = 2
"""Of the interest of an account without a rule for its amounts, in every currency."""
ZERO = Decimal(0)


class Interest(Struct, frozen=True):
    """An account's annual `rate`, 0 for none; the amount that is `due`, and not charged yet; and what has `accrued`.

    `accrued` is a sum of products of a balance, milliseconds and a rate: divided by `MILLISECONDS_PER_YEAR` it is an
    amount. It and `due` have as many digits as they need.
    """

    rate: Decimal = ZERO
    due: Decimal = ZERO
    accrued: Decimal = ZERO

    def through(self, begin: datetime, end: datetime, balance: Decimal, decimal_places: int | None) -> "Interest":
        """The interest at `end`, if the account has had this balance since `begin`. The times are in UTC."""
        if not self.rate or end <= begin:
            return self
        interest = self
        for month_end in _month_ends(begin, end):
            interest = interest._accrue(begin, month_end, balance).made_due(decimal_places)
            begin = month_end
        return interest._accrue(begin, end, balance)

    def made_due(self, decimal_places: int | None) -> "Interest":
        """Its whole units become due. What is left of it stays accrued."""
        unit = Decimal((0, (1,), -_places(decimal_places)))
        amount = WIDE.multiply(self._units(decimal_places), unit)
        rest = WIDE.subtract(self.accrued, WIDE.multiply(amount, MILLISECONDS_PER_YEAR))
        return replace(self, due=WIDE.add(self.due, amount), accrued=rest)

    def is_settled(self, decimal_places: int | None) -> bool:
        """Whether nothing is due, and less than a unit has accrued."""
        return self.due == 0 and self._units(decimal_places) == 0

    def accrued_amount(self, decimal_places: int | None) -> Decimal:
        """The whole units of what has accrued, as an amount."""
        return replace(self, due=ZERO).made_due(decimal_places).due

    def _accrue(self, begin: datetime, end: datetime, balance: Decimal) -> "Interest":
        overdrawn = WIDE.subtract(self.due, balance)
        if overdrawn <= 0:
            return self
        milliseconds = Decimal((end - begin) // timedelta(milliseconds=1))
        return replace(self, accrued=WIDE.fma(WIDE.multiply(overdrawn, milliseconds), self.rate, self.accrued))

    def _units(self, decimal_places: int | None) -> Decimal:
        return WIDE.divide_int(WIDE.scaleb(self.accrued, _places(decimal_places)), MILLISECONDS_PER_YEAR)


def _places(decimal_places: int | None) -> int:
    return DECIMAL_PLACES if decimal_places is None else decimal_places


def _month_ends(begin: datetime, end: datetime) -> Iterator[datetime]:
    """The beginnings of months after `begin`, up to `end`."""
    for month in range(begin.year * 12 + begin.month, end.year * 12 + end.month):
        yield datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)


def interest_item(interest: Interest) -> dict[str, Any]:
    """As a map of the account's item. The sums are texts: no number of DynamoDB's has all their digits."""
    return {
        "rate": interest.rate,
        "due": format_decimal(interest.due),
        "accrued": format_decimal(interest.accrued),
    }


def interest_from_item(item: dict[str, Any]) -> Interest:
    """Raises KeyError, TypeError or ValueError for a map that is no interest."""
    return Interest(attribute(item, "rate", Decimal), _sum(item, "due"), _sum(item, "accrued"))


def _sum(item: dict[str, Any], name: str) -> Decimal:
    text = attribute(item, name, str)
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number < 0:
        raise ValueError(f"{name}: expected a number in a text, 0 or more, got {text[:40]!r}")
    return number
