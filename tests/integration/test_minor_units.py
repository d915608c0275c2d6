"""Minor units through the function that posts, on both engines: the rule is recorded at the opening of an account."""

from types import ModuleType

import pytest

from tests.checkers.books import Books, violations
from tests.support.bodies import opening, payment
from tests.support.ledger import Ledger
from tools.local_aws.functions import run_job
from tools.local_aws.server import Endpoint

EVENT = {"job": "reconcile_accounts", "scheduled_time": "2026-03-01T02:00:00Z", "force": True}


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    return Ledger(aws, dynamodb)


@pytest.fixture
def free(ledger: Ledger) -> ModuleType:
    """The function that posts, with the parameter off."""
    return ledger.another_worker(MINOR_UNITS="off")


def books_of(ledger: Ledger) -> Books:
    """The books, in which neither the invariants nor the reconciliation find anything."""
    books = ledger.books
    assert not violations(books)
    assert run_job(ledger.job("reconcile_accounts"), EVENT) == "Done"
    [report] = [item for item in ledger.items(ledger.locks_table) if "accounts_checked" in item]
    assert (report["mismatches"], report["accounts_checked"]) == (0, len(books.accounts))
    return books


def reasons(ledger: Ledger) -> list[str | None]:
    letters = ledger.dead_letters()
    assert {letter.attributes["reason_code"] for letter in letters} <= {"INVALID_MESSAGE"}
    return [letter.reason for letter in letters]


def test_accounts_keep_the_rule_of_their_opening_and_the_reconciliation_finds_each_as_it_was_decided(
    ledger: Ledger, free: ModuleType
) -> None:
    """The parameter is off, then on, then off again. Without the rule there is nothing new in an account's items."""
    ledger.post(opening("early", -100), payment("t-1", "0.001", "early"), worker=free)
    assert not {"held", "holds", "decimal_places"} & ledger.account_item("early").keys()
    assert not {"held_after", "decimal_places", "reversal"} & ledger.entry("open", "early").keys()
    ledger.post(opening("ruled"), payment("t-2", "-0.0005", "early"), payment("t-3", "5.001", "ruled"))
    ledger.post(opening("points", currency="PTS"), payment("t-4", "0.00001", "points"), opening("early", -100))
    ledger.post(opening("late", currency="JPY"), payment("t-5", "0.5", "late"), worker=free)
    ledger.post(payment("t-6", "0.001", "ruled"), payment("t-7", "0.01", "ruled"), worker=free)
    books = books_of(ledger)
    places = {name: account.decimal_places for name, account in books.accounts.items()}
    assert places == {"early": None, "ruled": 2, "points": None, "late": None}
    posted = {entry.transaction_id for entry in books.entries if entry.outcome.status == "POSTED"}
    assert posted == {"open", "t-1", "t-2", "t-4", "t-5", "t-7"}
    assert len(reasons(ledger)) == 2
