"""The jobs' checkers find what they are there to find: a violation of each kind, planted in sound records."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from ledger.core.accounts import Account, AccountStatus
from ledger.core.journal import JournalEntry, Outcome
from tests.checkers.books import Books
from tests.checkers.windows import Run, charged_twice, done_again, forgotten, misreported, uncharged, undone

CHARGE, RECONCILE = "charge_overdraft_interest", "reconcile_accounts"
FIRST, SECOND = "2026-03-01T02:00:00+00:00", "2026-03-02T02:00:00+00:00"
REPORT = f"{RECONCILE} {FIRST}"


def charged(account_id: str, day: str, suffix: str = "") -> JournalEntry:
    transaction_id = f"overdraft-interest-{day}-{account_id}{suffix}"
    request = {"type": "charge_interest", "transaction_id": transaction_id, "account_id": account_id}
    request |= {"annual_rate": "0.365", "occurred_at": f"{day}T00:00:00+00:00"}
    return JournalEntry(
        account_id, transaction_id, request, "", Outcome("POSTED", None, Decimal(-1), Decimal(-101), 2, "")
    )


@dataclass
class Nights:
    """Two days' interest of two accounts, and one night's reconciliation, which was run again."""

    before: dict[str, Any] = field(
        default_factory=lambda: {
            CHARGE: {"token": 5, "windows_done": [FIRST]},
            RECONCILE: {"token": 7, "windows_done": [FIRST]},
            REPORT: {"mismatches": 0, "first_mismatches": [], "accounts_checked": 2, "finished_at": "then"},
        }
    )
    runs: list[Run] = field(
        default_factory=lambda: [
            Run(CHARGE, FIRST, "Continued"),
            Run(CHARGE, FIRST, "Killed"),
            Run(CHARGE, FIRST, "Done"),
            Run(RECONCILE, FIRST, "Killed"),
            Run(RECONCILE, FIRST, "DoneBefore"),
            Run(CHARGE, SECOND, "LockTaken"),
            Run(CHARGE, SECOND, "Done"),
        ]
    )

    def __post_init__(self) -> None:
        self.after = copy.deepcopy(self.before)
        self.after[CHARGE] = {"token": 6, "windows_done": [FIRST, SECOND]}
        accounts = [Account(name, Decimal(-101), Decimal(-500), "EUR", AccountStatus.OPEN, 2) for name in ("a", "b")]
        journal = {name: [charged(name, day) for day in ("2026-03-01", "2026-03-02")] for name in ("a", "b")}
        self.books = Books({account.account_id: account for account in accounts}, journal)

    def found(self) -> list[str]:
        overdrawn = {"2026-03-01": {"a", "b"}, "2026-03-02": {"a"}}
        return [
            *done_again(self.runs),
            *undone(self.runs, self.after),
            *forgotten(self.before, self.after),
            *misreported(self.after, RECONCILE, len(self.books.accounts)),
            *charged_twice(self.books),
            *uncharged(overdrawn, self.books),
        ]


def test_sound_nights_have_no_violation() -> None:
    assert Nights().found() == []


PLANTED: dict[str, tuple[Callable[[Nights], object], str]] = {
    "a window done twice": (
        lambda nights: nights.runs.append(Run(CHARGE, FIRST, "Done")),
        f"{CHARGE} for {FIRST} was done before, and came to 'Done'",
    ),
    "a window begun again": (
        lambda nights: nights.runs.append(Run(RECONCILE, FIRST, "Continued")),
        f"{RECONCILE} for {FIRST} was done before, and came to 'Continued'",
    ),
    "a window that only the job knows": (
        lambda nights: nights.runs.append(Run(RECONCILE, SECOND, "Done")),
        f"{RECONCILE} for {SECOND} came to 'Done', and its record has",
    ),
    "a window forgotten": (
        lambda nights: nights.after[CHARGE]["windows_done"].remove(FIRST),
        f"{CHARGE}: window {FIRST} was done, and no longer is",
    ),
    "a window in the record twice": (
        lambda nights: nights.after[CHARGE]["windows_done"].append(FIRST),
        f"{CHARGE}: window {FIRST} is done 2 times",
    ),
    "a token that shrinks": (
        lambda nights: nights.after[CHARGE].update(token=4),
        f"{CHARGE}: the token was 5, and is 4",
    ),
    "a record that is gone": (lambda nights: nights.after.pop(CHARGE), f"{CHARGE} is gone"),
    "a second report": (lambda nights: nights.after[REPORT].update(finished_at="later"), f"{REPORT} was {{"),
    "a report that is gone": (lambda nights: nights.after.pop(REPORT), f"{REPORT} is gone"),
    "a window without its report": (
        lambda nights: nights.after[RECONCILE]["windows_done"].append(SECOND),
        f"{RECONCILE} for {SECOND}: done, and not reported",
    ),
    "a report of a window that isn't done": (
        lambda nights: nights.after[RECONCILE].update(windows_done=[]),
        f"{RECONCILE} for {FIRST}: reported, and not done",
    ),
    "an account counted twice": (
        lambda nights: nights.after[REPORT].update(accounts_checked=3),
        f"{RECONCILE} for {FIRST} checked 3 accounts, of 2",
    ),
    "a mismatch that isn't one": (
        lambda nights: nights.after[REPORT].update(mismatches=1),
        f"{RECONCILE} for {FIRST} found [] in sound books",
    ),
    "an account charged twice": (
        lambda nights: nights.books.journal["b"].append(charged("b", "2026-03-02", "-again")),
        "b was charged 2 times for 2026-03-02",
    ),
    "an account not charged": (
        lambda nights: nights.books.journal["a"].pop(),
        "a was below zero, and wasn't charged for 2026-03-02",
    ),
}


@pytest.mark.parametrize(("plant", "sentence"), PLANTED.values(), ids=PLANTED)
def test_it_finds(plant: Callable[[Nights], object], sentence: str) -> None:
    nights = Nights()
    plant(nights)
    assert any(violation.startswith(sentence) for violation in nights.found()), nights.found()
