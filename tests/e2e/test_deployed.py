"""The invariants of books on the deployed template.yaml, on a local AWS that enforces IAM."""

import json
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.checkers.books import Books, is_poison, vanished, violations
from tests.support.deployed import Bank, metrics, until
from tools.local_aws.day import believable_day
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
    assert day.books.counts()["POSTED"] > 250
    assert len(day.books.counts()) > 2, "some transactions are rejected"


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
