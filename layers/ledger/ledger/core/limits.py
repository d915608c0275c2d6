"""Limits of an account: how much, or how often, in a transaction, a day or a month; and the most that it may have.

A limit of a day or a month counts: what was used of it is on the account, with the period that it is of. The period
follows from the `posted_at` of an entry, in the limit's time zone, so the replay counts the same.

Held money is reserved: a debit limit's amount has to be enough for what was used and for what is held. A number counts
debits and holds when they are decided. docs/controls.md has the rules.
"""

import functools
import re
from collections.abc import Iterable
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec.structs import force_setattr, replace

from ledger.core.decoding import sentence_of
from ledger.core.values import EXACT, WIDE, attribute, exact

MOST_LIMITS = 5
"""Of one account. They are on its item, and each KB of that costs 2 write units more in each commit."""
NAME_PATTERN = r"^[a-z0-9_-]{1,24}\Z"
ZERO = Decimal(0)
LARGEST = Decimal("9.9999999999999999999999999999999999999E+125")
ROUNDED_UP = Context(EXACT.prec, ROUND_CEILING, Emin=-1000, Emax=1000)
ROUNDED_DOWN = Context(EXACT.prec, ROUND_FLOOR, Emin=-1000, Emax=1000)
"""For what was used, and for what is left: if one has more than 38 digits, it is rounded against the account."""


class Of(StrEnum):
    """The quantity that is limited: debits and holds, credits, or the balance."""

    DEBITS = "debits"
    CREDITS = "credits"
    BALANCE = "balance"


class Per(StrEnum):
    TRANSACTION = "transaction"
    DAY = "day"
    MONTH = "month"


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """At most this `amount` in each transaction, or in all of a day or a month; or so many of them, the `number`.

    One of the balance is a ceiling: no credit takes the balance above its amount.
    """

    name: Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
    of: Of
    per: Per | None = None
    time_zone: str | None = None
    amount: Decimal | None = None
    number: Decimal | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for a limit that can't be meant. The sentence names it."""
        if wrong := self._wrong():
            raise ValueError(f"{wrong}, in the limit {self.name!r}")

    def _wrong(self) -> str | None:
        if (self.amount is None) == (self.number is None):
            return "expected an amount or a number"
        for field in ("amount", "number"):
            if (given := getattr(self, field)) is not None:
                value = exact(field, given)
                if value < 0 or (field == "number" and value != value.to_integral_value()):
                    return f"{field}: expected {'a whole number of ' if field == 'number' else ''}0 or more"
                force_setattr(self, field, value)
        if (self.of is Of.BALANCE) != (self.per is None):
            return "per: expected transaction, day or month, of debits and of credits alone"
        if self.number is not None and self.per not in (Per.DAY, Per.MONTH):
            return "number: expected an amount, as the limit isn't per day or month"
        if (self.per in (Per.DAY, Per.MONTH)) != (self.time_zone is not None):
            return "time_zone: expected one per day and per month alone"
        if self.time_zone is not None and not is_time_zone(self.time_zone):
            return 'time_zone: expected one of the IANA time zone database, such as "Europe/Paris"'
        return None

    @property
    def is_counted(self) -> bool:
        return self.time_zone is not None

    @functools.cached_property
    def item(self) -> dict[str, Any]:
        """The rule as a map of the account's item."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {
            name: str(value) if isinstance(value, StrEnum) else value for name, value in fields if value is not None
        }

    def period_of(self, posted_at: str) -> str:
        """The day or the month of a time, in the limit's time zone, such as 2026-11-24 and 2026-11. Empty if the limit
        isn't counted, or for a damaged time.
        """
        if self.time_zone is None:
            return ""
        day = local_day(self.time_zone, posted_at)
        return day if self.per is Per.DAY else day[:7]


class AccountLimit(msgspec.Struct, frozen=True):
    """A limit on an account. If it is counted, so much of it was `used` in its `period`, since it was `set_at`."""

    rule: Limit
    used: Decimal = Decimal(0)
    period: str = ""
    set_at: str = ""

    def left(self, balance: Decimal, held: Decimal) -> Decimal:
        """The largest amount, or number, that the limit allows. Below 0 if more was used than it would allow now."""
        rule = self.rule
        if rule.number is not None:
            return WIDE.subtract(rule.number, self.used)
        assert rule.amount is not None, "a limit has an amount or a number"
        if rule.of is Of.BALANCE:
            return WIDE.subtract(rule.amount, balance)
        left = WIDE.subtract(rule.amount, self.used) if self.used else rule.amount
        return WIDE.subtract(left, held) if held and rule.of is Of.DEBITS and rule.is_counted else left

    def with_used(self, used: Decimal) -> "AccountLimit":
        """With so much used of it: 0 at least, and with 38 digits at most."""
        rounded = ROUNDED_UP.normalize(min(LARGEST, used)) if used > 0 else ZERO
        return AccountLimit(self.rule, rounded, self.period, self.set_at)


type Limits = tuple[AccountLimit, ...]
"""In the order in which they were given: the first one that is exceeded is named."""


class Exceeded(msgspec.Struct, frozen=True):
    """The `limit` that a transaction would exceed, by its name, and the amount or the number that is `left` of it."""

    limit: str
    left: Decimal


def exceeded_from_item(item: dict[str, Any]) -> Exceeded:
    """The limit in a journal entry. Raises KeyError or TypeError."""
    return Exceeded(attribute(item, "limit", str), attribute(item, "left", Decimal))


def set_limits(rules: Iterable[Limit], before: Limits, posted_at: str) -> Limits:
    """The limits that are set at this time. One that was there before keeps what was used of it, if it is still counted
    alike, whatever its amount or number is now.
    """
    known = {each.rule.name: each for each in before}
    return tuple(_set(rule, known.get(rule.name), posted_at) for rule in rules)


def _set(rule: Limit, before: AccountLimit | None, posted_at: str) -> AccountLimit:
    if not rule.is_counted:
        return AccountLimit(rule)
    if before and _counted_alike(before.rule) == _counted_alike(rule):
        return replace(before, rule=rule)
    return AccountLimit(rule, period=rule.period_of(posted_at), set_at=posted_at)


def _counted_alike(rule: Limit) -> tuple[object, ...]:
    return rule.of, rule.per, rule.time_zone, rule.number is None


def in_period(limits: Limits, posted_at: str) -> Limits:
    """The limits at this time. Nothing is used of a new period. A period never goes back, so a wrong clock gives
    nothing back."""
    minute = minute_of(posted_at)
    for each in limits:
        if each.rule.time_zone is not None and each.rule.period_of(minute) > each.period:
            break
    else:
        return limits
    return tuple(
        AccountLimit(each.rule, period=period, set_at=each.set_at)
        if (period := each.rule.period_of(minute)) > each.period
        else each
        for each in limits
    )


def minute_of(posted_at: str) -> str:
    """The beginning of its minute, if the time is spelled as all of ours. A zone's day is the same throughout a minute:
    since 1972 no clock has been a part of a minute off UTC. So the day is looked up once a minute.
    """
    return f"{posted_at[:16]}+00:00" if len(posted_at) == 29 and posted_at.endswith("+00:00") else posted_at


def first_exceeded(
    limits: Limits, effect: Decimal, balance: Decimal, held: Decimal, *, is_counted: bool = True
) -> Exceeded | None:
    """The first limit that a debit or hold (`effect` < 0) or a credit would exceed. What isn't counted keeps ceilings
    alone."""
    of, size = (Of.DEBITS if effect < 0 else Of.CREDITS), effect.copy_abs()
    for each in limits:
        rule = each.rule
        if (rule.of is of and is_counted) or (rule.of is Of.BALANCE and effect > 0):
            left = each.left(balance, held)
            if left < (size if rule.number is None else 1):
                return Exceeded(rule.name, shown_left(left))
    return None


def shown_left(left: Decimal) -> Decimal:
    """0 or more, with at most 38 digits."""
    return ROUNDED_DOWN.normalize(left) if left > 0 else Decimal(0)


def counted(limits: Limits, of: Of, amount: Decimal, times: int = 1) -> Limits:
    """The limits after a debit or a credit of this amount, or after a hold, of which the number alone counts."""
    return tuple(
        [
            each.with_used(WIDE.add(each.used, amount if each.rule.number is None else times))
            if each.rule.of is of and each.rule.time_zone is not None
            else each
            for each in limits
        ]
    )


def given_back(limits: Limits, of: Of, amount: Decimal, posted_at: str) -> Limits:
    """The limits after a reversal of this amount of what was posted then: a limit has it back if it counted that in its
    present period. A number isn't given back.
    """
    return tuple(
        each.with_used(WIDE.subtract(each.used, amount))
        if each.rule.of is of
        and each.rule.is_counted
        and each.rule.number is None
        and each.set_at < posted_at
        and each.rule.period_of(posted_at) == each.period
        else each
        for each in limits
    )


def limits_item(limits: Limits) -> list[dict[str, Any]]:
    """The limits as a list of the account's item."""
    return [
        {**each.rule.item, "used": each.used, "period": each.period, "set_at": each.set_at}
        if each.rule.time_zone is not None
        else each.rule.item
        for each in limits
    ]


