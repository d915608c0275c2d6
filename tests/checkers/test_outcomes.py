"""Tests of the outcomes' checker: it finds a violation of each kind, planted among sound events."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.checkers import oracle
from tests.checkers.books import Books
from tests.checkers.outcomes import POSTED_EVENTS, refusal_violations, untold, violations
from tests.checkers.small_books import JUNK, OPEN_A, OPEN_B, PAY, SPEND, TRANSFER, post
from tools.local_aws.queues import DeadLetter

ENTRIES = post(Books({}, {}), OPEN_A, OPEN_B, PAY, SPEND, TRANSFER).entries
OPENED, PAID, REJECTED, SENT, OTHER_OPENED, RECEIVED = range(6)
"""The places of the entries."""


def sound_events() -> list[dict[str, Any]]:
    """An event for each entry, as EventBridge delivers it."""
    return [
        {
            "version": "0",
            "id": f"event-{number}",
            "source": "teller",
            "detail-type": {
                OPENED: "AccountOpened",
                OTHER_OPENED: "AccountOpened",
                REJECTED: "TransactionRejected",
            }.get(number, "TransactionPosted"),
            "time": "2026-03-01T00:00:00Z",
            "detail": {
                "schema_version": 1,
                "id": f"{entry.account_id}#{entry.outcome.account_version}",
                "delivery": "at_least_once",
                "account_id": entry.account_id,
                "transaction_id": entry.transaction_id,
                "status": entry.outcome.status,
                "reason": entry.outcome.reason,
                "amount": f"{entry.outcome.amount:f}",
                "currency": entry.outcome.currency,
                "balance_after": f"{entry.outcome.balance_after:f}",
                "held_after": f"{entry.outcome.held_after:f}",
                "account_version": entry.outcome.account_version,
                "posted_at": entry.outcome.posted_at,
                "request": entry.request,
            }
            | ({} if entry.outcome.decimal_places is None else {"decimal_places": entry.outcome.decimal_places}),
        }
        for number, entry in enumerate(ENTRIES)
    ]


def test_sound_events_have_no_violation() -> None:
    assert [entry.outcome.status for entry in ENTRIES].index("REJECTED") == REJECTED
    assert violations(ENTRIES, sound_events()) == []


def test_an_event_may_come_twice_and_in_any_order() -> None:
    assert violations(ENTRIES, sound_events() + [event | {"id": "another"} for event in sound_events()[::-1]]) == []


def test_the_checker_knows_each_type_of_request_that_the_oracle_knows() -> None:
    unknown = POSTED_EVENTS.keys() ^ oracle.ACCOUNT_FIELDS.keys()
    assert not unknown, "not in the table of detail types of docs/events.md, or not in tests/checkers/oracle.py"


def _change(number: int, **changes: Any) -> Callable[[list[dict[str, Any]]], object]:
    """Changes the detail of the event with this number."""
    return lambda events: events[number]["detail"].update(changes)


def _again(**changes: Any) -> Callable[[list[dict[str, Any]]], object]:
    """Delivers an event a second time, with another detail."""
    return lambda events: events.append(events[PAID] | {"detail": events[PAID]["detail"] | changes})


PLANTED: dict[str, tuple[Callable[[list[dict[str, Any]]], object], str]] = {
    "another amount held": (_change(PAID, held_after="1"), "a: version 2: held_after should be 0, and is '1'"),
    "a reversal that is none": (
        _change(PAID, reversal={"number": 1}),
        "a: version 2: reversal should be absent, and is {'number': 1}",
    ),
    "decimals that no entry has": (_change(PAID, decimal_places=4), "a: version 2: decimal_places should be None, and"),
    "an entry that nobody hears of": (lambda events: events.pop(PAID), "a: version 2: no event tells of"),
    "the last entry unheard of": (lambda events: events.pop(RECEIVED), "b: version 2: no event tells of"),
    "no event at all": (lambda events: events.clear(), "b: version 1: no event tells of"),
    "an entry that isn't there": (
        lambda events: events.append(deepcopy(events[SENT]) | {"detail": {"account_id": "c", "account_version": 1}}),
        "c: version 1: no journal entry",
    ),
    "a detail without anything": (
        lambda events: events.append({"source": "teller", "detail-type": "TransactionPosted", "detail": {}}),
        "None: version None: no journal entry",
    ),
    "another detail the second time": (_again(reason="LATER"), "a: version 2: its events differ"),
    "a field more the second time": (_again(more=1), "a: version 2: its events differ"),
    "another detail type the second time": (
        lambda events: events.append(events[PAID] | {"detail-type": "AccountOpened"}),
        "a: version 2: its events differ",
    ),
    "another detail type": (
        lambda events: events[REJECTED].update({"detail-type": "TransactionPosted"}),
        "a: version 3: detail-type should be 'TransactionRejected', and is 'TransactionPosted'",
    ),
    "another source": (
        lambda events: events[PAID].update(source="another"),
        "a: version 2: source should be 'teller', and is 'another'",
    ),
    "another schema's version": (_change(PAID, schema_version=2), "a: version 2: schema_version should be 1, and is 2"),
    "another id": (_change(PAID, id="a#3"), "a: version 2: id should be 'a#2', and is 'a#3'"),
    "another delivery": (
        _change(PAID, delivery="best_effort"),
        "a: version 2: delivery should be 'at_least_once', and is 'best_effort'",
    ),
    "another transaction id": (_change(PAID, transaction_id="9"), "a: version 2: transaction_id should be '1'"),
    "another status": (_change(REJECTED, status="POSTED"), "a: version 3: status should be 'REJECTED'"),
    "another reason": (_change(REJECTED, reason=None), "a: version 3: reason should be"),
    "no reason": (
        lambda events: events[PAID]["detail"].pop("reason"),
        "a: version 2: reason should be None, and is None",
    ),
    "another amount": (_change(PAID, amount="51"), "a: version 2: amount should be 50, and is '51'"),
    "an amount with an exponent": (_change(PAID, amount="5E+1"), "a: version 2: amount should be 50, and is '5E+1'"),
    "an amount that is a number": (_change(PAID, amount=50), "a: version 2: amount should be 50, and is 50"),
    "another balance": (_change(SENT, balance_after="50"), "a: version 4: balance_after should be 30, and is '50'"),
    "another currency": (_change(PAID, currency="USD"), "a: version 2: currency should be 'EUR', and is 'USD'"),
    "another time": (_change(PAID, posted_at=None), "a: version 2: posted_at should be"),
    "another request": (_change(PAID, request={}), "a: version 2: request should be"),
}


@pytest.mark.parametrize(("plant", "sentence"), PLANTED.values(), ids=PLANTED)
def test_it_finds(plant: Callable[[list[dict[str, Any]]], object], sentence: str) -> None:
    events = sound_events()
    plant(events)
    found = violations(ENTRIES, events)
    assert any(violation.startswith(sentence) for violation in found), found


LETTERS = [
    DeadLetter(JUNK, "body: expected JSON", {"reason_code": "INVALID_MESSAGE"}),
    DeadLetter(PAY, "amount: changed (left out: colour)", {"reason_code": "PAYLOAD_CHANGED"}),
    DeadLetter(TRANSFER, "each of 5 attempts killed its function", {"reason_code": "FUNCTION_KILLED"}),
]


def refusals() -> list[dict[str, Any]]:
    """An event for each of these dead letters."""
    told: list[tuple[str | None, list[str], str]] = [
        (None, [], "body: expected JSON"),
        ("1", ["a"], "amount: changed"),
        (None, [], "each of 5 attempts killed its function"),
    ]
    return [
        {
            "source": "teller",
            "detail-type": "TransactionRefused",
            "detail": {
                "schema_version": 1,
                "id": f"message#m{number}",
                "delivery": "best_effort",
                "message_id": f"m{number}",
                "transaction_id": transaction_id,
                "account_ids": account_ids,
                "reason_code": letter.attributes["reason_code"],
                "reason": reason,
                "refused_at": "2026-03-01T00:00:00.000+00:00",
                **({"original_status": "POSTED"} if letter.attributes["reason_code"] == "PAYLOAD_CHANGED" else {}),
            },
        }
        for number, (letter, (transaction_id, account_ids, reason)) in enumerate(zip(LETTERS, told, strict=True))
    ]


def test_sound_refusals_have_no_violation() -> None:
    assert refusal_violations(LETTERS, refusals() + sound_events()) == []
    assert untold(LETTERS, refusals()) == []
    assert violations(ENTRIES, sound_events() + refusals()) == [], "events of refusals are passed over"


def test_the_event_of_a_refusal_may_be_missing_and_is_named() -> None:
    assert refusal_violations(LETTERS, refusals()[1:]) == []
    assert untold(LETTERS, refusals()[1:]) == ["no event tells of the dead letter 'not JSON': body: expected JSON"]


def test_the_ids_of_a_killer_may_be_known() -> None:
    events = refusals()
    events[2]["detail"].update(transaction_id="3", account_ids=["a", "b"])
    assert refusal_violations(LETTERS, events) == []


WRONG_REFUSALS: dict[str, tuple[int, dict[str, Any], str]] = {
    "another code": (0, {"reason_code": "FUNCTION_KILLED"}, "message#m0: no such dead letter"),
    "another reason": (1, {"reason": "changed"}, "message#m1: no such dead letter"),
    "another account": (1, {"account_ids": ["b"]}, "message#m1: no such dead letter"),
    "another transaction": (1, {"transaction_id": "2"}, "message#m1: no such dead letter"),
    "no ids of a message that was decoded": (
        1,
        {"transaction_id": None, "account_ids": []},
        "message#m1: no such dead letter",
    ),
    "more of the message": (1, {"body": PAY}, "message#m1: unexpected body"),
    "another id": (1, {"id": "m1"}, "m1: wrong id or delivery"),
    "another delivery": (1, {"delivery": "at_least_once"}, "message#m1: wrong id or delivery"),
}


@pytest.mark.parametrize(("number", "changes", "sentence"), WRONG_REFUSALS.values(), ids=WRONG_REFUSALS)
def test_it_finds_of_a_refusal(number: int, changes: dict[str, Any], sentence: str) -> None:
    events = refusals()
    events[number]["detail"].update(changes)
    [violation] = refusal_violations(LETTERS, events)
    assert violation.startswith(sentence)


def test_it_finds_a_missing_field_of_a_refusal() -> None:
    events = refusals()
    del events[1]["detail"]["refused_at"]
    [violation] = refusal_violations(LETTERS, events)
    assert violation.startswith("message#m1: no refused_at")


def test_the_ids_of_a_body_that_is_nested_too_deeply_are_unknown() -> None:
    letter = DeadLetter("[" * 100_000, "body: too deep", {"reason_code": "INVALID_MESSAGE"})
    event = refusals()[0]
    event["detail"]["reason"] = "body: too deep"
    assert refusal_violations([letter], [event]) == []
