"""Mismatches that the journal replay finds beside an entry's decision: in its request, its hash and its time."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.journal import JournalEntry, outcome_of, payload_hash_of
from ledger.core.mismatches import LONGEST_SENTENCE
from ledger.core.replay import OtherSide, Replay
from ledger.core.transaction_types.base import Context, TransactionMessage
from ledger.idempotent_decision import decide_once
from tests.support.replaying import Known, mismatches
from tests.support.samples import ALICE, NOW, opening, payment, transfer
from tests.support.strategies import messages_of

AT = datetime.fromisoformat(NOW)


def journal_of(*transactions: TransactionMessage, times: Sequence[str] = ()) -> tuple[Account, list[JournalEntry]]:
    """Alice's account and journal after these transactions, the first of which opens it."""
    account, entries = None, []
    for transaction, posted_at in zip(transactions, times or [NOW] * len(transactions), strict=True):
        [decision] = transaction.decide([account], Context())
        account = transaction.next_account(account, decision, posted_at)
        assert account
        request = transaction.canonical_payload()
        outcome = outcome_of(decision, account, posted_at)
        entries.append(JournalEntry("alice", transaction.transaction_id, request, payload_hash_of(request), outcome))
    assert account
    return account, entries


def found(account: Account, entries: Sequence[JournalEntry], now: datetime = AT) -> list[str]:
    others: Mapping[str, OtherSide] = {}
    return [f"{each.what}: {each.sentence}" for each in mismatches(account, entries, others, now)]


FULL = replace(
    payment(5),
    description="Rent for March",
    metadata={"shop": "green"},
    occurred_at=datetime(2026, 1, 1, 9, tzinfo=UTC),
)


def test_in_a_sound_journal_nothing_is_found() -> None:
    assert found(*journal_of(opening(), FULL)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "Rent for May"},
        {"metadata": {"shop": "blue"}},
        {"metadata": {"shop": "green", "till": "4"}},
        {"occurred_at": "2026-01-01T09:00:01+00:00"},
        {"amount": Decimal(5)},
    ],
    ids=", ".join,
)
def test_a_field_of_the_request_that_was_changed_is_found(changes: dict[str, Any]) -> None:
    account, [first, entry] = journal_of(opening(), FULL)
    changed = replace(entry, request=entry.request | changes)
    sentence = "changed request: version 2, t-1: its payload_hash is not that of its request"
    assert found(account, [first, changed]) == [sentence]


@given(messages_of(st.sampled_from(["alice", "bob"]), st.sampled_from(["t-1", "t-2"])))
def test_the_hash_is_that_which_powertools_gives_a_posted_transaction(transaction: TransactionMessage) -> None:
    request, outcome = transaction.canonical_payload(), journal_of(opening())[1][0].outcome
    assert decide_once(request, None, lambda: outcome).payload_hash == payload_hash_of(request)


def test_an_entry_in_another_currency_than_its_account_is_found() -> None:
    account, [first, entry] = journal_of(opening(), FULL)
    changed = replace(entry, outcome=replace(entry.outcome, currency="USD"))
    assert found(account, [first, changed]) == ["wrong currency: version 2, t-1: it is USD, expected EUR"]


@pytest.mark.parametrize("posted_at", ["", "yesterday", "2026-01-31", "2026-01-31T12:00:00", "1769860800"])
def test_a_time_without_an_offset_is_found(posted_at: str) -> None:
    [sentence] = found(*journal_of(opening(), times=[posted_at]))
    assert sentence.startswith(f"wrong time: version 1, open: posted at {posted_at}, expected an ISO 8601 time")


TIMES = {
    "a clock that is behind": (["2026-01-31T12:00:00+00:00", "2026-01-31T11:59:55+00:00"], None),
    "one that is too far behind": (
        ["2026-01-31T12:00:00+00:00", "2026-01-31T11:59:54+00:00"],
        "wrong time: version 2, t-1: posted at 2026-01-31T11:59:54+00:00, and the version before at 2026-01-31T12",
    ),
    "other offsets": (["2026-01-31T12:00:00+00:00", "2026-01-31T01:00:00-11:00"], None),
    "a clock that is ahead": (["2026-01-31T12:00:00+00:00", "2026-01-31T12:00:05+00:00"], None),
    "the future": (
        ["2026-01-31T12:00:00+00:00", "2026-01-31T12:00:06+00:00"],
        "wrong time: version 2, t-1: posted at 2026-01-31T12:00:06+00:00, and now it is 2026-01-31T12:00",
    ),
    "the end of time": (
        ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"],
        "wrong time: version 2, t-1: posted at 9999-12-31T23:59:59-23:59, and now it is 2026-01-31T12:00",
    ),
}


@pytest.mark.parametrize(("times", "expected"), TIMES.values(), ids=TIMES)
def test_a_time_that_no_worker_can_have_is_found(times: Sequence[str], expected: str | None) -> None:
    sentences = found(*journal_of(opening(), FULL, times=times))
    assert len(sentences) == (expected is not None)
    assert all(sentence.startswith(str(expected)) for sentence in sentences)


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (None, []),
        ("2026-01-31T11:30:00.000+00:00", []),
        ("2026-01-31T12:00:05.000+00:00", []),
        ("2026-01-31T12:10:01.000+00:00", ["changed account"]),
        ("yesterday", ["changed account"]),
    ],
)
def test_an_account_may_have_the_time_of_an_entry_before_its_last(left: str | None, expected: list[str]) -> None:
    """An earlier release posted the last entry, and left the account's time: another worker's, whose clock differs."""
    account, entries = journal_of(opening(), FULL)
    assert [each.split(":")[0] for each in found(replace(account, posted_at=left), entries)] == expected


