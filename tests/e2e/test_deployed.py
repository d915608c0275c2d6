"""The invariants of books on the deployed template.yaml, on a local AWS that enforces IAM."""

import json
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.checkers.books import Books, is_poison, vanished, violations
from tests.support.bodies import hold, opening, post_hold, reverse
from tests.support.deployed import Bank, metrics, until
from tools.local_aws.day import TOO_FINE, believable_day
from tools.local_aws.queues import DeadLetter


@dataclass(frozen=True)
class Day:
    """The messages sent, and the state when the queue was empty."""

    bodies: list[str]
    books: Books
    dead_letters: list[DeadLetter]
    log_lines: list[dict]


@pytest.fixture(scope="module")
def day(bank: Bank) -> Day:
    bodies = believable_day(300, accounts=30)
    bank.transactions.process(*bodies)
    return Day(bodies, bank.books(), bank.transactions.take_dead_letters(), bank.transactions.logged())


def test_after_a_day_the_invariants_hold_and_no_message_has_vanished(day: Day) -> None:
    assert violations(day.books) == []
    assert list(vanished(day.bodies, day.books, day.dead_letters)) == []
    assert day.books.counts()["POSTED"] > 150  # half of them: a standard queue keeps no order
    assert {"OVERDRAFT_LIMIT", "HOLD_NOT_OPEN", "ALREADY_REVERSED"} <= day.books.counts().keys()
    assert {"hold", "post_hold", "void_hold", "reverse"} <= day.books.types().keys()


def test_only_poison_is_dead_lettered_each_with_a_reason(day: Day) -> None:
    assert [letter for letter in day.dead_letters if not is_poison(letter)] == []
    [too_fine] = [letter for letter in day.dead_letters if letter.body == TOO_FINE]
    assert too_fine.reason == "amount: 3 decimals, expected at most 2, as many as EUR has"


def test_a_redrive_of_the_dead_letters_changes_nothing(bank: Bank, day: Day) -> None:
    bank.transactions.process(*day.dead_letters)
    assert bank.books() == day.books
    assert Counter(bank.transactions.take_dead_letters()) == Counter(day.dead_letters)


def test_every_line_of_the_log_is_json_and_tells_the_ids_but_no_payload(day: Day) -> None:
    posted = {
        (account_id, line["transaction_id"])
        for line in day.log_lines
        if line.get("message") in {"posted", "rejected"}
        for account_id in line["account_ids"]
    }
    assert posted
    assert posted <= {(entry.account_id, entry.transaction_id) for entry in day.books.entries}
    assert not any('"Card"' in line or "green" in line for line in map(json.dumps, day.log_lines))


def test_the_metrics_are_in_the_log(day: Day) -> None:
    """The metrics are in the stack's namespace. tests/integration/test_posting.py shows that they are exact."""
    totals = metrics(day.log_lines)
    assert 0 < totals["Posted"] <= day.books.counts()["POSTED"]
    assert {"DeadLettered", "Duplicates", "Conflicts", "CommitTime"} <= totals.keys()


def test_messages_that_overtake_what_they_refer_to_are_posted_once_that_is_there(bank: Bank) -> None:
    bank.transactions.process(opening("shop"))
    bank.transactions.send(
        post_hold("post", "30", "late", "hold", final=False, to_account_id="shop"), reverse("back", "5", "shop", "post")
    )
    until(
        lambda: {"post", "back"} <= {line.get("transaction_id") for line in bank.transactions.logged()},
        "both messages were tried",
    )
    assert "late" not in bank.books().accounts
    bank.transactions.process(opening("late", "-100"), hold("hold", "80", "late"))
    books = bank.books()
    outcomes = [(entry.transaction_id, str(entry.outcome.amount)) for entry in books.journal["late"]]
    assert outcomes == [("open", "0"), ("hold", "0"), ("post", "-30"), ("back", "5")]
    late, shop = (books.accounts[name] for name in ("late", "shop"))
    assert (late.balance, late.held, shop.balance) == (-25, 50, 25)
