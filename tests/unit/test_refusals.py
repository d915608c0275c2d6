"""Telling of dead messages: their ids and their reason, best effort, and of a killer nothing that must be decoded."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import Deadline
from ledger.core.reason_codes import PayloadChanged, ReasonCode
from ledger.core.transaction_types.base import TransactionMessage
from ledger.dispositions import disposition_of
from ledger.refusals import TELLING_SECONDS, RefusalEvents
from tests.support.clock import plenty
from tests.support.samples import payment
from tests.unit.stubs import Stubbed
from workers.batches import GivenUp
from workers.event_bus import EventBus
from workers.queue_messages import Dead, Disposition, QueueMessage

DEAD = Dead(ReasonCode.INVALID_MESSAGE, "amount: expected a decimal number")
BODY = '{"transaction_id": "t-1", "account_id": "alice", "amount": "secret"}'

type Message = QueueMessage[TransactionMessage]


@pytest.fixture
def refusals(stubbed_events: Stubbed) -> RefusalEvents:
    refusals = RefusalEvents("outcomes")
    refusals.bus = EventBus(stubbed_events.client, "outcomes", "teller")
    return refusals


def message(body: str = BODY, disposition: Disposition = DEAD, **fields: Any) -> Message:
    """A message that this delivery got to decode."""
    found: Message = QueueMessage("m-1", "receipt", body, 1, datetime.now(UTC), {}, attempted=True)
    for name, value in fields.items():
        setattr(found, name, value)
    found.disposition = disposition
    return found


def dead(*messages: Message) -> list[tuple[Message, Dead]]:
    return [(each, each.disposition) for each in messages if isinstance(each.disposition, Dead)]


def takes(events: Stubbed, *codes: str | None) -> None:
    entries = [{"ErrorCode": code, "ErrorMessage": "for a reason"} if code else {"EventId": "1"} for code in codes]
    events.answers("put_events", {"FailedEntryCount": sum(map(bool, codes)), "Entries": entries})


def details(events: Stubbed) -> list[dict[str, Any]]:
    return [json.loads(entry["Detail"]) for request in events.parameters for entry in request["Entries"]]


def test_a_body_that_is_no_message_is_told_of_by_its_ids_and_never_quoted(
    refusals: RefusalEvents, stubbed_events: Stubbed
) -> None:
    takes(stubbed_events, None)
    refusals.publish(dead(message()), plenty())
    [request] = stubbed_events.parameters
    [entry] = request["Entries"]
    assert (entry["EventBusName"], entry["Source"], entry["DetailType"]) == ("outcomes", "teller", "TransactionRefused")
    [detail] = details(stubbed_events)
    assert (detail["message_id"], detail["transaction_id"], detail["account_ids"]) == ("m-1", "t-1", ["alice"])
    assert (detail["reason_code"], detail["reason"]) == ("INVALID_MESSAGE", "amount: expected a decimal number")
    assert "secret" not in entry["Detail"]


def test_a_message_under_the_id_of_a_transaction_that_was_posted_does_not_look_as_if_that_one_had_failed(
    refusals: RefusalEvents, stubbed_events: Stubbed
) -> None:
    takes(stubbed_events, None)
    changed = disposition_of(PayloadChanged("with another amount", "POSTED"))
    refusals.publish(dead(message(disposition=changed)), plenty())
    [detail] = details(stubbed_events)
    assert (detail["transaction_id"], detail["reason_code"]) == ("t-1", "PAYLOAD_CHANGED")
    assert detail["original_status"] == "POSTED"


def test_a_message_that_was_decoded_is_told_of_by_its_ids(refusals: RefusalEvents, stubbed_events: Stubbed) -> None:
    takes(stubbed_events, None)
    refusals.publish(dead(message("anything", content=payment(transaction_id="t-2", account_id="bob"))), plenty())
    [detail] = details(stubbed_events)
    assert (detail["transaction_id"], detail["account_ids"]) == ("t-2", ["bob"])


@pytest.mark.parametrize("code", [GivenUp.FUNCTION_KILLED, GivenUp.RETRIES_EXHAUSTED])
def test_a_body_that_this_delivery_did_not_decode_is_not_read(
    refusals: RefusalEvents, stubbed_events: Stubbed, code: GivenUp
) -> None:
    """It may be what killed the function."""
    takes(stubbed_events, None)
    refusals.publish(dead(message(disposition=Dead(code, "given up"), attempted=False)), plenty())
    [detail] = details(stubbed_events)
    assert (detail["reason_code"], detail["transaction_id"], detail["account_ids"]) == (code, None, [])


def test_an_event_is_published_once_and_its_failure_is_logged(
    refusals: RefusalEvents, stubbed_events: Stubbed, caplog: pytest.LogCaptureFixture
) -> None:
    takes(stubbed_events, "InternalFailure", None)
    refusals.publish(dead(message(message_id="m-3"), message()), plenty())
    assert len(stubbed_events.requests) == 1
    assert caplog.messages == ["no event tells of dead letter m-3: InternalFailure: for a reason"]


def test_a_slow_bus_holds_up_a_batch_for_seconds_only(
    refusals: RefusalEvents, stubbed_events: Stubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0

    def slow(**_: Any) -> None:
        nonlocal now
        now += TELLING_SECONDS
        raise ClientError({"Error": {"Code": "ValidationException", "Message": "after seconds"}}, "PutEvents")

    monkeypatch.setattr("conditional_writes.deadline.time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(stubbed_events.client, "put_events", slow)
    refusals.publish(dead(*(message(message_id=f"m-{number}") for number in range(10))), Deadline(now + 3600))
    assert now - 1000 == TELLING_SECONDS, "there is no time to try each event alone"


def test_after_the_deadline_nobody_is_told(
    refusals: RefusalEvents, stubbed_events: Stubbed, caplog: pytest.LogCaptureFixture
) -> None:
    refusals.publish(dead(message()), Deadline.after(0))
    assert stubbed_events.operations == []
    assert caplog.messages == ["no event tells of dead letter m-1: no time is left: publishing"]


def test_the_client_is_made_for_the_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr("ledger.refusals.events_client", lambda read_seconds: made.append("a client"))
    refusals = RefusalEvents("outcomes")
    assert not made
    assert refusals.bus is refusals.bus
    assert made == ["a client"]
