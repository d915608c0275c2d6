"""The events of outcomes: of a journal entry the same one each time, and of a refused message its ids and no more."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from conditional_writes.core.items import from_dynamodb, to_dynamodb
from ledger.core.journal import JournalEntry, Outcome, entry_item
from ledger.core.outcome_events import NotAJournalEntry, outcome_event, refusal_event
from ledger.core.rules import RULES
from ledger.core.transaction_types import TRANSACTION_TYPES
from ledger.core.transaction_types.base import TransactionMessage
from tests.support import samples
from tests.support.samples import largest_transaction, largest_transfer, payment, transfer
from tests.support.strategies import nested

CHARGED_BYTES = 64_000
"""EventBridge charges an event that is larger as two: https://aws.amazon.com/eventbridge/pricing/"""
REFUSED_AT = datetime(2026, 3, 1, tzinfo=UTC)
OUTCOME = Outcome("POSTED", None, Decimal("1.50"), Decimal("1E+2"), 7, "2026-03-01T12:00:00.123+00:00", "EUR")


def entry_of(message: TransactionMessage, outcome: Outcome = OUTCOME) -> JournalEntry:
    return samples.entry_of(message, outcome)


def read(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item as the stream brings it."""
    return from_dynamodb(to_dynamodb(dict(item)))


def test_an_event_has_the_entrys_ids_its_outcome_and_its_request() -> None:
    entry = entry_of(payment("1.50", transaction_id="t-1", account_id="alice"))
    event = outcome_event(read(entry_item(entry)))
    assert event.detail_type == "TransactionPosted"
    assert event.time == datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)
    assert json.loads(event.detail) == {
        "schema_version": 1,
        "id": "alice#7",
        "delivery": "at_least_once",
        "account_id": "alice",
        "home_account_id": "alice",
        "transaction_id": "t-1",
        "sent": asdict(samples.SENDER.sent),
        "rules": RULES,
        "seal": entry.seal,
        "status": "POSTED",
        "reason": None,
        "amount": "1.5",
        "balance_after": "100",
        "held_after": "0",
        "currency": "EUR",
        "account_version": 7,
        "posted_at": "2026-03-01T12:00:00.123+00:00",
        "request": {"type": "transaction", "transaction_id": "t-1", "account_id": "alice", "amount": "1.5"},
    }


def test_the_event_of_a_letter_that_was_sent_again_has_its_first_sending() -> None:
    sent = samples.SENDER.sent
    again = replace(entry_of(payment()), sender=replace(samples.SENDER, first=replace(sent, message_id="m-0")))
    event = outcome_event(read(entry_item(again)))
    assert json.loads(event.detail)["first_sent"] == asdict(sent) | {"message_id": "m-0"}


@pytest.mark.parametrize("message", [largest_transaction(), largest_transfer()], ids=["transaction", "transfer"])
def test_the_event_of_the_largest_message_is_charged_as_one(message: TransactionMessage) -> None:
    detail = outcome_event(read(entry_item(entry_of(message)))).detail
    assert 30_000 < len(detail.encode()) < CHARGED_BYTES


SOUND = entry_item(entry_of(payment()))
NUMBER_OF_DYNAMODB = "account_version, amount or another number: expected one of DynamoDB's"
OF_A_REJECTION = "reason: expected one if and only if the status is REJECTED"
TIME = "posted_at: expected a time with its offset, from year 1 to 9999 in UTC"
TEXTS = "request: expected texts, booleans, lists and maps of texts, got Decimal"
REVERSAL_OF_ONE = {"number": Decimal(1), "reversed_after": Decimal(1), "other_account_ids": [Decimal(1)]}
DAMAGED: list[tuple[str, Any, str]] = [
    *((name, None, f"{name}: missing") for name in ("account_id", "transaction_id", "request", "account_version")),
    ("account_id", Decimal(1), "account_id: expected str, got Decimal"),
    ("status", b"x", "status: expected str, got bytes"),
    ("amount", "1", "amount: expected Decimal, got str"),
    ("held_after", "1", "held_after: expected Decimal, got str"),
    *(("sent", SOUND["sent"] | {name: Decimal(1)}, "sent: expected texts") for name in SOUND["sent"]),
    ("first_sent", SOUND["sent"] | {"message_id": None}, "first_sent: expected texts"),
    ("decimal_places", Decimal("0.5"), "decimal_places: expected a whole number, got 0.5"),
    ("reversal", "t-0", "reversal: expected dict, got str"),
    ("reversal", {"reversed_after": Decimal(1)}, "number: missing"),
    ("reversal", REVERSAL_OF_ONE, "other_account_ids: expected texts"),
    ("account_version", Decimal("1.5"), "account_version: expected a whole number, got 1.5"),
    ("account_version", Decimal(0), "account_version: expected 1 or more, got 0"),
    ("account_version", Decimal("Infinity"), NUMBER_OF_DYNAMODB),
    ("amount", Decimal("sNaN"), NUMBER_OF_DYNAMODB),
    ("format", Decimal(3), "format: expected 2, got 3: a later release of Teller may have written it"),
    ("status", "HELD", "status: expected one of POSTED, REJECTED, got 'HELD'"),
    ("request", {"type": "freeze"}, f"request.type: expected one of {', '.join(TRANSACTION_TYPES)}, got 'freeze'"),
    ("request", {}, "request.type: expected one of"),
    ("request", {"type": ["transaction"]}, "request.type: expected one of"),
    ("request", {"type": "transaction", "amount": Decimal(1)}, TEXTS),
    ("status", "REJECTED", OF_A_REJECTION),
    ("reason", "ACCOUNT_CLOSED", OF_A_REJECTION),
    ("posted_at", "yesterday", TIME),
    ("posted_at", "2026-03-01T12:00:00", TIME),
    ("posted_at", "0001-01-01T00:00:00+14:00", TIME),
    ("posted_at", "9999-12-31T23:59:59-14:00", TIME),
    ("posted_at", "x" * 400_000, TIME),
]


@pytest.mark.parametrize(("name", "value", "sentence"), DAMAGED, ids=lambda value: repr(value)[:60])
def test_an_item_that_is_no_entry_is_refused_with_a_sentence(name: str, value: Any, sentence: str) -> None:
    item = {other: each for other, each in (SOUND | {name: value}).items() if each is not None}
    with pytest.raises(NotAJournalEntry) as refused:
        outcome_event(item)
    assert str(refused.value).startswith(sentence)
    assert len(str(refused.value)) <= 300


@given(
    st.dictionaries(
        st.sampled_from([*SOUND, "reason", "held_after", "decimal_places", "reversal"]),
        nested(st.none() | st.booleans() | st.text() | st.decimals() | st.binary(), most=2, max_leaves=3),
    )
)
def test_any_damage_is_refused_or_leaves_an_event(changes: dict[str, Any]) -> None:
    try:
        event = outcome_event(SOUND | changes)
    except NotAJournalEntry:
        return
    assert json.loads(event.detail)["status"] in {"POSTED", "REJECTED"}


def refused(content: TransactionMessage | str | None) -> dict[str, Any]:
    """The detail of a refusal's event."""
    event = refusal_event("m-1", content, ("INVALID_MESSAGE", "body: expected JSON"), REFUSED_AT)
    assert (event.detail_type, event.time) == ("TransactionRefused", REFUSED_AT)
    return json.loads(event.detail)


def test_the_event_of_a_refusal_has_its_reason_and_the_ids() -> None:
    assert refused(transfer(transaction_id="t-1")) == {
        "schema_version": 1,
        "id": "message#m-1",
        "delivery": "best_effort",
        "message_id": "m-1",
        "reason_code": "INVALID_MESSAGE",
        "reason": "body: expected JSON",
        "refused_at": "2026-03-01T00:00:00.000+00:00",
        "transaction_id": "t-1",
        "account_ids": ["alice", "bob"],
    }


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ('{"transaction_id": "t-1", "account_id": "alice", "amount": "secret"}', ("t-1", ["alice"])),
        ('{"transaction_id": "t-1", "to_account_id": "bob", "from_account_id": "alice"}', ("t-1", ["alice", "bob"])),
        ('{"transaction_id": 1, "account_id": {"secret": 1}}', (None, [])),
        ('{"transaction_id": "", "account_id": "alice"}', (None, ["alice"])),
        ('{"transaction_id": "t-1", "account_id": "%s"}' % ("x" * 129), ("t-1", [])),
        ('{"transaction_id": "t-1"', (None, [])),
        ('["t-1"]', (None, [])),
        ("[" * 100_000, (None, [])),
        ('{"transaction_id": "\\ud800"}', (None, [])),
        ("\ud800", (None, [])),
        ("", (None, [])),
        (None, (None, [])),
    ],
    ids=lambda value: str(value)[:40] if value is None or isinstance(value, str) else "",
)
def test_of_a_body_that_is_no_message_the_ids_are_read_as_far_as_they_are_some(
    body: str | None, ids: tuple[str | None, list[str]]
) -> None:
    detail = refused(body)
    assert (detail["transaction_id"], detail["account_ids"]) == ids
