"""An account, as the rules (`rules.py`) see it and as an item of the Accounts table; and the times of its postings."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import asdict, replace

from ledger.core.holds import Holds, OpenHold, holds_from_item, holds_item, total
from ledger.core.interest import Interest, interest_from_item, interest_item
from ledger.core.limits import AccountLimit, Limits, Of, in_period, limits_from_item, limits_item
from ledger.core.pools import Pool
from ledger.core.values import WIDE, attribute, format_decimal

CLOCK_SKEW = timedelta(seconds=5)
"""The largest difference between two workers' clocks. A time that is further ahead is a mistake.

The clocks of Lambda's machines differ by milliseconds, and AWS refuses the requests of one that is minutes off.
"""
LONGEST_POSTING = timedelta(minutes=2)
"""From the moment at which a worker reads its clock to its commit: more than its function's timeout."""


class AccountStatus(StrEnum):
    OPEN = "OPEN"
    CLOSED = "CLOSED"
    HISTORIC = "HISTORIC"
    """In a replay, before the account is imported. No item has it."""


class Frozen(Struct, frozen=True):
    """Whether an account takes no debits, or no credits, but for those that come by the administration's queue."""

    debits: bool = False
    credits: bool = False


class Account(Struct, frozen=True):
    """`overdraft_limit` is at most 0, and no debit takes `balance - held` below it. Each journal entry takes the next
    `version`.

    `posted_at` is that of the last journal entry. `held` is the sum of the open `holds`, which are None if the account
    never had one. Its amounts have at most so many `decimal_places`; None for any number of them. `seal` is that of the
    last journal entry, empty before the first. `frozen` says what it doesn't take, and `limits` how much of it.
    `interest` is as of `posted_at`. If it is a `pool`, its money is on its shards.
    """

    account_id: str
    balance: Decimal
    overdraft_limit: Decimal
    currency: str
    status: AccountStatus
    version: int
    posted_at: str | None = None
    held: Decimal = Decimal(0)
    holds: Mapping[str, OpenHold] | None = None
    decimal_places: int | None = None
    seal: str = ""
    frozen: Frozen = Frozen()
    interest: Interest = Interest()
    limits: Limits = ()
    pool: Pool | None = None

    @property
    def open_holds(self) -> Holds:
        return self.holds or {}

    @property
    def available(self) -> Decimal:
        """The largest debit or hold that the overdraft limit allows. Below 0 the account is below its limit, as an
        imported one may be. It may have more than 38 digits.
        """
        if self.status is AccountStatus.CLOSED:
            return Decimal(0)
        return WIDE.subtract(WIDE.subtract(self.balance, self.held), self.overdraft_limit)

    def at(self, posted_at: str) -> Self:
        """The account at this time: with the interest until then, and nothing used of limits whose period is over.

        If it has interest or limits, the time is its `posted_at`: it is brought there once.
        """
        if self.posted_at == posted_at or not (self.interest.rate or self.limits):
            return self
        interest, limits = self._interest_at(posted_at), in_period(self.limits, posted_at)
        return replace(self, interest=interest, limits=limits, posted_at=posted_at)

    def _interest_at(self, posted_at: str) -> Interest:
        """A time that is damaged adds none."""
        if not self.interest.rate:
            return self.interest
        begin, end = time_of(self.posted_at or ""), time_of(posted_at)
        if not begin or not end:
            return self.interest
        try:
            begin, end = begin.astimezone(UTC), end.astimezone(UTC)
        except OverflowError:
            return self.interest
        return self.interest.through(begin, end, self.balance, self.decimal_places)

    @property
    def available_under_limits(self) -> Decimal:
        """The largest debit or hold that the account allows in the present periods of its limits."""
        if self.frozen.debits:
            return min(self.available, Decimal(0))
        return min([self.available, *(_most(each, self) for each in self.limits)])


