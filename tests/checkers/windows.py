"""Invariants of scheduled jobs: a window is done once, however many runs it takes, and stays done."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from conditional_writes.core.items import Item
from ledger.checkpoints import RECORD
from ledger.core.accounts import AccountStatus
from ledger.core.replay import from_payload
from ledger.core.transaction_types import ChargeInterest
from tests.checkers.books import Books, state_of

type Records = Mapping[str, Item]
"""The items of the Locks table by their keys: of locks, and of runs, which are their reports."""


class Run(NamedTuple):
    """A job's invocation. `outcome` is the outcome that it returned, or the class name of the error that it raised.

    The last `meanwhile` runs before it ended while it was on.
    """

    job: str
    window: str
    outcome: str
    meanwhile: int = 0

    @property
    def says_done(self) -> bool:
        return self.outcome in {"Done", "DoneBefore"}


CLAIMS = (
    "a window is done once, and stays done",
    "a lock's tokens only grow",
    "each done window has one report, which never changes",
    "an account is sent one charge of interest for the end of a month at most",
)

NIGHT_CLAIMS = (
    "a job that is delivered twice has one effect",
    "all interest that was due was charged, once",
    "each hold that had expired was released",
    "the nightly reconciliation finds nothing",
)
"""The claims about one night on a deployed stack, checked by the jobs' answers, the report, `due_though_charged` and
`open_though_expired`.
"""


def done_again(runs: list[Run]) -> Iterator[str]:
    """Yields a sentence for each run that worked on a window that an earlier run had done.

    If a run finds the window done while another one is on, it may have been that one.
    """
    for number, run in enumerate(runs):
        before = runs[: number - run.meanwhile] + [each for each in runs[:number] if each.outcome == "Done"]
        if run.outcome in {"Done", "Continued"} and any(
            each.says_done and (each.job, each.window) == (run.job, run.window) for each in before
        ):
            yield f"{run.job} for {run.window} was done before, but ended again with {run.outcome!r}"


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
        elif name != RECORD and after[name] != record:  # that of the newest root is each night's
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
        if isinstance(message, ChargeInterest):
            charges[entry.account_id, str(message.until.date())] += 1
    for (account_id, day), times in charges.items():
        if times > 1:
            yield f"{account_id} was charged {times} times for {day}"


def due_though_charged(books: Books) -> Iterator[str]:
    """Yields a sentence for each open account with interest that is due. The job that charges it is done."""
    for name, account in books.accounts.items():
        due = state_of(account)["interest"].due
        if due and account.status is AccountStatus.OPEN:
            yield f"{name} has {due} of interest due, which wasn't charged"


def open_though_expired(books: Books, as_of: datetime) -> Iterator[str]:
    """Yields a sentence for each open hold that has expired. A job that expires holds is done for `as_of`."""
    for account in books.accounts.values():
        for hold_id, hold in account.open_holds.items():
            if hold.expires_at is not None and datetime.fromisoformat(hold.expires_at) <= as_of:
                yield f"{account.account_id}: hold {hold_id} expired at {hold.expires_at}, but is open"


def windows_done(records: Records, job: str) -> set[str]:
    """The windows of the job's finished runs."""
    finished = {name for name, record in records.items() if name.startswith(f"{job} ") and "finished_at" in record}
    return {name.removeprefix(f"{job} ") for name in finished}
