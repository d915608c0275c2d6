"""Publishing entries: each is on the bus, in the dead-letter queue with its reason, or comes again."""

import json
import logging
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import Deadline
from conditional_writes.core.client import SLOWEST_CALL_SECONDS
from ledger.core.journal import Outcome, entry_item
from ledger.outcome_publisher import ChangedEntry, OutcomePublisher, Published
from tests.support.clock import START, Clock, plenty
from tests.support.samples import entry_of, payment
from tests.unit.stubs import Stubbed
from tools.local_aws.functions import SAMPLE_JOURNAL, Context, stream_record
from workers.event_bus import EventBus
from workers.invocation import RESERVED_SECONDS
from workers.stream_records import records_of

QUEUE = "https://sqs.us-east-1.amazonaws.com/000000000000/outcomes-dead"
KEY = {"account_id": {"S": "alice"}, "transaction_id": {"S": "t-2"}}
OLD = KEY | {"amount": {"N": "1"}, "status": {"S": "POSTED"}}
NEW = KEY | {"amount": {"N": "1000000"}, "x": {"B": "eA=="}}


@pytest.fixture
def publisher(events: Stubbed, sqs: Stubbed) -> OutcomePublisher:
    return OutcomePublisher(EventBus(events.client, "outcomes", "teller"), sqs.client, QUEUE)


@pytest.fixture(autouse=True)
def all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ledger")


def entry(version: int, **changes: Any) -> dict[str, Any]:
    """The item of a journal entry; None removes an attribute."""
    message = payment(transaction_id=f"t-{version}")
    outcome = Outcome("POSTED", None, Decimal(1), Decimal(version), version, "2026-03-01T12:00:00.000+00:00", "EUR")
    item = entry_item(entry_of(message, outcome))
    versioned = {name: Decimal(value) if isinstance(value, int) else value for name, value in (item | changes).items()}
    return {name: value for name, value in versioned.items() if value is not None}


def letters(sqs: Stubbed) -> list[tuple[Any, str, str]]:
    """The body, the reason code and the reason of each dead letter that was sent."""
    names = ("reason_code", "reason")
    return [
        (json.loads(sent["MessageBody"]), *(sent["MessageAttributes"][name]["StringValue"] for name in names))
        for request in sqs.parameters
        for sent in request["Entries"]
    ]


def test_the_dead_letter_of_an_item_without_a_version_has_its_key(publisher: OutcomePublisher, sqs: Stubbed) -> None:
    sqs.takes_messages_but()
    versions = [None, 0, Decimal("1.5"), "2", Decimal("1E+20")]
    items = [entry(2, account_version=version, status="x") for version in versions]
    assert publisher.publish(items, plenty()).dead_lettered == 5
    assert [body for body, *_ in letters(sqs)] == [{"account_id": "alice", "transaction_id": "t-2"}] * 5


