"""Tests of the books' checker: it finds a violation of each kind, planted in sound books."""

import dataclasses
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from ledger.core.journal import JournalEntry
from ledger.core.transaction_types import OpenAccount, SetOverdraftLimit, Transaction, Transfer
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers.books import Books, vanished, violations
from tests.checkers.small_books import BACK, HOLD, OPEN_A, OPEN_B, PAY, POST_PART, TRANSFER, VOID, post, post_messages
from tools.local_aws.queues import DeadLetter

MESSAGES: list[TransactionMessage] = [
    OpenAccount(transaction_id="open", account_id="a", currency="EUR", overdraft_limit=Decimal(-100)),
    Transaction(transaction_id="1", account_id="a", amount=Decimal(50)),
    Transaction(transaction_id="2", account_id="a", amount=Decimal(-200)),
    Transaction(transaction_id="3", account_id="a", amount=Decimal(-120)),
    SetOverdraftLimit(transaction_id="4", account_id="a", overdraft_limit=Decimal(-80)),
    OpenAccount(transaction_id="open", account_id="b", currency="EUR", overdraft_limit=Decimal(-100)),
    OpenAccount(transaction_id="open", account_id="c", currency="EUR"),
    Transfer(transaction_id="1", from_account_id="b", to_account_id="c", amount=Decimal(30)),
    Transfer(transaction_id="2", from_account_id="b", to_account_id="c", amount=Decimal(40)),
    Transfer(transaction_id="3", from_account_id="c", to_account_id="b", amount=Decimal(80)),
    Transfer(transaction_id="4", from_account_id="c", to_account_id="b", amount=Decimal(70)),
    # If rounded to Python's 28 digits, their sum isn't the balance.
    OpenAccount(transaction_id="open", account_id="d", currency="EUR"),
    Transaction(transaction_id="1", account_id="d", amount=Decimal("1e28")),
    Transaction(transaction_id="2", account_id="d", amount=Decimal("0.4")),
    Transaction(transaction_id="3", account_id="d", amount=Decimal("0.4")),
]
HELD, REVERSED = 3, 5
"""The places of the entries in a's journal."""


def books_of_transfers() -> Books:
    return post_messages(Books({}, {}), MESSAGES)


def books_of_holds() -> Books:
    """Account a: a hold posted in part and voided, one that is open, and a transfer reversed in part."""
    another = HOLD.replace('_id": "hold"', '_id": "another"').replace("30", "5")
    return post(Books({}, {}), OPEN_A, OPEN_B, PAY, TRANSFER, HOLD, POST_PART, BACK, VOID, another)


def test_sound_books_have_no_violation() -> None:
    assert violations(books_of_transfers()) == []
    assert books_of_transfers().counts() == {"POSTED": 13, "OVERDRAFT_LIMIT": 2}, "a transfer counts once"
    assert violations(books_of_holds()) == []
    assert books_of_holds().counts() == {"POSTED": 9}
    assert violations(dataclasses.replace(books_of_holds(), reversals=None)) == [], "the table wasn't read"


def _account(books: Books, **changes: Any) -> None:
    books.accounts["a"] = replace(books.accounts["a"], **changes)


def _outcome(books: Books, index: int, account_id: str = "a", **changes: Any) -> None:
    entry = books.journal[account_id][index]
    books.journal[account_id][index] = replace(entry, outcome=replace(entry.outcome, **changes))


def _write_c(books: Books, *entries: JournalEntry) -> None:
    """Adds these entries and their account, which are sound except for the transfers' other sides."""
    balance = Decimal(0)
    books.journal["c"] = []
    for version, entry in enumerate(entries, 1):
        balance += entry.outcome.amount
        outcome = replace(entry.outcome, balance_after=balance, account_version=version)
        books.journal["c"].append(replace(entry, outcome=outcome))
    books.accounts["c"] = replace(books.accounts["c"], balance=balance, version=len(entries))


OF_TRANSFERS: dict[str, tuple[Callable[[Books], object], str]] = {
    "a balance": (lambda books: _account(books, balance=Decimal(-69)), "a: its journal gives"),
    "an entry twice": (lambda books: books.journal["a"].insert(2, books.journal["a"][1]), "a: at version 5, but"),
    "a decision": (lambda books: _outcome(books, 2, status="POSTED", reason=None), "a: version 3 should be ('REJECTED"),
    "an amount": (lambda books: _outcome(books, 1, amount=Decimal(51)), "the sum of the balances is"),
    "a missing side": (lambda books: _write_c(books, *books.journal["c"][:4]), "transfer 4 from c to b: its entries a"),
    "one side posted, the other rejected": (
        lambda books: _outcome(books, 3, "c", status="POSTED", reason=None),
        "transfer 3 from c to b: its sides have different outcomes",
    ),
}


def _reverse_too_much(books: Books) -> None:
    _outcome(books, REVERSED, amount=Decimal(21))
    _outcome(books, 3, "b", amount=Decimal(-21))


OF_HOLDS: dict[str, tuple[Callable[[Any], object], str]] = {
    "another sum": (lambda books: _account(books, held=Decimal(6)), "a: the sum of its open holds is 5, and 6 is held"),
    "held money": (lambda books: _outcome(books, HELD, held_after=Decimal(31)), "a: version 4 has spent held money"),
    "more reversed than moved": (_reverse_too_much, "a: 3 was reversed by 21, and its amount is 20"),
}
PLANTED = [
    pytest.param(sound, plant, sentence, id=name)
    for sound, table in ((books_of_transfers, OF_TRANSFERS), (books_of_holds, OF_HOLDS))
    for name, (plant, sentence) in table.items()
]


@pytest.mark.parametrize(("sound", "plant", "sentence"), PLANTED)
def test_it_finds(sound: Callable[[], Books], plant: Callable[[Books], object], sentence: str) -> None:
    books = sound()
    plant(books)
    assert any(violation.startswith(sentence) for violation in violations(books)), violations(books)


def test_it_finds_a_message_that_vanished_and_one_with_another_payload() -> None:
    books, other = post(Books({}, {}), OPEN_A, PAY), PAY.replace("50", "51")
    assert list(vanished([OPEN_A, PAY], books, ())) == []
    assert list(vanished([TRANSFER, other, "junk"], books, [DeadLetter("junk", "why")])) == [
        f"a message vanished: {TRANSFER}",
        f"a message vanished: {other}",
    ]