def test_the_sides_of_a_transfer_that_were_posted_at_two_times_are_found() -> None:
    """They were committed together."""
    alice, bob = ALICE, replace(ALICE, account_id="bob", version=1)
    request = transfer(5).canonical_payload()
    debit, credit = transfer(5).decide([alice, bob], Context())
    mine = JournalEntry(
        "alice", "t-1", request, payload_hash_of(request), outcome_of(debit, replace(alice, version=1), NOW)
    )
    later = NOW.replace("12:00:00", "12:00:01")
    theirs = JournalEntry("bob", "t-1", request, payload_hash_of(request), outcome_of(credit, bob, later))
    sides = {"t-1": OtherSide(bob, theirs)}
    sentences = [each.sentence for each in mismatches(replace(alice, version=1), [mine], sides, AT)]
    assert f"version 1, t-1: here {NOW}, on bob {later}" in sentences


# --- checkpoints ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "changes", "what"),
    [
        *((version, {}, []) for version in (1, 2, 3)),
        *((version, {"balance": Decimal(7)}, ["wrong checkpoint"]) for version in (1, 2, 3)),
        (2, {"posted_at": None}, []),
        (3, {"version": 4}, ["wrong checkpoint"]),
    ],
)
def test_a_checkpoint_is_compared_when_the_replay_comes_past_its_version(
    version: int, changes: dict[str, Any], what: list[str]
) -> None:
    transactions = [opening(), payment(5), replace(payment(5), transaction_id="t-2")]
    account, entries = journal_of(*transactions)
    then, _ = journal_of(*transactions[:version])
    replay = Replay(account, checkpoint=replace(then, **changes))
    mismatches = [*replay.mismatches(entries, Known(), AT), *replay.last_mismatches()]
    assert [each.what for each in mismatches] == what


# --- the sentences ----------------------------------------------------------------------------------------


DAMAGED_TEXTS = st.sampled_from(["", "\uffff" * 100_000, "x" * 300, "OPEN", "9" * 128])
DAMAGED_NUMBERS = st.sampled_from([Decimal(0), Decimal(10) ** 125, Decimal("-1e-130"), Decimal("9" * 38)])


@given(st.data())
def test_the_sentence_of_a_mismatch_is_whole_however_the_items_were_damaged(data: st.DataObject) -> None:
    account, entries = journal_of(opening(), FULL, payment(-3))
    text, number = data.draw(DAMAGED_TEXTS), data.draw(DAMAGED_NUMBERS)
    changed = {"balance": number, "overdraft_limit": data.draw(DAMAGED_NUMBERS), "currency": text, "posted_at": text}
    account = replace(account, **data.draw(st.sampled_from([{}, changed])))
    outcome = {"amount": number, "balance_after": number, "status": text, "reason": text, "posted_at": text}
    request = data.draw(st.sampled_from([{"type": text}, {}, {"type": "transaction", text: text}, {"type": [text]}]))
    damages: list[dict[str, Any]] = [
        {},
        {"transaction_id": text},
        {"request": request},
        {"outcome": replace(entries[1].outcome, **data.draw(st.sampled_from([outcome, {"account_version": 1}])))},
    ]
    entries = [replace(entry, **data.draw(st.sampled_from(damages))) for entry in entries]
    entries.sort(key=lambda entry: entry.outcome.account_version)
    for mismatch in mismatches(account, entries, {}, AT):
        assert len(mismatch.sentence) < LONGEST_SENTENCE
        assert "Decimal(" not in mismatch.sentence
        assert "Account(" not in mismatch.sentence


SENTENCES: dict[str, tuple[dict[str, Any], str]] = {
    "one attribute": ({"balance": Decimal(7)}, "balance is 7, the journal gives 2"),
    "several": (
        {"status": "CLOSED", "currency": "USD", "version": 3},
        "currency is USD, the journal gives EUR; status is CLOSED, the journal gives OPEN",
    ),
    "a small number": ({"balance": Decimal("1e-120")}, "balance is 1E-120, the journal gives 2"),
}


@pytest.mark.parametrize(("changes", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_a_changed_account_is_described_by_what_was_changed(changes: dict[str, Any], sentence: str) -> None:
    account, entries = journal_of(opening(), FULL, payment(-3))
    assert found(replace(account, **changes), entries) == [f"changed account: {sentence}"]


def test_an_account_without_a_journal_is_described_so() -> None:
    account, _ = journal_of(opening())
    assert found(replace(account, version=0), []) == ["changed account: the journal has no entry"]


REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "another type": ({"type": "magic"}, "type: expected that of a transaction, got magic"),
    "no type": ({}, "type: expected that of a transaction, got none"),
    "a list": ({"type": []}, "type: expected that of a transaction, got []"),
    "an amount that is none": (
        {"type": "transaction", "transaction_id": "t-1", "account_id": "alice", "amount": []},
        "amount: expected `decimal`, got `array`",
    ),
}


@pytest.mark.parametrize(("request_", "sentence"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_that_is_none_is_described_by_its_field(request_: dict[str, Any], sentence: str) -> None:
    account, [entry] = journal_of(opening())
    damaged = replace(entry, request=request_, payload_hash=payload_hash_of(request_))
    assert found(account, [damaged]) == [f"unreadable entry: version 1, open: its request: {sentence}"]


def test_of_many_entries_of_one_version_two_are_named() -> None:
    account, [entry] = journal_of(opening())
    entries = [replace(entry, transaction_id=f"t-{number}") for number in range(1_500)]
    assert found(account, entries) == ["entries twice: version 1, t-0: of one version are t-0 and t-1, and 1,498 more"]
