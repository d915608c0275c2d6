"""Tests of the books' checker: it finds a violation of each kind, planted in sound books."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from ledger.core.holds import OpenHold
from ledger.core.journal import JournalEntry
from ledger.core.reversals import Reversed
from ledger.core.transaction_types import OpenAccount, SetOverdraftLimit, Transaction, Transfer
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers.books import Books, violations
from tests.checkers.small_books import (
    HOLD,
    NOW,
    OPEN_A,
    OPEN_B,
    PAY,
    POST_IN_PART,
    REVERSE_TRANSFER,
    TRANSFER,
    VOID,
    post,
    post_messages,
)

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


def books_with_holds() -> Books:
    """Account a: a hold posted in part and voided, one that is open, and a transfer reversed in part."""
    another = HOLD.replace('_id": "hold"', '_id": "another"').replace("30", "5")
    return post(Books({}, {}), OPEN_A, OPEN_B, PAY, TRANSFER, HOLD, POST_IN_PART, REVERSE_TRANSFER, VOID, another)


HELD, POSTED_IN_PART, REVERSED, VOIDED = 3, 4, 5, 6
"""The places of the entries in a's journal."""


def test_sound_books_with_holds_have_no_violation() -> None:
    books = books_with_holds()
    assert violations(books) == []
    assert [entry.request["type"] for entry in books.journal["a"]][HELD:] == [
        *("hold", "post_hold", "reverse", "void_hold", "hold")
    ]
    assert books.counts() == {"POSTED": 9}
    assert [(key, each.amount, each.reversed_by) for key, each in (books.reversals or {}).items()] == [
        (("a", "3"), 5, "back")
    ]


def _void_again(books: Books) -> None:
    voided = books.journal["a"][VOIDED]
    outcome = replace(voided.outcome, account_version=9, held_after=Decimal(5))
    request = voided.request | {"transaction_id": "again"}
    books.journal["a"].append(replace(voided, transaction_id="again", request=request, outcome=outcome))
    _account(books, version=9)


def _name_another(books: Books) -> None:
    reversal = books.journal["a"][REVERSED].outcome.reversal
    assert reversal
    _outcome(books, REVERSED, reversal=replace(reversal, other_account_id="c"))


def _reverse_too_much(books: Books) -> None:
    _outcome(books, REVERSED, amount=Decimal(21))
    _outcome(books, 3, "b", amount=Decimal(-21))


def _reverse_nothing(books: Books) -> None:
    entry = books.journal["a"][REVERSED]
    books.journal["a"][REVERSED] = replace(entry, request=entry.request | {"of_transaction_id": "none"})


def _in_the_table(books: Books, **changes: Any) -> None:
    assert books.reversals
    books.reversals["a", "3"] = replace(books.reversals["a", "3"], **changes)


OF_HOLDS: dict[str, tuple[Callable[[Books], object], str]] = {
    "another sum": (lambda books: _account(books, held=Decimal(6)), "a: the sum of its open holds is 5, and 6 is held"),
    "a hold missing": (
        lambda books: _account(books, held=Decimal(0), holds={}),
        "a: its journal has the open holds {'another': Decimal('5')}, the account has {}",
    ),
    "a hold of another amount": (
        lambda books: _account(books, holds={"another": OpenHold(Decimal(6))}),
        "a: its journal has the open holds {'another': Decimal('5')}",
    ),
    "a hold of another expiry": (
        lambda books: _account(books, holds={"another": OpenHold(Decimal(5), str(NOW))}),
        "a: its journal gives",
    ),
    "another sum in an entry": (
        lambda books: _outcome(books, HELD, held_after=Decimal(29)),
        "a: version 4 should have 30 held, and has 29",
    ),
    "held money that is spent": (
        lambda books: _outcome(books, HELD, held_after=Decimal(31)),
        "a: version 4 has spent held money",
    ),
    "a hold resolved twice": (_void_again, "a: again resolves hold, which isn't open"),
    "more posted than held": (
        lambda books: _outcome(books, POSTED_IN_PART, amount=Decimal(-31)),
        "a: posting posts 1 more than hold holds",
    ),
    "a posting with one side": (
        lambda books: books.journal["b"].pop(2),
        "post_hold posting from a to b: its entries are on a",
    ),
    "a reversal with one side": (
        lambda books: books.journal["a"].pop(REVERSED),
        "reverse back from b to a: its entries are on b",
    ),
    "a reversal that names another account": (_name_another, "a: version 6 should have Reversal(number=1"),
    "more reversed than moved": (_reverse_too_much, "a: 3 was reversed by 21, and its amount is 20"),
    "a reversal of nothing": (_reverse_nothing, "a: back reverses none, which isn't in the journal"),
    "a reversal that isn't in the table": (
        lambda books: books.reversals and books.reversals.clear(),
        "a: 3 was reversed as Reversed(",
    ),
    "a reversal that is in the table alone": (
        lambda books: books.reversals.update({("b", "3"): Reversed("b", "3")}),
        "b: 3 was reversed as None",
    ),
    "another sum in the table": (
        lambda books: _in_the_table(books, amount=Decimal(6)),
        "a: 3 was reversed as Reversed(",
    ),
    "another version in the table": (
        lambda books: _in_the_table(books, account_version=5),
        "a: 3 was reversed as Reversed(",
    ),
    "other decimals": (lambda books: _account(books, decimal_places=3), "a: its journal gives"),
    "other decimals in the opening": (
        lambda books: _outcome(books, 0, decimal_places=3),
        "a: version 1 should have 2 decimal places",
    ),
    "decimals in another entry": (
        lambda books: _outcome(books, 1, decimal_places=2),
        "a: version 2 should have None decimal places",
    ),
}


@pytest.mark.parametrize(("plant", "sentence"), OF_HOLDS.values(), ids=OF_HOLDS)
def test_it_finds_of_holds_and_reversals(plant: Callable[[Books], object], sentence: str) -> None:
    books = books_with_holds()
    plant(books)
    assert any(violation.startswith(sentence) for violation in violations(books)), violations(books)


def test_reversals_that_were_not_read_are_no_violation() -> None:
    books = books_with_holds()
    assert violations(Books(books.accounts, books.journal)) == []