def account_item(account: Account) -> dict[str, Any]:
    """The account as an item, without the attributes that `conditional_writes` adds."""
    item = {
        "account_id": account.account_id,
        "balance": account.balance,
        "overdraft_limit": account.overdraft_limit,
        "currency": account.currency,
        "status": str(account.status),
        "version": account.version,
    }
    if account.posted_at:
        item["posted_at"] = account.posted_at
    if account.holds is not None:
        item |= {"held": account.held, "holds": holds_item(account.holds)}
    if account.decimal_places is not None:
        item["decimal_places"] = account.decimal_places
    if account.seal:
        item["seal"] = account.seal
    if account.frozen != Frozen():
        item["frozen"] = asdict(account.frozen)
    if account.interest != Interest():
        item["interest"] = interest_item(account.interest)
    if account.limits:
        item["limits"] = limits_item(account.limits)
    if account.pool:
        item["pool"] = asdict(account.pool)
    return item


def account_from_item(item: dict[str, Any]) -> Account:
    """The account in an item. Raises KeyError, TypeError or ValueError for an item that is no account."""
    return Account(
        account_id=item["account_id"],
        balance=attribute(item, "balance", Decimal),
        overdraft_limit=attribute(item, "overdraft_limit", Decimal),
        currency=attribute(item, "currency", str),
        status=AccountStatus(item["status"]),
        version=attribute(item, "version", int),
        posted_at=attribute(item, "posted_at", str) if "posted_at" in item else None,
        held=attribute(item, "held", Decimal) if "held" in item else Decimal(0),
        holds=holds_from_item(attribute(item, "holds", dict)) if "holds" in item else None,
        decimal_places=attribute(item, "decimal_places", int) if "decimal_places" in item else None,
        seal=attribute(item, "seal", str) if "seal" in item else "",
        frozen=_frozen(attribute(item, "frozen", dict)) if "frozen" in item else Frozen(),
        interest=interest_from_item(attribute(item, "interest", dict)) if "interest" in item else Interest(),
        limits=limits_from_item(attribute(item, "limits", list)) if "limits" in item else (),
        pool=_pool(attribute(item, "pool", dict)) if "pool" in item else None,
    )


def _most(limit: AccountLimit, account: Account) -> Decimal:
    """The largest debit that the limit allows."""
    left = limit.left(account.balance, account.held)
    if limit.rule.of is not Of.DEBITS or (limit.rule.number is not None and left > 0):
        return account.available
    return left if limit.rule.number is None else Decimal(0)


def _pool(item: dict[str, Any]) -> Pool:
    return Pool(*(attribute(item, name, int) for name in Pool.__struct_fields__))


def _frozen(item: dict[str, Any]) -> Frozen:
    return Frozen(*(attribute(item, name, bool) for name in Frozen.__struct_fields__))


def sound_account(item: dict[str, Any]) -> Account:
    """The account in an item, to decide on. Raises ValueError, too, if `held` isn't the sum of its holds.

    Otherwise held money could be spent. The replay takes such an account, and says which hold is wrong.
    """
    account = account_from_item(item)
    expected = total(account.holds) if account.holds else Decimal(0)
    if account.held != expected:
        held = f"{format_decimal(expected)}, which is the sum of the holds, got {format_decimal(account.held)}"
        raise ValueError(f"held: expected {held}")
    return account


def posting_time(now: datetime, accounts: Iterable[Account | None]) -> str:
    """The `posted_at` of a transaction on these accounts: now, or the latest of their last times if that is later.

    A last time that is damaged, or further ahead than `CLOCK_SKEW`, doesn't count: otherwise one wrong clock, or one
    damaged account, would decide for months.
    """
    earlier = (time_of(account.posted_at) for account in accounts if account and account.posted_at)
    return timestamp(max([now, *(time for time in earlier if time and time <= now + CLOCK_SKEW)]))


def timestamp(time: datetime) -> str:
    """A time as journal entries have it: as texts, such times sort by time."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def time_of(posted_at: str) -> datetime | None:
    """The time in a journal entry; None for a text that is no ISO 8601 time with an offset."""
    try:
        time = datetime.fromisoformat(posted_at)
    except ValueError:
        return None
    return time if time.tzinfo else None
