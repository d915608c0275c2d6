"""The invariants of books on the deployed template.yaml, on a local AWS that enforces IAM."""

import json
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.checkers.books import Books, is_poison, vanished, violations
from tests.support.deployed import Bank, metrics, opening, payment, until
from tools.local_aws.day import TOO_FINE, believable_day
from tools.local_aws.queues import DeadLetter


@dataclass(frozen=True)
class Day:
    """The messages sent, and the state when the queue was empty."""

    bodies: list[str]
    books: Books
    dead_letters: list[DeadLetter]
    log_lines: list[str]


@pytest.fixture(scope="module")
def day(bank: Bank) -> Day:
    bodies = believable_day(400, accounts=30)
    bank.transactions.send(bodies)
    bank.transactions.wait_until_drained()
    return Day(bodies, bank.books(), bank.transactions.take_dead_letters(), bank.transactions.log_lines())


def test_after_a_day_the_invariants_hold(day: Day) -> None:
    assert violations(day.books) == []
    assert day.books.counts()["POSTED"] > 200  # half of them: a standard queue keeps no order
    assert {"OVERDRAFT_LIMIT", "HOLD_NOT_OPEN", "ALREADY_REVERSED"} <= day.books.counts().keys()
    assert {"hold", "post_hold", "void_hold", "reverse"} <= day.books.types().keys()


def test_no_message_vanishes(day: Day) -> None:
    assert list(vanished(day.bodies, day.books, day.dead_letters)) == []


def test_only_poison_is_dead_lettered_each_with_a_reason(day: Day) -> None:
    assert day.dead_letters
    for letter in day.dead_letters:
        assert is_poison(letter), letter


def test_a_redrive_of_the_dead_letters_changes_nothing(bank: Bank, day: Day) -> None:
    before = bank.books()
    bank.transactions.send(day.dead_letters)
    bank.transactions.wait_until_drained()
    assert bank.books() == before
    assert Counter(bank.transactions.take_dead_letters()) == Counter(day.dead_letters)


def test_every_line_of_the_log_is_json_and_tells_the_ids_but_no_payload(day: Day) -> None:
    lines = [json.loads(line) for line in day.log_lines]
    posted = {
        (account_id, line["transaction_id"])
        for line in lines
        if line.get("message") in {"posted", "rejected"}
        for account_id in line["account_ids"]
    }
    assert posted
    assert posted <= {(entry.account_id, entry.transaction_id) for entry in day.books.entries}
    assert not any('"Card"' in line or "green" in line for line in day.log_lines)


def test_an_amount_with_a_decimal_too_many_is_dead_lettered(day: Day) -> None:
    [letter] = [letter for letter in day.dead_letters if letter.body == TOO_FINE]
    assert letter.reason == "amount: 3 decimals, expected at most 2, as many as EUR has"


def test_the_metrics_are_in_the_log(day: Day) -> None:
    """The metrics are in the stack's namespace. tests/integration/test_posting.py shows that they are exact."""
    totals = metrics(map(json.loads, day.log_lines))
    assert 0 < totals["Posted"] <= day.books.counts()["POSTED"]
    assert {"DeadLettered", "Duplicates", "Conflicts", "CommitTime"} <= totals.keys()


def test_a_payment_that_overtakes_its_accounts_opening_is_posted_once_that_is_there(bank: Bank) -> None:
    bank.transactions.send([json.dumps({"transaction_id": "early", "account_id": "late", "amount": "12.50"})])
    until(
        lambda: any(line.get("transaction_id") == "early" for line in bank.transactions.logged()),
        "the payment was tried",
    )
    assert "late" not in bank.books().accounts
    bank.transactions.send(
        [json.dumps({"type": "open_account", "transaction_id": "open", "account_id": "late", "currency": "EUR"})]
    )
    bank.transactions.wait_until_drained()
    outcomes = [(entry.transaction_id, entry.outcome.status) for entry in bank.books().journal["late"]]
    assert outcomes == [("open", "POSTED"), ("early", "POSTED")]


def test_messages_that_overtake_their_hold_or_payment_are_posted_once_that_is_there(bank: Bank) -> None:
    refers = {"account_id": "overtaken", "hold_id": "hold"}
    early = [
        {"type": "post_hold", "transaction_id": "post", "amount": "30", "final": False, "to_account_id": "shop"}
        | refers,
        {"type": "reverse", "transaction_id": "back", "account_id": "shop", "of_transaction_id": "post", "amount": "5"},
    ]
    bank.transactions.send([opening("overtaken", "-100"), opening("shop")])
    bank.transactions.wait_until_drained()
    bank.transactions.send(map(json.dumps, early))
    until(
        lambda: {"post", "back"} <= {line.get("transaction_id") for line in bank.transactions.logged()},
        "both messages were tried",
    )
    hold = {"type": "hold", "transaction_id": "hold", "account_id": "overtaken", "amount": "80"}
    bank.transactions.send([json.dumps(hold)])
    bank.transactions.wait_until_drained()
    books = bank.books()
    outcomes = [(entry.transaction_id, str(entry.outcome.amount)) for entry in books.journal["overtaken"]]
    assert outcomes == [("open", "0"), ("hold", "0"), ("post", "-30"), ("back", "5")]
    overtaken, shop = (books.accounts[name] for name in ("overtaken", "shop"))
    assert (overtaken.balance, overtaken.held, shop.balance) == (-25, 50, 25)


def test_held_money_cannot_be_spent_until_the_hold_is_voided(bank: Bank) -> None:
    void = {"type": "void_hold", "transaction_id": "void", "account_id": "held", "hold_id": "hold"}
    for message in (
        opening("held", "-100"),
        json.dumps({"type": "hold", "transaction_id": "hold", "account_id": "held", "amount": "80"}),
        payment("held", 1, "-20.01"),
        json.dumps(void),
        json.dumps(void | {"transaction_id": "void-again"}),
        payment("held", 2, "-20.01"),
    ):
        bank.transactions.send([message])
        bank.transactions.wait_until_drained()
    outcomes = [(entry.transaction_id, entry.outcome.reason) for entry in bank.books().journal["held"]]
    assert outcomes == [
        ("open", None),
        ("hold", None),
        ("t-1", "OVERDRAFT_LIMIT"),
        ("void", None),
        ("void-again", "HOLD_NOT_OPEN"),
        ("t-2", None),
    ]
