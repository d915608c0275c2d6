"""Minor units through the function that posts, on both engines: the rule is recorded at the opening of an account."""

from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from tests.checkers.books import Books, read_books, violations
from tests.support.reconciling import Bank
from tools.local_aws.functions import Queue, process_transactions, record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint

DECIMALS = {"JPY": 0, "EUR": 2, "KWD": 3, "UYW": 4}


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Bank:
    return Bank(ministack, dynamodb, monkeypatch)


def opening(account_id: str, currency: str, **fields: Any) -> dict[str, Any]:
    named = {"transaction_id": f"open-{account_id}", "account_id": account_id, "currency": currency}
    return {"type": "open_account"} | named | fields


def payment(transaction_id: str, account_id: str, amount: str) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "account_id": account_id, "amount": amount}


def post(function: ModuleType, *messages: dict[str, Any]) -> None:
    Queue([record(message) for message in messages]).deliver_until_quiet(function)


def reasons(ministack: Endpoint, function: ModuleType) -> dict[str, str | None]:
    """The dead letters' reasons, by reason code and body."""
    letters = take_dead_letters(ministack, function.worker.queue.dead_letter_url)
    return {f"{letter.attributes['reason_code']} {letter.body}": letter.reason for letter in letters}


def books_of(bank: Bank) -> Books:
    books = read_books(bank.dynamodb, bank.tables)
    assert not violations(books)
    return books


def with_amount(account_id: str, amount: str, name: str) -> list[dict[str, Any]]:
    """Messages of each type that may have an amount or a limit. Each can be posted after the one before."""
    on_account = {"account_id": account_id, "amount": amount}
    of_limit = {"account_id": account_id, "overdraft_limit": f"-{amount}"}
    between = {"from_account_id": account_id, "to_account_id": f"{account_id}-2", "amount": amount}
    return [
        payment(f"{name}-payment", account_id, amount),
        {"type": "set_overdraft_limit", "transaction_id": f"{name}-limit"} | of_limit,
        {"type": "transfer", "transaction_id": f"{name}-transfer"} | between,
        {"type": "hold", "transaction_id": f"{name}-hold"} | on_account,
        {"type": "post_hold", "transaction_id": f"{name}-posting", "hold_id": "large-hold"} | on_account,
        {"type": "reverse", "transaction_id": f"{name}-reversal", "of_transaction_id": "salary"} | on_account,
    ]


@pytest.mark.parametrize(("currency", "decimals"), DECIMALS.items())
def test_each_type_has_the_currencys_decimals_and_no_more(
    bank: Bank, ministack: Endpoint, currency: str, decimals: int
) -> None:
    name = currency.lower()
    fits, too_fine = f"{12:.{decimals}f}"[:-1] + "7", f"{12:.{decimals + 1}f}"[:-1] + "7"
    post(bank.teller, opening(name, currency), opening(f"{name}-2", currency), payment("salary", name, "1000"))
    hold = {"type": "hold", "transaction_id": "large-hold", "account_id": name, "amount": "100"}
    post(bank.teller, hold, *with_amount(name, fits, "good"), *with_amount(name, too_fine, "bad"))
    post(bank.teller, opening(f"{name}-3", currency, overdraft_limit=f"-{too_fine}"))
    outcomes = {entry.transaction_id: entry.outcome for entry in books_of(bank).entries}
    assert {outcome.status for outcome in outcomes.values()} == {"POSTED"}
    assert {each for each in outcomes if each.startswith("good")} == {
        f"good-{what}" for what in ("payment", "limit", "transfer", "hold", "posting", "reversal")
    }
    assert not {each for each in outcomes if each.startswith("bad") or each == f"open-{name}-3"}
    sentence = f"{decimals + 1} decimals, expected at most {decimals}, as many as {currency} has"
    found = reasons(ministack, bank.teller)
    assert len(found) == 7
    assert all(letter.startswith("INVALID_MESSAGE ") for letter in found)
    assert set(found.values()) == {f"amount: {sentence}", f"overdraft_limit: {sentence}"}


