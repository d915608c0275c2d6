"""Tests of the books' checker: it finds a violation of each kind, planted in sound books."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from ledger.core.journal import JournalEntry
from ledger.core.transaction_types import OpenAccount, SetOverdraftLimit, Transaction, Transfer
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers.books import Books, violations
from tests.checkers.small_books import NOW, post_messages

TIME, LATER = str(NOW), "2026-03-01 00:00:01+00:00"

MESSAGES: list[TransactionMessage] = [
    OpenAccount(transaction_id="open", account_id="a", currency="EUR", overdraft_limit=Decimal(-100)),
    Transaction(transaction_id="1", account_id="a", amount=Decimal(50)),
    Transaction(transaction_id="2", account_id="a", amount=Decimal(-200)),
    Transaction(transaction_id="3", account_id="a", amount=Decimal(-120)),
    SetOverdraftLimit(transaction_id="4", account_id="a", overdraft_limit=Decimal(-80)),
]
BETWEEN_TWO: list[TransactionMessage] = [
    OpenAccount(transaction_id="open", account_id="b", currency="EUR", overdraft_limit=Decimal(-100)),
    OpenAccount(transaction_id="open", account_id="c", currency="EUR"),
    Transfer(transaction_id="1", from_account_id="b", to_account_id="c", amount=Decimal(30)),
    Transfer(transaction_id="2", from_account_id="b", to_account_id="c", amount=Decimal(40)),
    Transfer(transaction_id="3", from_account_id="c", to_account_id="b", amount=Decimal(80)),
    Transfer(transaction_id="4", from_account_id="c", to_account_id="b", amount=Decimal(70)),
]

OF_MANY_DIGITS: list[TransactionMessage] = [  # If rounded to Python's 28 digits, their sum isn't the balance.
    OpenAccount(transaction_id="open", account_id="d", currency="EUR"),
    Transaction(transaction_id="1", account_id="d", amount=Decimal("1e28")),
    Transaction(transaction_id="2", account_id="d", amount=Decimal("0.4")),
    Transaction(transaction_id="3", account_id="d", amount=Decimal("0.4")),
]


def sound_books() -> Books:
    return post_messages(Books({}, {}), MESSAGES + BETWEEN_TWO + OF_MANY_DIGITS)


def test_sound_books_have_no_violation() -> None:
    assert violations(sound_books()) == []


def test_a_transfer_counts_once() -> None:
    assert sound_books().counts() == {"POSTED": 13, "OVERDRAFT_LIMIT": 2}


def _account(books: Books, **changes: Any) -> None:
    books.accounts["a"] = replace(books.accounts["a"], **changes)


def _outcome(books: Books, index: int, account_id: str = "a", **changes: Any) -> None:
    entry = books.journal[account_id][index]
    books.journal[account_id][index] = replace(entry, outcome=replace(entry.outcome, **changes))


def _open_later(books: Books) -> None:
    opened, first, *others = books.journal["a"]
    books.journal["a"] = [first, opened, *others]
    _outcome(books, 0, account_version=1)
    _outcome(books, 1, account_version=2)


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(lambda books: _account(books, balance=Decimal(-69)), id="a changed balance"),
        pytest.param(lambda books: _account(books, overdraft_limit=Decimal(-500)), id="a changed limit"),
        pytest.param(lambda books: _account(books, version=6), id="a version without an entry"),
        pytest.param(lambda books: books.journal["a"].pop(1), id="a missing entry"),
        pytest.param(lambda books: books.journal["a"].pop(), id="the last entry missing"),
        pytest.param(lambda books: books.journal["a"].insert(2, books.journal["a"][1]), id="an entry twice"),
        pytest.param(lambda books: _outcome(books, 2, status="POSTED", reason=None), id="a wrong decision"),
        pytest.param(lambda books: _outcome(books, 2, reason="ACCOUNT_CLOSED"), id="a wrong reason"),
        pytest.param(lambda books: _outcome(books, 1, amount=Decimal(51)), id="a wrong amount"),
        pytest.param(lambda books: _outcome(books, 3, balance_after=Decimal(-101)), id="a wrong balance after"),
        pytest.param(_open_later, id="an entry before the account's opening"),
        pytest.param(lambda books: books.accounts.pop("a"), id="entries without an account"),
        pytest.param(lambda books: books.journal.pop("a"), id="an account without entries"),
        pytest.param(lambda books: _outcome(books, 1, posted_at=LATER), id="a time that goes back"),
        pytest.param(lambda books: _account(books, posted_at=LATER), id="an account's time that no entry has"),
    ],
)
def test_it_finds(plant: Callable[[Books], object]) -> None:
    books = sound_books()
    plant(books)
    assert violations(books)


def _write_c(books: Books, *entries: JournalEntry) -> None:
    """Adds these entries and their account, which are sound except for the transfers' other sides."""
    balance = Decimal(0)
    books.journal["c"] = []
    for version, entry in enumerate(entries, 1):
        balance += entry.outcome.amount
        outcome = replace(entry.outcome, balance_after=balance, account_version=version)
        books.journal["c"].append(replace(entry, outcome=outcome))
    books.accounts["c"] = replace(books.accounts["c"], balance=balance, version=len(entries))


def _leave_out(books: Books, index: int) -> None:
    entries = books.journal["c"]
    _write_c(books, *entries[:index], *entries[index + 1 :])


def _change_an_amount(books: Books) -> None:
    _outcome(books, 4, "c", amount=Decimal(-69))
    _write_c(books, *books.journal["c"])


def _change_a_request(books: Books) -> None:
    entry = books.journal["c"][4]
    books.journal["c"][4] = replace(entry, request=entry.request | {"description": "Rent"})


OF_A_TRANSFER: dict[str, tuple[Callable[[Books], object], str]] = {
    "a side missing": (lambda books: _leave_out(books, 4), "4 from c to b: its entries are on b"),
    "a side of a rejected transfer missing": (
        lambda books: _leave_out(books, 3),
        "3 from c to b: its entries are on b",
    ),
    "amounts that don't cancel": (_change_an_amount, "4 from c to b: its sides' amounts are 70 and -69"),
    "one side posted, the other rejected": (
        lambda books: _outcome(books, 3, "c", status="POSTED", reason=None),
        "3 from c to b: its sides have different outcomes",
    ),
    "different reasons": (
        lambda books: _outcome(books, 3, "c", reason="ACCOUNT_CLOSED"),
        "3 from c to b: its sides have different outcomes",
    ),
    "different times": (
        lambda books: _outcome(books, 4, "c", posted_at=LATER),
        f"4 from c to b: its sides were posted at {TIME} and {LATER}",
    ),
    "different requests": (_change_a_request, "4 from c to b: its sides are of different requests"),
}


@pytest.mark.parametrize(("plant", "sentence"), OF_A_TRANSFER.values(), ids=OF_A_TRANSFER)
def test_it_finds_of_a_transfer(plant: Callable[[Books], object], sentence: str) -> None:
    books = sound_books()
    plant(books)
    assert any(violation.startswith(f"transfer {sentence}") for violation in violations(books)), violations(books)


def test_it_finds_two_transfers_in_another_order_on_each_account_though_each_seen_alone_is_sound() -> None:
    books = sound_books()
    opened, first, second, *others = books.journal["c"]
    _write_c(books, opened, second, first, *others)
    assert [violation.partition(":")[0] for violation in violations(books)] == ["b", "c"]
    assert all("can't be replayed" in violation for violation in violations(books))
