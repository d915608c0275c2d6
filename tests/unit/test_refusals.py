"""Telling of dead messages: their ids and their reason, and of a killer nothing that must be decoded.

The record of a refusal is certain, its event is best effort.
"""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import Deadline, DeadlinePassed
from conditional_writes.core.items import from_dynamodb
from ledger.core.journal import EntryId
from ledger.core.reason_codes import IdReused, ReasonCode
from ledger.core.transaction_types.base import TransactionMessage
from ledger.dispositions import disposition_of
from ledger.refusals import RECORDING_SECONDS, TELLING_SECONDS, RefusalEvents, RefusalRecords
from ledger.tables import LedgerTables
from tests.support.clock import START, Clock, plenty
from tests.support.samples import payment, transfer
from tests.unit.stubs import Stubbed
from workers.batches import GivenUp
from workers.event_bus import EventBus
from workers.queue_messages import Dead, Disposition, QueueMessage

DEAD = Dead(ReasonCode.INVALID_MESSAGE, "amount: expected a decimal number")
BODY = '{"transaction_id": "t-1", "account_id": "alice", "amount": "secret"}'

type Message = QueueMessage[TransactionMessage]
KILLED = Dead(GivenUp.FUNCTION_KILLED, "killed")
UNKNOWN = ["junk", "[]", '{"transaction_id": "t-1"}', '{"account_id": "a"}', BODY.replace("t-1", r"\ud800")]


@pytest.fixture
def refusals(events: Stubbed) -> RefusalEvents:
    """Its bus takes an event, unless something else is prepared."""
    events.always("put_events", {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]})
    refusals = RefusalEvents("outcomes")
    refusals.bus = EventBus(events.client, "outcomes", "teller")
    return refusals


def message(body: str = BODY, disposition: Disposition = DEAD, **fields: Any) -> Message:
    """A message that this delivery got to decode."""
    found: Message = QueueMessage("m-1", "receipt", body, 1, datetime.now(UTC), {}, was_processed=True)
    for name, value in fields.items():
        setattr(found, name, value)
    found.disposition = disposition
    return found


def dead(*messages: Message) -> list[tuple[Message, Dead]]:
    return [(each, each.disposition) for each in messages if isinstance(each.disposition, Dead)]


def details(events: Stubbed) -> list[dict[str, Any]]:
    return [json.loads(entry["Detail"]) for request in events.parameters for entry in request["Entries"]]


def test_a_body_that_is_no_message_is_told_of_by_its_ids_alone(refusals: RefusalEvents, events: Stubbed) -> None:
    refusals.publish(dead(message()), plenty())
    [request] = events.parameters
    [entry] = request["Entries"]
    assert (entry["EventBusName"], entry["Source"], entry["DetailType"]) == ("outcomes", "teller", "TransactionRefused")
    [detail] = details(events)
    assert (detail["message_id"], detail["transaction_id"], detail["account_ids"]) == ("m-1", "t-1", ["alice"])
    assert (detail["reason_code"], detail["reason"]) == ("INVALID_MESSAGE", "amount: expected a decimal number")
    assert "secret" not in entry["Detail"]


def test_an_account_that_a_body_names_twice_is_told_of_once(refusals: RefusalEvents, events: Stubbed) -> None:
    to_itself = {"type": "transfer", "transaction_id": "t-1", "from_account_id": "alice", "to_account_id": "alice"}
    refusals.publish(dead(message(json.dumps(to_itself))), plenty())
    assert [detail["account_ids"] for detail in details(events)] == [["alice"]]


def test_a_message_that_was_decoded_is_told_of_by_its_ids_and_with_the_status_of_the_one_that_has_its_id(
    refusals: RefusalEvents, events: Stubbed
) -> None:
    """Else it would look as if the transaction had failed that was posted under this id."""
    changed = disposition_of(IdReused("with another amount", "POSTED"))
    decoded = payment(transaction_id="t-2", account_id="bob")
    refusals.publish(dead(message("anything", changed, content=decoded)), plenty())
    [detail] = details(events)
    assert (detail["transaction_id"], detail["account_ids"]) == ("t-2", ["bob"])
    assert (detail["reason_code"], detail["original_status"]) == ("PAYLOAD_CHANGED", "POSTED")


@pytest.mark.parametrize("code", [GivenUp.FUNCTION_KILLED, GivenUp.RETRIES_EXHAUSTED])
def test_a_body_that_was_not_decoded_is_not_read(refusals: RefusalEvents, events: Stubbed, code: GivenUp) -> None:
    """It may be what killed the function."""
    refusals.publish(dead(message(disposition=Dead(code, "given up"), was_processed=False)), plenty())
    [detail] = details(events)
    assert (detail["reason_code"], detail["transaction_id"], detail["account_ids"]) == (code, None, [])


