"""Mismatches that the journal replay finds beside an entry's decision: in its request, its hash and its time."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.journal import JournalEntry, seal_of
from ledger.core.pools import shard_id
from ledger.core.replay import Replay
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers.books import Books
from tests.checkers.small_books import post_messages
from tests.support.replaying import Alone, mismatches
from tests.support.samples import ALICE, NOW, opening, payment

AT = datetime.fromisoformat(NOW)
OCCURRED_AT = datetime(2026, 1, 1, 9, tzinfo=UTC)
FULL = replace(payment(5), description="Rent for March", metadata={"shop": "green"}, occurred_at=OCCURRED_AT)
NO_AMOUNT = {"type": "transaction", "transaction_id": "t-1", "account_id": "alice", "amount": []}


def journal_of(*transactions: TransactionMessage, times: Sequence[str] = ()) -> tuple[Account, list[JournalEntry]]:
    """Alice's account and journal after these transactions, the first of which opens it."""
    books = Books({}, {})
    for transaction, posted_at in zip(transactions, times or [NOW] * len(transactions), strict=True):
        books = post_messages(books, [transaction], posted_at=posted_at)
    return books.accounts["alice"], books.journal["alice"]


def found(account: Account, entries: Sequence[JournalEntry], now: datetime = AT) -> list[str]:
    return [f"{each.what}: {each.sentence}" for each in mismatches(account, entries, now)]


def test_an_entry_in_another_currency_than_its_account_is_found() -> None:
    account, [first, entry] = journal_of(opening(), FULL)
    changed = replace(entry, outcome=replace(entry.outcome, currency="USD"))
    assert found(account, [first, changed])[1:] == ["wrong currency: version 2, t-1: it is USD, expected EUR"]


def test_an_entry_of_another_transaction_or_of_other_accounts_is_found() -> None:
    account, [first, entry] = journal_of(opening(), FULL)
    for request, of in ({"transaction_id": "x"}, "x on alice"), ({"account_id": "bob"}, "t-1 on bob"):
        damaged = replace(entry, request=entry.request | request)
        assert found(account, [first, damaged])[1:] == [f"wrong request: version 2, t-1: its request is that of {of}"]


def test_a_payment_as_the_first_entry_is_found() -> None:
    account, [_, entry] = journal_of(opening(), FULL)
    first = replace(entry, outcome=replace(entry.outcome, account_version=1))
    expected = "expected nothing: account_id: no account 'alice' has been opened"
    assert found(replace(account, version=1), [first])[1:] == [
        f"wrong decision: version 1, t-1: it is POSTED 5, balance 5, {expected}",
        "changed account: the journal has no entry",
    ]


def test_a_text_that_nobody_can_seal_is_found() -> None:
    account, [first, entry] = journal_of(opening(), FULL)
    damaged = replace(entry, request=entry.request | {"description": "\ud800"})
    sentence = f"broken seal: version 2, t-1: it is {entry.seal}, the entry and the seal before give none"
    assert found(account, [first, damaged]) == [sentence]


NOON, LAST = "2026-01-31T12:00:00+00:00", "9999-12-31T23:59:59-23:59"
NO_TIME = "expected an ISO 8601 time with its offset"
TIMES: dict[str, tuple[str, str, str | None]] = {
    "a clock that is behind": (NOON, "2026-01-31T11:59:55+00:00", None),
    "one that is too far behind": (NOON, "2026-01-31T11:59:54+00:00", f"and the version before at {NOON}"),
    "other offsets": (NOON, "2026-01-31T01:00:00-11:00", None),
    "a clock that is ahead": (NOON, "2026-01-31T12:00:05+00:00", None),
    "the future": (NOON, "2026-01-31T12:00:06+00:00", f"and now it is {NOON}"),
    "the end of time": ("0001-01-01T00:00:00+23:59", LAST, f"and now it is {NOON}"),
    **{f"no time: {text}": (NOON, text, NO_TIME) for text in ("", "yesterday", "2026-01-31", "2026-01-31T12:00:00")},
}


@pytest.mark.parametrize(("first", "second", "why"), TIMES.values(), ids=TIMES)
def test_a_time_that_no_worker_can_have_is_found(first: str, second: str, why: str | None) -> None:
    sentences = found(*journal_of(opening(), FULL, times=[first, second]))
    assert sentences == ([f"wrong time: version 2, t-1: posted at {second}, {why}"] if why else [])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"balance": Decimal(7)}, "balance is 7, the journal gives 2"),
        ({"balance": Decimal("1e-120")}, "balance is 1E-120, the journal gives 2"),
        (
            {"status": "CLOSED", "currency": "USD", "version": 3},
            "currency is USD, the journal gives EUR; status is CLOSED, the journal gives OPEN",
        ),
    ],
)
def test_a_changed_account_is_described_by_what_was_changed(changes: dict[str, Any], sentence: str) -> None:
    account, entries = journal_of(opening(), FULL, payment(-3))
    assert found(replace(account, **changes), entries) == [f"changed account: {sentence}"]
    [mismatch] = mismatches(replace(account, **changes), entries, AT)
    assert mismatch.version == 0  # the account as a whole


def test_a_shards_replay_goes_on_from_the_state_that_it_is_given() -> None:
    shard = replace(ALICE, account_id=shard_id("alice", 1))
    assert list(Replay(shard, shard).mismatches([], shard.version, Alone(), AT)) == []


def test_behind_a_missing_entry_a_checkpoint_is_not_compared() -> None:
    account, [first, _, last] = journal_of(opening(), FULL, payment(-3))
    [mismatch] = mismatches(account, [first, last], AT, saved=replace(account, balance=Decimal(7)))
    assert mismatch.what == "missing entry"


def test_an_account_without_a_journal_is_described_so() -> None:
    account, _ = journal_of(opening())
    assert found(replace(account, version=0), []) == ["changed account: the journal has no entry"]


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"type": "magic"}, "type: expected that of a transaction, got magic"),
        ({}, "type: expected that of a transaction, got none"),
        ({"type": []}, "type: expected that of a transaction, got []"),
        (NO_AMOUNT, "amount: expected `decimal`, got `array`"),
    ],
)
def test_a_request_that_is_none_is_described_by_its_field(request_: dict[str, Any], sentence: str) -> None:
    account, [entry] = journal_of(opening())
    damaged = replace(entry, request=request_)
    damaged = replace(damaged, seal=seal_of("", damaged))
    assert found(account, [damaged]) == [f"unreadable entry: version 1, open: its request: {sentence}"]


@pytest.mark.parametrize(("number", "more"), [(2, ""), (3, ", and 1 more"), (1_500, ", and 1,498 more")])
def test_of_many_entries_of_one_version_two_are_named(number: int, more: str) -> None:
    account, [entry] = journal_of(opening())
    entries = [replace(entry, transaction_id=f"t-{number}") for number in range(number)]
    assert found(account, entries) == [f"entries twice: version 1, t-0: of one version are t-0 and t-1{more}"]
