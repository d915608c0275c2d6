"""Invariants of scheduled jobs: a window is done once, however many runs it takes, and stays done."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

from conditional_writes.core.items import Item
from ledger.core.transaction_types import ChargeInterest, from_payload
from tests.checkers.books import Books

type Records = Mapping[str, Item]
"""The items of the Locks table by their keys: of locks, and of runs, which are their reports."""


class Run(NamedTuple):
    """A job's invocation. `outcome` is the outcome that it returned, or the class name of the error that it raised."""

    job: str
    window: str
    outcome: str

    @property
    def says_done(self) -> bool:
        return self.outcome in {"Done", "DoneBefore"}


CLAIMS = (
    "a window is done once, and stays done",
    "a lock's tokens only grow",
    "each done window has one report, which never changes",
    "an account is charged a day's interest at most once, and exactly once if it was overdrawn throughout the job",
)

NIGHT_CLAIMS = (
    "a job that is delivered twice has one effect",
    "each overdrawn account was charged a day's interest, once",
    "each hold that had expired was released",
    "the nightly reconciliation finds nothing",
)
"""The claims about one night on a deployed stack, checked by the jobs' answers, the report, `wrongly_charged` and
`open_though_expired`.
"""


def done_again(runs: Sequence[Run]) -> Iterator[str]:
    """Yields a sentence for each run that worked on a window that an earlier run had done."""
    done: set[tuple[str, str]] = set()
    for run in runs:
        if (run.job, run.window) in done and run.outcome in {"Done", "Continued"}:
            yield f"{run.job} for {run.window} was done before, but ended again with {run.outcome!r}"
        if run.says_done:
            done.add((run.job, run.window))


def undone(runs: Sequence[Run], records: Records) -> Iterator[str]:
    """Yields a sentence for each window that an invocation reported as done, but whose run isn't finished."""
    for run in runs:
        if run.says_done and run.window not in windows_done(records, run.job):
            record = records.get(f"{run.job} {run.window}")
            yield f"{run.job} for {run.window} ended with {run.outcome!r}, but its record is {record}"


def forgotten(before: Records, after: Records) -> Iterator[str]:
    """Yields a sentence for each missing, changed or repeated record or report, and for each token that shrank."""
    for name, record in after.items():
        for window, times in Counter(record.get("windows_done", [])).items():
            if times > 1:
                yield f"{name}: window {window} is in the record {times} times"
    for name, record in before.items():
        if name not in after:
            yield f"{name} is missing"
        elif "token" in record:
            yield from _forgotten_by_lock(name, record, after[name])
        elif after[name] != record:
            yield f"{name} was {record}, and is {after[name]}"


def _forgotten_by_lock(name: str, record: Item, now: Item) -> Iterator[str]:
    if now["token"] < record["token"]:
        yield f"{name}: the token shrank from {record['token']} to {now['token']}"
    for window in sorted(set(record.get("windows_done", [])) - set(now.get("windows_done", []))):
        yield f"{name}: window {window} was done, but is no longer"


def misreported(records: Records, job: str, accounts: int) -> Iterator[str]:
    """Yields a sentence for each wrong report, and for each report of a window that isn't done.

    The books are sound and have this many accounts.
    """
    for window in sorted(windows_done(records, job)):
        report = records[f"{job} {window}"]
        if report["mismatches"]:
            yield f"{job} for {window} found {report['first_mismatches']} in sound books"
        if report["accounts_checked"] > accounts:
            yield f"{job} for {window} checked {report['accounts_checked']} accounts, of {accounts}"
        if window not in records.get(job, {}).get("windows_done", []):
            yield f"{job} for {window}: reported, but not done"


def charged_twice(books: Books) -> Iterator[str]:
    charges: Counter[tuple[str, str]] = Counter()
    for entry in books.entries:
        message = from_payload(entry.request)
        if isinstance(message, ChargeInterest) and message.occurred_at:
            charges[entry.account_id, str(message.occurred_at.date())] += 1
    for (account_id, day), times in charges.items():
        if times > 1:
            yield f"{account_id} was charged {times} times for {day}"


def wrongly_charged(before: Books, after: Books, day: date) -> Iterator[str]:
    """Yields a sentence for each overdrawn account that wasn't charged for the day, and for each other that was."""
    overdrawn = {name for name, account in before.accounts.items() if account.balance < 0}
    charged = {
        entry.account_id
        for entry in after.entries
        if entry.transaction_id.startswith(f"teller:overdraft-interest-{day}")
    }
    for name in sorted(overdrawn - charged):
        yield f"{name} was overdrawn, but not charged"
    for name in sorted(charged - overdrawn):
        yield f"{name} was charged, but not overdrawn"


def open_though_expired(books: Books, as_of: datetime) -> Iterator[str]:
    """Yields a sentence for each open hold that has expired. A job that expires holds is done for `as_of`."""
    for account in books.accounts.values():
        for hold_id, hold in account.open_holds.items():
            if hold.expires_at is not None and datetime.fromisoformat(hold.expires_at) <= as_of:
                yield f"{account.account_id}: hold {hold_id} expired at {hold.expires_at}, but is open"


def uncharged(overdrawn: Mapping[str, Collection[str]], books: Books) -> Iterator[str]:
    """Yields a sentence for each account that was overdrawn throughout a day's job, but wasn't charged."""
    charged = {(entry.account_id, entry.transaction_id[:36]) for entry in books.entries}
    for day, account_ids in overdrawn.items():
        for account_id in sorted(account_ids):
            if (account_id, f"teller:overdraft-interest-{day}") not in charged:
                yield f"{account_id} was overdrawn, but wasn't charged for {day}"


def windows_done(records: Records, job: str) -> set[str]:
    """The windows of the job's finished runs."""
    finished = {name for name, record in records.items() if name.startswith(f"{job} ") and "finished_at" in record}
    return {name.removeprefix(f"{job} ") for name in finished}