def test_what_the_dead_letter_queue_refuses_comes_again_and_the_others_do_not(
    publisher: OutcomePublisher, events: Stubbed, sqs: Stubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.failed_entries.FIRST_PAUSE_SECONDS", 3600)
    events.takes_events(None)
    sqs.takes_messages_but(1)
    published = publisher.publish([entry(1), entry(2, status="x"), entry(3, status="x")], Deadline.after(60))
    assert published.number == published.dead_lettered == 1
    assert published.failures[:2] == [None, None]
    assert published.failures[2] == (
        "the dead-letter queue didn't take it: InternalError;"
        " NOT_AN_ENTRY: status: expected one of POSTED, REJECTED, got 'x'"
    )


def test_events_are_tried_while_letters_can_be_sent(publisher: OutcomePublisher, events: Stubbed, sqs: Stubbed) -> None:
    sqs.takes_messages_but()
    published = publisher.publish([entry(1, status="x"), entry(2)], Deadline.after(SLOWEST_CALL_SECONDS - 1))
    assert published == Published([None, "no time is left: publishing"], dead_lettered=1)
    assert events.operations == []


def test_the_dead_letter_of_an_entry_waits_for_those_before_it(
    publisher: OutcomePublisher, events: Stubbed, sqs: Stubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come again together, as often as EventBridge fails."""
    monkeypatch.setattr("workers.failed_entries.FIRST_PAUSE_SECONDS", 3600)
    events.takes_events(None, "InternalFailure")
    sqs.takes_messages_but()
    items = [entry(1, status="x"), entry(2), entry(3), entry(4, status="x")]
    published = publisher.publish(items, Deadline.after(60))
    reason = "InternalFailure: for a reason"
    assert published.failures == [None, None, reason, f"an entry before it isn't published: {reason}"]
    assert (published.number, published.dead_lettered) == (1, 1)
    assert [body["republish"]["from_version"] for body, *_ in letters(sqs)] == [1]


def changed(*records: dict[str, Any]) -> list[ChangedEntry]:
    return [ChangedEntry.of(record) for record in records_of({"Records": list(records)}, SAMPLE_JOURNAL)]


def test_an_entry_that_was_changed_or_removed_is_a_letter_with_its_images_and_no_event(
    publisher: OutcomePublisher, events: Stubbed, sqs: Stubbed, caplog: pytest.LogCaptureFixture
) -> None:
    events.takes_events(None)
    sqs.takes_messages_but()
    entries = changed(stream_record(NEW, OLD), stream_record(None, NEW))
    assert publisher.publish([*entries, entry(3)], plenty()) == Published([None] * 3, dead_lettered=2)
    overwritten, deleted = "the journal entry was overwritten: amount, status, x", "the journal entry was deleted"
    assert letters(sqs) == [
        ({"key": KEY, "old_image": OLD, "new_image": NEW}, "ENTRY_CHANGED", overwritten),
        ({"key": KEY, "old_image": NEW, "new_image": None}, "ENTRY_REMOVED", deleted),
    ]
    alarming = [line.getMessage() for line in caplog.records if line.levelname == "ERROR"]
    ids = "{'account_id': 'alice', 'transaction_id': 't-2'}"
    assert alarming == [
        f"a journal entry was changed: {ids}: ENTRY_CHANGED: {overwritten}",
        f"a journal entry was changed: {ids}: ENTRY_REMOVED: {deleted}",
    ]


def test_a_changed_entrys_letter_that_is_too_large_has_its_key(publisher: OutcomePublisher, sqs: Stubbed) -> None:
    sqs.takes_messages_but()
    large = KEY | {"description": {"S": "x" * 200_000}}
    assert publisher.publish(changed(stream_record(large | OLD, large | NEW)), plenty()).dead_lettered == 1
    assert [body for body, *_ in letters(sqs)] == [{"key": KEY}]


@pytest.mark.parametrize("code", ["ThrottlingException", "ValidationException"])
def test_while_each_call_takes_as_long_as_it_can_a_full_batch_is_over_within_the_timeout(
    publisher: OutcomePublisher, events: Stubbed, sqs: Stubbed, monkeypatch: pytest.MonkeyPatch, clock: Clock, code: str
) -> None:
    def slow(*_: object, **__: object) -> None:
        clock.sleep(SLOWEST_CALL_SECONDS)
        raise ClientError({"Error": {"Code": code, "Message": "after a long time"}}, "PutEvents")

    monkeypatch.setattr("workers.failed_entries.time", SimpleNamespace(sleep=clock.sleep))
    for module in ("event_bus", "sending"):
        monkeypatch.setattr(f"workers.{module}.in_parallel", clock.side_by_side)
    monkeypatch.setattr(events.client, "put_events", slow)
    monkeypatch.setattr(sqs.client, "send_message_batch", slow)
    items = [entry(version, status="x" if version % 10 == 0 else "POSTED") for version in range(1, 101)]
    published = publisher.publish(items, Deadline.of_invocation(Context(timeout_seconds=90), RESERVED_SECONDS))
    assert published.number == published.dead_lettered == 0
    assert SLOWEST_CALL_SECONDS < clock.seconds - START < 90