def test_accounts_keep_the_rule_of_their_opening_and_the_reconciliation_finds_each_as_it_was_decided(
    bank: Bank, ministack: Endpoint
) -> None:
    """The parameter is off, then on, then off again. An account of an earlier release looks like one of the first."""
    free = process_transactions(ministack, bank.tables, bank.dynamodb, MINOR_UNITS="off")
    post(free, opening("early", "EUR"), payment("t-1", "early", "0.001"))
    post(bank.teller, opening("ruled", "EUR"), payment("t-2", "early", "0.0001"), payment("t-3", "ruled", "5.001"))
    post(bank.teller, opening("points", "PTS"), payment("t-4", "points", "0.00001"))
    post(free, opening("late", "JPY"), payment("t-5", "late", "0.5"), payment("t-6", "ruled", "0.001"))
    post(free, payment("t-7", "ruled", "0.01"))
    books = books_of(bank)
    places = {name: account.decimal_places for name, account in books.accounts.items()}
    assert places == {"early": None, "ruled": 2, "points": None, "late": None}
    posted = {entry.transaction_id for entry in books.entries if entry.outcome.status == "POSTED"}
    assert {each for each in posted if each.startswith("t-")} == {"t-1", "t-2", "t-4", "t-5", "t-7"}
    assert [len(reasons(ministack, function)) for function in (bank.teller, free)] == [1, 1]
    report = bank.run()
    assert (report["mismatches"], report["accounts_checked"]) == (0, 4)


def test_a_hold_on_an_account_without_the_rule_leaves_no_finer_amount_on_an_account_under_it(
    bank: Bank, ministack: Endpoint
) -> None:
    free = process_transactions(ministack, bank.tables, bank.dynamodb, MINOR_UNITS="off")
    hold = {"type": "hold", "transaction_id": "h-1", "account_id": "early", "amount": "1.125"}
    post(free, opening("early", "EUR"), payment("t-1", "early", "5"), hold)
    fields = {"type": "post_hold", "account_id": "early", "hold_id": "h-1", "to_account_id": "ruled"}
    post(bank.teller, opening("ruled", "EUR"), {"transaction_id": "p-1"} | fields)
    assert set(reasons(ministack, bank.teller).values()) == {
        "amount: 3 decimals, expected at most 2, as many as EUR has"
    }
    post(bank.teller, {"transaction_id": "p-2", "amount": "1.12"} | fields)
    accounts = books_of(bank).accounts
    assert (accounts["early"].balance, accounts["ruled"].balance) == (5 - Decimal("1.12"), Decimal("1.12"))
    assert bank.run()["mismatches"] == 0


def test_an_account_of_an_earlier_release_is_posted_to_as_before(bank: Bank, ministack: Endpoint) -> None:
    """Its item, and its opening's entry, have nothing that the earlier release didn't write."""
    free = process_transactions(ministack, bank.tables, bank.dynamodb, MINOR_UNITS="off")
    post(free, opening("old", "EUR", overdraft_limit="-100"), payment("t-1", "old", "-30.125"))
    account, opened = bank.accounts()["old"], bank.entry("old", "open-old")
    assert not {"held", "holds", "decimal_places"} & account.keys()
    assert not {"held_after", "decimal_places", "reversal"} & opened.keys()
    post(bank.teller, payment("t-2", "old", "-0.0005"), opening("old", "EUR", overdraft_limit="-100"))
    interest = {"type": "charge_interest", "transaction_id": "t-3", "account_id": "old", "annual_rate": "0.365"}
    post(bank.teller, interest)
    books = books_of(bank)
    assert [entry.outcome.amount for entry in books.journal["old"]][1:] == [
        *map(type(books.accounts["old"].balance), ("-30.125", "-0.0005", "-0.03"))
    ]
    assert not reasons(ministack, bank.teller)
    assert bank.run()["mismatches"] == 0
