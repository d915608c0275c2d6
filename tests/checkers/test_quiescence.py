"""Tests of the quiescence checker: after the faults, it finds leftovers and changes."""

import pytest

from tests.checkers.books import Books
from tests.checkers.quiescence import changed, unfinished
from tests.checkers.small_books import EXPIRE, HOLD, OPEN_A, OPEN_B, PAY, SPEND, TRANSFER, VOID, post
from tools.local_aws.queues import DeadLetter

BOOKS = post(Books({}, {}), OPEN_A, PAY, SPEND)

POISON = {
    "another payload": PAY.replace("50", "51"),
    "an account that was never opened": TRANSFER,
    "a hold that was never placed": VOID,
    "a decimal too many": PAY.replace("50", "50.005").replace('"1"', '"9"'),
}


@pytest.mark.parametrize("body", POISON.values(), ids=POISON)
def test_poison_may_be_dead_lettered_with_a_reason(body: str) -> None:
    assert not list(unfinished([], [DeadLetter(body, "why")], BOOKS))
    assert list(unfinished([], [DeadLetter(body, None)], BOOKS)) == [f"dead-lettered without a reason: {body}"]


@pytest.mark.parametrize(
    "body", [PAY, PAY.replace('"1"', '"9"'), OPEN_A, OPEN_B, HOLD, EXPIRE.replace('"hold"', '"1"')]
)
def test_it_finds_a_dead_letter_that_is_no_poison(body: str) -> None:
    [sentence] = unfinished([], [DeadLetter(body, "why")], BOOKS)
    assert sentence == f"dead-lettered, but could be posted: {body} (why)"


def test_it_finds_what_is_still_on_the_queue() -> None:
    assert list(unfinished([PAY], [], BOOKS)) == [f"still on the queue: {PAY}"]


def test_it_finds_what_a_redelivery_changed() -> None:
    before = {"accounts": ["a at 3"], "journal": ["a 1", "a 2"]}
    assert not list(changed(before, {"accounts": ["a at 3"], "journal": ["a 2", "a 1"]}))
    assert list(changed(before, {"accounts": ["a at 4"], "journal": ["a 1", "a 2", "a 3"]})) == [
        "accounts: a redelivery removed a at 3",
        "accounts: a redelivery added a at 4",
        "journal: a redelivery added a 3",
    ]
