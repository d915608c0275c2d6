"""Publishing on a bus: in few requests, again what failed, and until the deadline."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from conditional_writes import Deadline
from ledger.core.outcome_events import OutcomeEvent
from tests.support.clock import plenty
from tests.unit.stubs import Stubbed
from workers import failed_entries
from workers.event_bus import MAXIMUM_BYTES, EventBus, Failure, events_client

TIME = datetime(2026, 3, 1, tzinfo=UTC)
FIXED_BYTES = 14 + len("bank") + len("Paid")
"""Of an event, by EventBridge's count: its time, its source, and its detail type."""


@pytest.fixture
def bus(events: Stubbed) -> EventBus:
    return EventBus(events.client, "outcomes", "bank")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_entries, "random", SimpleNamespace(uniform=lambda *_: 0))


def test_the_client_tries_once_and_waits_for_an_answer_as_long_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    config: Any = events_client(7).meta.config
    assert (config.retries["total_max_attempts"], config.read_timeout) == (1, 7)


def paid(number: int) -> list[OutcomeEvent]:
    return [OutcomeEvent("Paid", json.dumps({"number": index}), TIME) for index in range(number)]


def of_bytes(number: int) -> OutcomeEvent:
    """An event of this size, by EventBridge's count."""
    return OutcomeEvent("Paid", json.dumps("x" * (number - FIXED_BYTES - 2)), TIME)


def numbers(requests: Sequence[dict[str, Any]]) -> list[list[int]]:
    """The numbers of the events in each request."""
    return [[json.loads(entry["Detail"])["number"] for entry in request["Entries"]] for request in requests]


def test_a_request_and_an_event_are_as_large_as_eventbridge_takes(events: Stubbed, bus: EventBus) -> None:
    half = MAXIMUM_BYTES // 2
    sent = [of_bytes(half), of_bytes(half), of_bytes(half + 1), of_bytes(half), of_bytes(MAXIMUM_BYTES)]
    for size in (2, 1, 1, 1):
        events.takes_events(*[None] * size)
    assert bus.publish(sent, plenty()) == [None] * 5
    sizes = [[FIXED_BYTES + len(entry["Detail"]) for entry in each["Entries"]] for each in events.parameters]
    assert sizes == [[half, half], [half + 1], [half], [MAXIMUM_BYTES]]


def test_an_event_that_is_too_large_is_sent_to_nobody_and_the_others_are(events: Stubbed, bus: EventBus) -> None:
    events.takes_events(None, None)
    one, other = paid(2)
    found = bus.publish([one, of_bytes(MAXIMUM_BYTES + 1), other], plenty())
    assert found == [None, Failure("262,145 bytes, an event has at most 262,144", is_final=True), None]
    assert numbers(events.parameters) == [[0, 1]]


@pytest.mark.parametrize("code", ["InvalidArgument", "MalformedDetail"])
def test_what_eventbridge_says_of_the_event_itself_is_final(events: Stubbed, bus: EventBus, code: str) -> None:
    events.takes_events(None, code, "InternalFailure")
    events.takes_events(None)
    assert bus.publish(paid(3), plenty()) == [None, Failure(f"{code}: for a reason", is_final=True), None]
    assert numbers(events.parameters) == [[0, 1, 2], [2]]


@pytest.mark.parametrize("code", ["ValidationException", "SerializationException"])
def test_of_a_request_that_is_refused_each_event_is_tried_alone(events: Stubbed, bus: EventBus, code: str) -> None:
    events.refuses("put_events", code)
    events.takes_events(None)
    events.refuses("put_events", code)
    events.takes_events(None)
    one, failure, other = bus.publish(paid(3), plenty())
    assert one is other is None
    assert failure
    assert failure.is_final
    assert code in failure.reason
    assert numbers(events.parameters) == [[0, 1, 2], [0], [1], [2]]


def test_of_a_request_without_one_event_that_is_taken_none_is_given_up(events: Stubbed, bus: EventBus) -> None:
    """The bus may be at fault."""
    for _ in range(3):
        events.refuses("put_events", "ValidationException")
    failures = bus.publish_once(paid(2), plenty())
    assert [failure and failure.is_final for failure in failures] == [False, False]


def test_an_answer_that_does_not_name_the_events_is_no_success(events: Stubbed, bus: EventBus) -> None:
    """As the page of a proxy."""
    events.answers("put_events", {})
    assert bus.publish_once(paid(2), plenty()) == [Failure("the answer doesn't say that it was taken")] * 2


def test_the_deadline_ends_the_search_for_the_event_that_is_refused(
    events: Stubbed, bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    events.refuses("put_events", "ValidationException")
    events.takes_events(None)
    times = iter([0, 0])
    monkeypatch.setattr("conditional_writes.core.steps.time", SimpleNamespace(monotonic=lambda: next(times, 99)))
    assert bus.publish_once(paid(3), Deadline(1)) == [None, *[Failure("no time is left: publishing")] * 2]