def limits_from_item(items: list[Any]) -> Limits:
    """The limits in such a list. Raises KeyError, TypeError or ValueError for a list of other things."""
    return tuple(map(_limit, items))


def _limit(item: Any) -> AccountLimit:
    if not isinstance(item, dict):
        raise TypeError(f"limits: expected a map for each limit, got {type(item).__name__}")
    get = item.get
    rule = _rule(item["name"], item["of"], get("per"), get("time_zone"), get("amount"), get("number"))
    if rule.time_zone is None:
        return AccountLimit(rule)
    used, period, set_at = item["used"], item["period"], item["set_at"]
    if not (type(used) is Decimal and type(period) is type(set_at) is str and used >= 0):
        raise ValueError(f"limits: expected 0 or more that was used in a period, in the limit {rule.name!r}")
    return AccountLimit(rule, used, period, set_at)


@functools.lru_cache(maxsize=4096)
def _rule(*values: Any) -> Limit:
    """The rule of these fields. Many accounts have the same."""
    fields = zip(Limit.__struct_fields__, values, strict=True)
    if any(isinstance(each, str) for each in values[-2:]):
        raise TypeError("limits: expected an amount or a number, got a text")
    try:
        return msgspec.convert({name: value for name, value in fields if value is not None}, Limit)
    except msgspec.ValidationError as error:
        raise ValueError(f"limits: {sentence_of(error)}") from None


@functools.lru_cache(maxsize=4096)
def local_day(time_zone: str, posted_at: str) -> str:
    """The date of a time in this time zone, such as 2026-11-24; empty for a damaged time."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 (most functions see no such limit, and never need it)

    try:
        time = datetime.fromisoformat(posted_at)
        return time.astimezone(ZoneInfo(time_zone)).date().isoformat() if time.tzinfo else ""
    except (ValueError, OverflowError):
        return ""


@functools.lru_cache(maxsize=256)
def is_time_zone(name: str) -> bool:
    """Whether it is a name of the IANA time zone database. The files of a system have others beside them."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    if not re.fullmatch(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", name):
        return False
    if name.startswith(("posix/", "right/")) or name in ("localtime", "posixrules"):
        return False
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True
