"""Minor units through the function that posts, on both engines: the rule is recorded at the opening of an account."""

from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from tests.checkers.books import Books, violations
from tests.support.bodies import Body, hold, opening, payment, post_hold, reverse, set_limit, transfer
from tests.support.ledger import Ledger
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint

DECIMALS = {"JPY": 0, "EUR": 2, "KWD": 3, "UYW": 4}
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
    assert ledger.job("reconcile_accounts").lambda_handler(EVENT, Context())["outcome"] == "Done"
    [report] = [item for item in ledger.items(ledger.locks_table) if "accounts_checked" in item]
    assert (report["mismatches"], report["accounts_checked"]) == (0, len(books.accounts))
    return books


def reasons(ledger: Ledger) -> list[str | None]:
    letters = ledger.dead_letters()
    assert {letter.attributes["reason_code"] for letter in letters} <= {"INVALID_MESSAGE"}
    return [letter.reason for letter in letters]


def with_amount(account_id: str, amount: str, name: str) -> list[Body]:
    """Messages of each type that may have an amount or a limit. Each can be posted after the one before."""
    return [
        payment(f"{name}-payment", amount, account_id),
        set_limit(f"{name}-limit", f"-{amount}", account_id),
        transfer(f"{name}-transfer", amount, account_id, f"{account_id}-2"),
        hold(f"{name}-hold", amount, account_id),
        post_hold(f"{name}-posting", amount, account_id, "large-hold"),
        reverse(f"{name}-reversal", amount, account_id, "salary"),
    ]


@pytest.mark.parametrize(("currency", "decimals"), DECIMALS.items())
def test_each_type_has_the_currencys_decimals_and_no_more(ledger: Ledger, currency: str, decimals: int) -> None:
    name = currency.lower()
    fits, too_fine = f"{12:.{decimals}f}"[:-1] + "7", f"{12:.{decimals + 1}f}"[:-1] + "7"
    ledger.open(name, f"{name}-2", currency=currency)
    ledger.post(payment("salary", "1000", name), hold("large-hold", "100", name))
    good, bad = with_amount(name, fits, "good"), with_amount(name, too_fine, "bad")
    ledger.post(*good, *bad, opening(f"{name}-3", f"-{too_fine}", currency))
    outcomes = {entry.transaction_id: entry.outcome.status for entry in books_of(ledger).entries}
    there = ["open", "salary", "large-hold", *(each["transaction_id"] for each in good)]
    assert outcomes == dict.fromkeys(there, "POSTED")
    sentence = f"{decimals + 1} decimals, expected at most {decimals}, as many as {currency} has"
    assert sorted(map(str, reasons(ledger))) == [f"amount: {sentence}"] * 5 + [f"overdraft_limit: {sentence}"] * 2


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


def test_a_hold_on_an_account_without_the_rule_leaves_no_finer_amount_on_an_account_under_it(
    ledger: Ledger, free: ModuleType
) -> None:
    to_ruled: dict[str, Any] = {"to_account_id": "ruled"}
    ledger.post(opening("early"), payment("t-1", "5", "early"), hold("h-1", "1.125", "early"), worker=free)
    ledger.post(opening("ruled"), post_hold("p-1", None, "early", **to_ruled))
    assert reasons(ledger) == ["amount: 3 decimals, expected at most 2, as many as EUR has"]
    ledger.post(post_hold("p-2", "1.12", "early", **to_ruled))
    accounts = books_of(ledger).accounts
    assert (accounts["early"].balance, accounts["ruled"].balance) == (5 - Decimal("1.12"), Decimal("1.12"))
