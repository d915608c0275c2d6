"""Invariants of scheduled jobs: a window is done once, however many runs it takes, and stays done."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from conditional_writes.items import Item
from ledger.core.transaction_types import ChargeInterest, from_payload
from tests.checkers.books import Books

type Records = Mapping[str, Item]
"""The items of the Locks table: each lock's record by its name, and each report by its job and window."""


class Run(NamedTuple):
    """A job's invocation. `outcome` is the outcome that it returned, or the class name of the error that it raised."""

    job: str
    window: str
    outcome: str


CLAIMS = (
    "a window is done once, and stays done",
    "a lock's tokens only grow",
    "each done window has one report, which never changes",
    "an account is charged a day's interest at most once, and exactly once if it was overdrawn throughout the job",
)

NIGHT_CLAIMS = (
    "a job that is delivered twice has one effect",
    "each overdrawn account was charged a day's interest, once",
    "the nightly reconciliation finds nothing",
)
"""The claims about one night on a deployed stack, checked by the jobs' answers, the report and `wrongly_charged`."""


def done_again(runs: Sequence[Run]) -> Iterator[str]:
    """Yields a sentence for each run that worked on a window that an earlier run had done."""
    done: set[tuple[str, str]] = set()
    for run in runs:
        if (run.job, run.window) in done and run.outcome in {"Done", "Continued"}:
            yield f"{run.job} for {run.window} was done before, but ended again with {run.outcome!r}"
        if run.outcome in {"Done", "DoneBefore"}:
            done.add((run.job, run.window))


def undone(runs: Sequence[Run], records: Records) -> Iterator[str]:
    """Yields a sentence for each window that a run reported as done, but that is missing from the lock's record."""
    for run in runs:
        if run.outcome in {"Done", "DoneBefore"} and run.window not in windows_done(records, run.job):
            yield f"{run.job} for {run.window} ended with {run.outcome!r}, but its record is {records.get(run.job)}"


def forgotten(before: Records, after: Records) -> Iterator[str]:
    """Yields a sentence for each missing, changed or repeated window or report, and for each token that shrank."""
    for name, record in after.items():
        for window, times in Counter(record.get("windows_done", [])).items():
            if times > 1:
                yield f"{name}: window {window} is in the record {times} times"
    for name, record in before.items():
        now = after.get(name)
        if now is None:
            yield f"{name} is missing"
        elif "token" not in record:
            if now != record:
                yield f"{name} was {record}, and is {now}"
        else:
            if now["token"] < record["token"]:
                yield f"{name}: the token shrank from {record['token']} to {now['token']}"
            for window in sorted(windows_done(before, name) - windows_done(after, name)):
                yield f"{name}: window {window} was done, but is no longer"


def misreported(records: Records, job: str, accounts: int) -> Iterator[str]:
    """Yields a sentence for each window without a report, each report without a window, and each wrong report.

    The books are sound and have this many accounts.
    """
    reports = {name.removeprefix(f"{job} "): item for name, item in records.items() if name.startswith(f"{job} ")}
    for window in sorted(windows_done(records, job) ^ reports.keys()):
        yield f"{job} for {window}: " + ("reported, but not done" if window in reports else "done, but not reported")
    for window, report in reports.items():
        if report["mismatches"]:
            yield f"{job} for {window} found {report['first_mismatches']} in sound books"
        if report["accounts_checked"] > accounts:
            yield f"{job} for {window} checked {report['accounts_checked']} accounts, of {accounts}"


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
        entry.account_id for entry in after.entries if entry.transaction_id.startswith(f"overdraft-interest-{day}")
    }
    for name in sorted(overdrawn - charged):
        yield f"{name} was overdrawn, but not charged"
    for name in sorted(charged - overdrawn):
        yield f"{name} was charged, but not overdrawn"


def uncharged(overdrawn: Mapping[str, Collection[str]], books: Books) -> Iterator[str]:
    """Yields a sentence for each account that was overdrawn throughout a day's job, but wasn't charged."""
    charged = {(entry.account_id, entry.transaction_id[:29]) for entry in books.entries}
    for day, account_ids in overdrawn.items():
        for account_id in sorted(account_ids):
            if (account_id, f"overdraft-interest-{day}") not in charged:
                yield f"{account_id} was overdrawn, but wasn't charged for {day}"


def windows_done(records: Records, job: str) -> set[str]:
    return set(records.get(job, {}).get("windows_done", []))
