"""Tests of the jobs' checkers: each finds its kind of violation, planted in sound records."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.interest import Interest
from ledger.core.journal import JournalEntry, Outcome
from tests.checkers.books import Books
from tests.checkers.windows import Run, charged_twice, done_again, due_though_charged, forgotten, misreported, undone
from tests.support.samples import SENDER

CHARGE, RECONCILE = "charge_overdraft_interest", "reconcile_accounts"
FIRST, SECOND = "2026-03-01T02:00:00+00:00", "2026-03-02T02:00:00+00:00"
REPORT = f"{RECONCILE} {FIRST}"


def charged(account_id: str, day: str, suffix: str = "") -> JournalEntry:
    transaction_id = f"teller:overdraft-interest-{day}-{account_id}{suffix}"
    request = {"type": "charge_interest", "transaction_id": transaction_id, "account_id": account_id}
    request |= {"until": f"{day}T00:00:00+00:00"}
    outcome = Outcome("POSTED", None, Decimal(-1), Decimal(-101), 2, "", "EUR")
    return JournalEntry(account_id, account_id, transaction_id, request, outcome, SENDER, 1)


@dataclass
class ScheduledRuns:
    """Two days' interest for two accounts, and one reconciliation that was delivered twice."""

    before: dict[str, Any] = field(
        default_factory=lambda: {
            CHARGE: {"token": 5, "windows_done": [FIRST]},
            f"{CHARGE} {FIRST}": {"sent": 2, "finished_at": "then"},
            RECONCILE: {"token": 7, "windows_done": [FIRST]},
            REPORT: {"mismatches": 0, "first_mismatches": [], "accounts_checked": 2, "finished_at": "then"},
        }
    )
    ended: list[Run] = field(
        default_factory=lambda: [
            Run(CHARGE, FIRST, "Continued"),
            Run(CHARGE, FIRST, "Killed"),
            Run(CHARGE, FIRST, "Done"),
            Run(RECONCILE, FIRST, "Continued"),
            Run(RECONCILE, FIRST, "Done"),
            Run(RECONCILE, FIRST, "DoneBefore"),
            Run(CHARGE, SECOND, "DoneBefore"),
            Run(CHARGE, SECOND, "InProgress"),
            Run(CHARGE, SECOND, "Done", meanwhile=2),
        ]
    )

    def __post_init__(self) -> None:
        self.after = copy.deepcopy(self.before)
        self.after[CHARGE] = {"token": 6, "windows_done": [FIRST, SECOND]}
        self.after[f"{CHARGE} {SECOND}"] = {"sent": 2, "finished_at": "then"}
        accounts = [Account(name, Decimal(-101), Decimal(-500), "EUR", AccountStatus.OPEN, 2) for name in ("a", "b")]
        journal = {name: [charged(name, day) for day in ("2026-03-01", "2026-03-02")] for name in ("a", "b")}
        self.books = Books({account.account_id: account for account in accounts}, journal)

    def found(self) -> list[str]:
        return [
            *done_again(self.ended),
            *undone(self.ended, self.after),
            *forgotten(self.before, self.after),
            *misreported(self.after, RECONCILE, len(self.books.accounts)),
            *charged_twice(self.books),
            *due_though_charged(self.books),
        ]


def test_sound_scheduled_runs_have_no_violation() -> None:
    assert ScheduledRuns().found() == []


PLANTED: dict[str, tuple[Callable[[ScheduledRuns], object], str]] = {
    "a window done twice": (
        lambda runs: runs.ended.append(Run(CHARGE, FIRST, "Done")),
        f"{CHARGE} for {FIRST} was done before, but ended again with 'Done'",
    ),
    "a window missing from the record": (
        lambda runs: runs.ended.append(Run(RECONCILE, SECOND, "Done")),
        f"{RECONCILE} for {SECOND} ended with 'Done', but its record is",
    ),
    "a window forgotten": (
        lambda runs: runs.after[CHARGE]["windows_done"].remove(FIRST),
        f"{CHARGE}: window {FIRST} was done, but is no longer",
    ),
    "a mismatch": (lambda runs: runs.after[REPORT].update(mismatches=1), f"{RECONCILE} for {FIRST} found [] in sound"),
    "an account charged twice": (
        lambda runs: runs.books.journal["b"].append(charged("b", "2026-03-02", "-again")),
        "b was charged 2 times for 2026-03-02",
    ),
    "an account not charged": (
        lambda runs: runs.books.accounts.update(a=replace(runs.books.accounts["a"], interest=Interest(due=Decimal(3)))),
        "a has 3 of interest due, which wasn't charged",
    ),
}


@pytest.mark.parametrize(("plant", "sentence"), PLANTED.values(), ids=PLANTED)
def test_it_finds(plant: Callable[[ScheduledRuns], object], sentence: str) -> None:
    runs = ScheduledRuns()
    plant(runs)
    assert any(violation.startswith(sentence) for violation in runs.found()), runs.found()
