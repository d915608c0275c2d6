"""Tests of the outcomes' checker: it finds a violation of each kind, planted among the product's own events."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.core.journal import entry_item
from ledger.core.outcome_events import SOURCE, OutcomeEvent, outcome_event, refusal_event
from ledger.core.transaction_types import decode
from tests.checkers import oracle
from tests.checkers.books import Books
from tests.checkers.outcomes import POSTED_EVENTS, refusal_violations, untold, violations
from tests.checkers.small_books import BACK, JUNK, OPEN_A, OPEN_B, PAY, SPEND, TRANSFER, post
from tools.local_aws.queues import DeadLetter

ENTRIES = post(Books({}, {}), OPEN_A, OPEN_B, PAY, SPEND, TRANSFER, BACK).entries
OPENED, PAID, REJECTED, SENT, REVERSED = range(5)
"""The places of a's entries."""
TO_ITSELF = json.dumps(json.loads(TRANSFER) | {"to_account_id": "a"})
type Plant = Callable[[list[dict[str, Any]]], object]


def delivered(event: OutcomeEvent) -> dict[str, Any]:
    return {"source": SOURCE, "detail-type": event.detail_type, "detail": json.loads(event.detail)}


def sound_events() -> list[dict[str, Any]]:
    return [delivered(outcome_event(entry_item(entry))) for entry in ENTRIES]


def test_sound_events_have_no_violation_and_may_come_twice_in_any_order() -> None:
    assert [entry.outcome.status for entry in ENTRIES].index("REJECTED") == REJECTED
    assert violations(ENTRIES, sound_events()) == []
    assert violations(ENTRIES, sound_events() + [event | {"id": "another"} for event in sound_events()[::-1]]) == []


def test_the_checker_knows_each_type_of_request_that_the_oracle_knows() -> None:
    unknown = POSTED_EVENTS.keys() ^ oracle.ACCOUNT_FIELDS.keys()
    assert not unknown, "not in the table of detail types of docs/events.md, or not in tests/checkers/oracle.py"


PLANTED: dict[str, tuple[Plant, str]] = {
    "an entry that nobody hears of": (lambda events: events.pop(PAID), "a: version 2: no event tells of"),
    "another detail the second time": (
        lambda events: events.append(events[PAID] | {"detail": events[PAID]["detail"] | {"reason": "LATER"}}),
        "a: version 2: its events differ",
    ),
    "another amount": (
        lambda events: events[PAID]["detail"].update(amount="51"),
        "a: version 2: amount should be 50, and is '51'",
    ),
}


@pytest.mark.parametrize(("plant", "sentence"), PLANTED.values(), ids=PLANTED)
def test_it_finds(plant: Plant, sentence: str) -> None:
    events = sound_events()
    plant(events)
    found = violations(ENTRIES, events)
    assert any(violation.startswith(sentence) for violation in found), found


LETTERS = [
    DeadLetter(JUNK, "body: expected JSON", {"reason_code": "INVALID_MESSAGE"}),
    DeadLetter(PAY, "amount: changed (left out: colour)", {"reason_code": "PAYLOAD_CHANGED"}),
    DeadLetter(TRANSFER, "each of 5 attempts killed its function", {"reason_code": "FUNCTION_KILLED"}),
    DeadLetter(TO_ITSELF, "to_account_id: expected another", {"reason_code": "INVALID_MESSAGE"}),
]


def refusals() -> list[dict[str, Any]]:
    """An event for each of these dead letters. The ids of a message that kills its function aren't known."""
    told = [
        (JUNK, "INVALID_MESSAGE", "body: expected JSON", {}),
        (decode(PAY), "PAYLOAD_CHANGED", "amount: changed", {"original_status": "POSTED"}),
        (None, "FUNCTION_KILLED", "each of 5 attempts killed its function", {}),
        (TO_ITSELF, "INVALID_MESSAGE", "to_account_id: expected another", {}),
    ]
    return [
        delivered(refusal_event(f"m{number}", content, (code, reason), datetime(2026, 3, 1, tzinfo=UTC), details))
        for number, (content, code, reason, details) in enumerate(told)
    ]


def test_sound_refusals_have_no_violation() -> None:
    assert refusal_violations(LETTERS, refusals() + sound_events()) == []
    assert untold(LETTERS, refusals()) == []
    assert violations(ENTRIES, sound_events() + refusals()) == [], "events of refusals are passed over"


def test_the_event_of_a_refusal_may_be_missing_and_is_named() -> None:
    assert refusal_violations(LETTERS, refusals()[1:]) == []
    assert untold(LETTERS, refusals()[1:]) == ["no event tells of the dead letter 'not JSON': body: expected JSON"]


WRONG_REFUSALS: dict[str, tuple[int, dict[str, Any], str]] = {
    "another code": (0, {"reason_code": "FUNCTION_KILLED"}, "message#m0: no such dead letter"),
    "another account": (1, {"account_ids": ["b"]}, "message#m1: no such dead letter"),
}


@pytest.mark.parametrize(("number", "changes", "sentence"), WRONG_REFUSALS.values(), ids=WRONG_REFUSALS)
def test_it_finds_of_a_refusal(number: int, changes: dict[str, Any], sentence: str) -> None:
    events = refusals()
    events[number]["detail"].update(changes)
    [violation] = refusal_violations(LETTERS, events)
    assert violation.startswith(sentence)
