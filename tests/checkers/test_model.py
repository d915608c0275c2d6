"""Tests of the batch model: it predicts the dispositions, and finds a deviation of each kind."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from msgspec.structs import replace

from tests.checkers.books import Books
from tests.checkers.model import Delivery, Expected, Limits, predict, surprises, wrong_dispositions
from tests.checkers.small_books import JUNK, OPEN_A, OPEN_B, PAY, SPEND, TRANSFER, post

BEFORE = post(Books({}, {}), OPEN_A, PAY)
TO_NOBODY = PAY.replace('"a"', '"nobody"')
OTHER_PAY, TO_B = PAY.replace("50", "51"), TRANSFER.replace('"3"', '"1"')
BATCH = [
    Delivery(SPEND),
    Delivery(PAY, deliveries=2),
    *map(Delivery, (OTHER_PAY, JUNK, TO_NOBODY, OPEN_B)),
]
LIMITS = Limits(waits=4, begun=5)


def after() -> Books:
    return post(BEFORE, SPEND, OPEN_B)


def test_it_predicts_each_message_in_its_order() -> None:
    predicted = predict(BEFORE, BATCH, LIMITS)
    assert predicted.dispositions == [
        Expected.DONE,
        Expected.DONE,
        Expected.DEAD,
        Expected.DEAD,
        Expected.AGAIN,
        Expected.DONE,
    ]
    assert not list(surprises(predicted, BEFORE, after(), whole=True))


@pytest.mark.parametrize(
    ("delivery", "expected"),
    [
        (Delivery(TRANSFER, 30, waits=3), Expected.AGAIN),
        (Delivery(TRANSFER, 30, waits=4), Expected.DEAD),
        (Delivery(TO_B), Expected.EITHER),
        (Delivery(TO_B, 2), Expected.DEAD),
        (Delivery(SPEND, 30, begun=4), Expected.DONE),
        (Delivery(SPEND, 30, begun=5), Expected.DEAD),
    ],
    ids=["waits for b", "its last wait", "its entry wasn't read", "its entry was read", "a suspect", "it kills"],
)
def test_it_predicts_one_message(delivery: Delivery, expected: Expected) -> None:
    assert predict(BEFORE, [delivery], LIMITS).dispositions == [expected]


def test_what_may_have_killed_its_function_comes_last() -> None:
    batch = [Delivery(OPEN_B, 5, begun=2), Delivery(TRANSFER, 5, begun=1), Delivery(SPEND, 5)]
    assert predict(BEFORE, batch, LIMITS).dispositions == [Expected.DONE, Expected.AGAIN, Expected.DONE]


def _change_account(books: Books) -> None:
    books.accounts["a"] = replace(books.accounts["a"], balance=Decimal(51))


def _change_entry(books: Books) -> None:
    entry = books.journal["a"][2]
    books.journal["a"][2] = replace(entry, outcome=replace(entry.outcome, status="POSTED", reason=None))


PLANTED: dict[str, tuple[Callable[[Books], object], str]] = {
    "another balance": (_change_account, "a should be {"),
    "another outcome": (_change_entry, "a: 2 should be ('REJECTED'"),
    "an account without its entry": (lambda books: books.journal["a"].pop(), "a"),
    "an entry without its account": (
        lambda books: books.accounts.update(a=BEFORE.accounts["a"]),
        "a should be {",
    ),
    "a message that should wait": (
        lambda books: books.journal.update(nobody=[replace(books.journal["a"][1], account_id="nobody")]),
        "nobody: 1 shouldn't be posted",
    ),
}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("plant", "sentence"), PLANTED.values(), ids=PLANTED)
def test_it_finds(plant: Callable[[Books], object], sentence: str, whole: bool) -> None:
    books = after()
    plant(books)
    found = list(surprises(predict(BEFORE, BATCH, LIMITS), BEFORE, books, whole=whole))
    assert any(violation.startswith(sentence) for violation in found), found


def test_a_group_may_be_missing_only_if_a_fault_was_injected() -> None:
    predicted = predict(BEFORE, BATCH, LIMITS)
    assert not list(surprises(predicted, BEFORE, post(BEFORE, OPEN_B), whole=False))
    assert list(surprises(predicted, BEFORE, post(BEFORE, OPEN_B), whole=True))


def test_it_finds_wrong_dispositions() -> None:
    predicted = predict(BEFORE, BATCH, LIMITS)
    acknowledged = dict(zip("123456", [True, True, True, True, False, True], strict=True))
    dead = {"3", "4"}
    assert not list(wrong_dispositions(predicted, acknowledged, dead, whole=True))
    assert not list(wrong_dispositions(predicted, dict.fromkeys("123456", False), dead, whole=False))
    for wrong, letters, whole in (
        (acknowledged | {"1": False}, dead, True),
        (acknowledged | {"5": True}, dead, True),
        (acknowledged, {"4"}, False),
        (acknowledged, {"1", "3", "4"}, True),
    ):
        assert list(wrong_dispositions(predicted, wrong, letters, whole=whole))
