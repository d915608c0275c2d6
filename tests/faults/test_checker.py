"""The checker finds what it is there to find: a violation of each kind, planted in sound books."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from ledger.journal import Entry, Outcome
from ledger.messages import Message, OpenAccount, SetOverdraftLimit, Transaction
from ledger.rules import decide
from tests.local_aws.checker import Books, violations

MESSAGES: list[Message] = [
    OpenAccount(transaction_id="open", account_id="a", currency="EUR", overdraft_limit=Decimal(-100)),
    Transaction(transaction_id="1", account_id="a", amount=Decimal(50)),
    Transaction(transaction_id="2", account_id="a", amount=Decimal(-200)),
    Transaction(transaction_id="3", account_id="a", amount=Decimal(-120)),
    SetOverdraftLimit(transaction_id="4", account_id="a", overdraft_limit=Decimal(-80)),
]


def sound_books() -> Books:
    account = None
    entries = []
    for message in MESSAGES:
        decision = decide(message, account)
        account = decision.account
        outcome = Outcome(
            status=str(decision.status),
            reason=decision.reason,
            amount=decision.amount,
            balance_after=account.balance,
            account_version=account.version,
            posted_at="2026-01-01T00:00:00+00:00",
        )
        entries.append(Entry(message.account_id, message.transaction_id, message.request(), "", outcome))
    assert account
    return Books({"a": account}, {"a": entries})


def test_sound_books_have_no_violation() -> None:
    assert violations(sound_books()) == []


def _account(books: Books, **changes: Any) -> None:
    books.accounts["a"] = replace(books.accounts["a"], **changes)


def _outcome(books: Books, index: int, **changes: Any) -> None:
    entry = books.journal["a"][index]
    books.journal["a"][index] = replace(entry, outcome=replace(entry.outcome, **changes))


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
        pytest.param(lambda books: books.accounts.pop("a"), id="entries without an account"),
        pytest.param(lambda books: books.journal.pop("a"), id="an account without entries"),
    ],
)
def test_it_finds(plant: Callable[[Books], object]) -> None:
    books = sound_books()
    plant(books)
    assert violations(books)