def test_an_event_is_published_once_and_its_failure_is_logged(
    refusals: RefusalEvents, events: Stubbed, caplog: pytest.LogCaptureFixture
) -> None:
    events.takes_events("InternalFailure", None)
    refusals.publish(dead(message(message_id="m-3"), message()), plenty())
    assert len(events.requests) == 1
    assert caplog.messages == ["no event tells of dead letter m-3: InternalFailure: for a reason"]


def test_a_slow_bus_holds_up_a_batch_for_seconds_only(
    refusals: RefusalEvents, events: Stubbed, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    def slow(**_: Any) -> None:
        clock.sleep(TELLING_SECONDS)
        raise ClientError({"Error": {"Code": "ValidationException", "Message": "after seconds"}}, "PutEvents")

    monkeypatch.setattr(events.client, "put_events", slow)
    refusals.publish(dead(*(message(message_id=f"m-{number}") for number in range(10))), Deadline.after(3600))
    assert clock.seconds - START == TELLING_SECONDS, "there is no time to try each event alone"


@pytest.fixture
def records(empty_dynamodb: Stubbed) -> RefusalRecords:
    return RefusalRecords(empty_dynamodb.client, LedgerTables("accounts", "journal", refusals="refusals"))


def recorded(dynamodb: Stubbed) -> list[dict[str, Any]]:
    """The items that were put."""
    requests = [each for parameters in dynamodb.parameters for each in parameters["RequestItems"]["refusals"]]
    return [from_dynamodb(each["PutRequest"]["Item"]) for each in requests]


def test_a_refusal_is_recorded_under_each_of_its_accounts(records: RefusalRecords, empty_dynamodb: Stubbed) -> None:
    records.write(dead(message(), message(content=transfer(transaction_id="t-2"), message_id="m-2")), plenty())
    first, *others = recorded(empty_dynamodb)
    refused_at = datetime.fromisoformat(first["refused_at"])
    assert first == {
        "account_id": "alice",
        "transaction_id": "t-1",
        "reason_code": "INVALID_MESSAGE",
        "reason": "amount: expected a decimal number",
        "refused_at": first["refused_at"],
        "message_id": "m-1",
        "expires_at": int(refused_at.timestamp()) + 14 * 86_400,
    }
    keys = [(item["account_id"], item["transaction_id"], item["message_id"]) for item in others]
    assert keys == [("alice", "t-2", "m-2"), (*EntryId.on("bob", "alice", "t-2"), "m-2")]


def test_a_refused_message_under_anothers_key_is_not_recorded(records: RefusalRecords, empty_dynamodb: Stubbed) -> None:
    _, key = EntryId.on("bob", "alice", "t-2")
    records.write(dead(message(BODY.replace("t-1", key), content=None)), plenty())
    assert empty_dynamodb.operations == []


@pytest.mark.parametrize("refused", [*map(message, UNKNOWN), message(disposition=KILLED, was_processed=False)])
def test_a_message_without_ids_or_that_this_delivery_did_not_decode_is_not_recorded(
    records: RefusalRecords, empty_dynamodb: Stubbed, refused: Message
) -> None:
    records.write(dead(refused), plenty())
    assert empty_dynamodb.operations == []


def test_a_flood_takes_a_request_for_25_transactions(records: RefusalRecords, empty_dynamodb: Stubbed) -> None:
    bodies = [BODY.replace("t-1", f"t-{number}") for number in range(50)] * 2
    records.write(dead(*map(message, bodies)), plenty())
    assert [len(parameters["RequestItems"]["refusals"]) for parameters in empty_dynamodb.parameters] == [25, 25]
    assert len({item["transaction_id"] for item in recorded(empty_dynamodb)}) == 50


def test_a_slow_table_costs_a_batch_few_seconds(records: RefusalRecords, empty_dynamodb: Stubbed, clock: Clock) -> None:
    events = empty_dynamodb.client.meta.events
    events.register("before-parameter-build", lambda **_: clock.sleep(RECORDING_SECONDS))
    with pytest.raises(DeadlinePassed, match="recording refusals"):
        records.write(dead(*(message(BODY.replace("t-1", f"t-{n}")) for n in range(50))), Deadline.after(3600))
    assert empty_dynamodb.operations == ["BatchWriteItem"]
