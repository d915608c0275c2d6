"""The times at which transactions are posted: on an account they never go back, though workers' clocks differ."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ledger.core.accounts import Account

CLOCK_SKEW = timedelta(seconds=5)
"""The largest difference between two workers' clocks. A time that is further ahead is a mistake.

The clocks of Lambda's machines differ by milliseconds, and AWS refuses the requests of one that is minutes off.
"""
LONGEST_POSTING = timedelta(minutes=2)
"""From the moment at which a worker reads its clock to its commit: more than its function's timeout."""


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
