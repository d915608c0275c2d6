"""Minor units through the function that posts, on both engines: the rule is recorded at the opening of an account."""

from types import ModuleType

import pytest

from tests.checkers.books import violations
from tests.support.bodies import opening, payment
from tests.support.reconciling import Reconciled, mismatches


@pytest.fixture
def free(reconciled: Reconciled) -> ModuleType:
    """The function that posts, with the parameter off."""
    return reconciled.another_worker(MINOR_UNITS="off")


def test_accounts_keep_the_rule_of_their_opening_and_the_reconciliation_finds_each_as_it_was_decided(
    reconciled: Reconciled, free: ModuleType
) -> None:
    """The parameter is off, then on, then off again. Without the rule there is nothing new in an account's items."""
    reconciled.post(opening("early", -100), payment("t-1", "0.001", "early"), worker=free)
    assert not {"held", "holds", "decimal_places"} & reconciled.account_item("early").keys()
    assert not {"held_after", "decimal_places", "reversal"} & reconciled.entry("open", "early").keys()
    reconciled.post(opening("ruled"), payment("t-2", "-0.0005", "early"), payment("t-3", "5.001", "ruled"))
    reconciled.post(opening("points", currency="PTS"), payment("t-4", "0.00001", "points"), opening("early", -100))
    reconciled.post(opening("late", currency="JPY"), payment("t-5", "0.5", "late"), worker=free)
    reconciled.post(payment("t-6", "0.001", "ruled"), payment("t-7", "0.01", "ruled"), worker=free)
    books = reconciled.books
    assert not violations(books)
    assert (mismatches(report := reconciled.run()), report["accounts_checked"]) == ("", len(books.accounts))
    places = {name: account.decimal_places for name, account in books.accounts.items()}
    assert places == {"early": None, "ruled": 2, "points": None, "late": None}
    posted = {entry.transaction_id for entry in books.entries if entry.outcome.status == "POSTED"}
    assert posted == {"open", "t-1", "t-2", "t-4", "t-5", "t-7"}
    assert [letter.attributes["reason_code"] for letter in reconciled.dead_letters()] == ["INVALID_MESSAGE"] * 2
