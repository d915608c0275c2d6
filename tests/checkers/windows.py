"""What must hold of scheduled jobs: a window has one effect, however many had it in hand, and stays done."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from conditional_writes.items import Item
from ledger.core.transaction_types import ChargeInterest, from_payload
from tests.checkers.books import Books

type Records = Mapping[str, Item]
"""The locks' table: each lock's record by its name, and each report by its job and window."""


class Run(NamedTuple):
    """A job's invocation. `outcome` is its own word, or the name of what it raised."""

    job: str
    window: str
    outcome: str


CLAIMS = (
    "a window is done once, and stays done",
    "a lock's tokens only grow",
    "a window has its report when it is done, one, and it is never changed",
    "an account is charged a day's interest at most once, and once where it was below zero all along",
)

NIGHT_CLAIMS = (
    "a job that is delivered twice has one effect",
    "each overdrawn account was charged a day's interest, once",
    "the nightly reconciliation finds nothing",
)
"""Of one night on a deployed stack, by its answers, its report and `wrongly_charged`."""


def done_again(runs: Sequence[Run]) -> Iterator[str]:
    """A sentence for each run that did something in a window that one before it had done."""
    done: set[tuple[str, str]] = set()
    for run in runs:
        if (run.job, run.window) in done and run.outcome in {"Done", "Continued"}:
            yield f"{run.job} for {run.window} was done before, and came to {run.outcome!r}"
        if run.outcome in {"Done", "DoneBefore"}:
            done.add((run.job, run.window))


def undone(runs: Sequence[Run], records: Records) -> Iterator[str]:
    """A sentence for each window that a run said is done, and that its lock's record doesn't know."""
    for run in runs:
        if run.outcome in {"Done", "DoneBefore"} and run.window not in windows_done(records, run.job):
            yield f"{run.job} for {run.window} came to {run.outcome!r}, and its record has {records.get(run.job)}"


def forgotten(before: Records, after: Records) -> Iterator[str]:
    """A sentence for each window or report that is gone or changed, or is there twice, and each token that shrank."""
    for name, record in after.items():
        for window, times in Counter(record.get("windows_done", [])).items():
            if times > 1:
                yield f"{name}: window {window} is done {times} times"
    for name, record in before.items():
        now = after.get(name)
        if now is None:
            yield f"{name} is gone"
        elif "token" not in record:
            if now != record:
                yield f"{name} was {record}, and is {now}"
        else:
            if now["token"] < record["token"]:
                yield f"{name}: the token was {record['token']}, and is {now['token']}"
            for window in sorted(windows_done(before, name) - windows_done(after, name)):
                yield f"{name}: window {window} was done, and no longer is"


def misreported(records: Records, job: str, accounts: int) -> Iterator[str]:
    """A sentence for each window without its report, or the other way, and each report that can't be of sound books.

    They have this many accounts by now.
    """
    reports = {name.removeprefix(f"{job} "): item for name, item in records.items() if name.startswith(f"{job} ")}
    for window in sorted(windows_done(records, job) ^ reports.keys()):
        yield f"{job} for {window}: " + ("reported, and not done" if window in reports else "done, and not reported")
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
    """A sentence for each account that should have been charged interest on this day, and wasn't, or the other way."""
    overdrawn = {name for name, account in before.accounts.items() if account.balance < 0}
    charged = {
        entry.account_id for entry in after.entries if entry.transaction_id.startswith(f"overdraft-interest-{day}")
    }
    for name in sorted(overdrawn - charged):
        yield f"{name} was overdrawn, and not charged"
    for name in sorted(charged - overdrawn):
        yield f"{name} was charged, and not overdrawn"


def uncharged(overdrawn: Mapping[str, Collection[str]], books: Books) -> Iterator[str]:
    """A sentence for each account that was below zero as long as a day's job was at work, and has no entry of it."""
    charged = {(entry.account_id, entry.transaction_id[:29]) for entry in books.entries}
    for day, account_ids in overdrawn.items():
        for account_id in sorted(account_ids):
            if (account_id, f"overdraft-interest-{day}") not in charged:
                yield f"{account_id} was below zero, and wasn't charged for {day}"


def windows_done(records: Records, job: str) -> set[str]:
    return set(records.get(job, {}).get("windows_done", []))
