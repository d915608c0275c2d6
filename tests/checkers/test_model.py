"""Tests of the batch model: it predicts the dispositions, and finds a deviation of each kind."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from msgspec.structs import replace

from tests.checkers.books import Books
from tests.checkers.model import Delivery, Expected, Limits, predict, surprises, wrong_dispositions
from tests.checkers.small_books import BACK, HOLD, JUNK, OPEN_A, OPEN_B, PAY, SPEND, TRANSFER, VOID, post

BEFORE = post(Books({}, {}), OPEN_A, PAY)
TO_NOBODY = PAY.replace('"a"', '"nobody"')
OTHER_PAY = PAY.replace("50", "51")
BATCH = [Delivery(SPEND), Delivery(PAY, deliveries=2), *map(Delivery, (OTHER_PAY, JUNK, TO_NOBODY, OPEN_B))]
LIMITS = Limits(waits=4, begun=5)


def after() -> Books:
    return post(BEFORE, SPEND, OPEN_B)


def test_it_predicts_each_message_in_its_order() -> None:
    predicted = predict(BEFORE, BATCH, LIMITS)
    done, dead, again = Expected.DONE, Expected.DEAD, Expected.AGAIN
    assert predicted.dispositions == [done, done, dead, dead, again, done]
    assert not list(surprises(predicted, BEFORE, after(), whole=True))


WITH_HOLD = post(BEFORE, OPEN_B, TRANSFER, HOLD)
UNKNOWN_HOLD, UNKNOWN_TRANSACTION = VOID.replace('"hold"', '"none"'), BACK.replace('"3"', '"none"')
ID_OF_PAY = UNKNOWN_HOLD.replace('"void"', '"1"')
TOO_FINE = SPEND.replace("-80", "-8.005")
PREDICTED = {
    "waits for b": (BEFORE, Delivery(TRANSFER, 30, waits=3), Expected.AGAIN),
    "its last wait": (BEFORE, Delivery(TRANSFER, 30, waits=4), Expected.DEAD),
    "a suspect": (BEFORE, Delivery(SPEND, 30, begun=4), Expected.DONE),
    "it kills": (BEFORE, Delivery(SPEND, 30, begun=5), Expected.DEAD),
    "a hold": (WITH_HOLD, Delivery(VOID), Expected.DONE),
    "no hold": (WITH_HOLD, Delivery(VOID.replace('"hold"', '"1"')), Expected.DONE),
    "waits for its hold": (WITH_HOLD, Delivery(UNKNOWN_HOLD), Expected.AGAIN),
    "its entry wasn't read": (WITH_HOLD, Delivery(ID_OF_PAY), Expected.EITHER),
    "its entry was read": (WITH_HOLD, Delivery(ID_OF_PAY, 2), Expected.DEAD),
    "a reversal": (WITH_HOLD, Delivery(BACK), Expected.DONE),
    "waits for its transaction": (WITH_HOLD, Delivery(UNKNOWN_TRANSACTION), Expected.AGAIN),
    "the other account has its id": (WITH_HOLD, Delivery(BACK.replace('"back"', '"1"')), Expected.DONE),
    "too fine": (WITH_HOLD, Delivery(TOO_FINE), Expected.DEAD),
    "waits all the same": (WITH_HOLD, Delivery(TOO_FINE.replace('"a"', '"nobody"')), Expected.AGAIN),
}


@pytest.mark.parametrize(("books", "delivery", "expected"), PREDICTED.values(), ids=PREDICTED)
def test_it_predicts_one_message(books: Books, delivery: Delivery, expected: Expected) -> None:
    assert predict(books, [delivery], LIMITS).dispositions == [expected]


def _change_entry(books: Books) -> None:
    entry = books.journal["a"][2]
    books.journal["a"][2] = replace(entry, outcome=replace(entry.outcome, status="POSTED", reason=None))


PLANTED: dict[str, tuple[Callable[[Books], object], str]] = {
    "another balance": (
        lambda books: books.accounts.update(a=replace(books.accounts["a"], balance=Decimal(51))),
        "a should be {",
    ),
    "another outcome": (_change_entry, "a: 2 should be ('REJECTED'"),
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
