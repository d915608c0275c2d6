"""publish_outcomes and the journal's stream: its answers, its metrics, and what it writes of failures."""

import json
import os
from datetime import UTC, datetime
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from conditional_writes import Deadline
from conditional_writes.core.items import from_dynamodb
from ledger.core.journal import entry_from_item
from ledger.core.outcome_events import OutcomeEvent, refusal_event
from tests.checkers.outcomes import violations
from tests.support.bodies import openings, transfer
from tests.support.every_event import SeenEvents
from tests.support.ledger import Ledger
from tools.local_aws.consumers import Consumer, new_consumer
from tools.local_aws.functions import Context, invoke, metric_totals, publish_outcomes, record, stream_record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import scan
from workers.event_bus import EventBus, events_client
from workers.invocation import RESERVED_SECONDS
from workers.stream_records import NotAStreamEvent


@pytest.fixture
def function(aws: Endpoint) -> ModuleType:
    return publish_outcomes(aws)


@pytest.fixture
def consumer(aws: Endpoint, function: ModuleType) -> Consumer:
    return new_consumer(aws, function.bus.name, function.bus.name)


@pytest.fixture
def items(aws: Endpoint, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The four entries of two accounts and of a transfer between them that is rejected. Their posting printed."""
    ledger = Ledger(aws)
    ledger.post(*openings("alice", "bob"), transfer(amount=7))
    entries = list(scan(aws, ledger.tables.journal))
    capsys.readouterr()
    return entries


def counted(capsys: pytest.CaptureFixture[str]) -> tuple[float, ...]:
    """What was published, dead-lettered, not published, and found changed."""
    totals = metric_totals(map(json.loads, capsys.readouterr().out.splitlines()))
    return tuple(totals[name] for name in ("Published", "DeadLettered", "NotPublished", "EntriesChanged"))


def test_each_entry_that_was_posted_becomes_an_event(
    function: ModuleType, consumer: Consumer, items: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert not invoke(function, map(stream_record, items))
    events = consumer.take()
    assert violations([entry_from_item(from_dynamodb(item)) for item in items], events) == []
    types = ["AccountOpened", "AccountOpened", "TransactionRejected", "TransactionRejected"]
    assert sorted(event["detail-type"] for event in events) == types
    assert counted(capsys) == (4, 0, 0, 0)


def test_without_time_the_stream_is_told_of_the_first_entry_and_the_log_says_why(
    function: ModuleType,
    consumer: Consumer,
    items: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = list(map(stream_record, items))
    answer = function.lambda_handler({"Records": records}, Context(timeout_seconds=RESERVED_SECONDS))
    first = records[0]["dynamodb"]["SequenceNumber"]
    assert answer == {"batchItemFailures": [{"itemIdentifier": first}]}
    assert consumer.take() == []
    assert counted(capsys) == (0, 0, 4, 0)
    [line] = [vars(line) for line in caplog.records if line.message == "not published"]
    assert (line["levelname"], line["entries"], line["reason"]) == ("ERROR", 4, "no time is left: publishing")


def test_an_item_of_another_program_and_changed_entries_are_dead_lettered_and_no_payload_is_in_the_log(
    aws: Endpoint,
    function: ModuleType,
    consumer: Consumer,
    items: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    foreign = {"account_id": {"S": "alice"}, "transaction_id": {"S": "foreign"}, "note": {"S": "secret"}}
    forged = items[0] | {"amount": {"N": "1000000"}}
    records = [*map(stream_record, (items[1], foreign)), stream_record(forged, items[0]), stream_record(None, items[2])]
    assert not invoke(function, records)
    assert len(consumer.take()) == 1
    assert counted(capsys) == (1, 3, 0, 2)
    letters = take_dead_letters(aws, function.publisher.dead_letter_queue_url)
    assert sorted((letter.attributes["reason_code"], letter.reason) for letter in letters) == [
        ("ENTRY_CHANGED", "the journal entry was overwritten: amount"),
        ("ENTRY_REMOVED", "the journal entry was deleted"),
        ("NOT_AN_ENTRY", "format: missing"),
    ]
    assert {"account_id": "alice", "transaction_id": "foreign"} in [json.loads(letter.body) for letter in letters]
    assert any("dead-lettered" in line.message and "foreign" in line.message for line in caplog.records)
    assert not any("secret" in str(vars(line)) for line in caplog.records)


@pytest.mark.filterwarnings("ignore:No application metrics")
def test_what_is_none_of_the_journals_stream_is_never_published(
    function: ModuleType, consumer: Consumer, items: list[dict[str, Any]]
) -> None:
    """A mistake is refused. One who may invoke the function can write a true stream's name, too: SECURITY.md."""
    of_another = stream_record(items[0]) | {"eventSourceARN": "arn:aws:dynamodb:us-east-1:1:table/others/stream/1"}
    for event, sentence in [
        ({"republish": {"account_id": "alice"}}, "The function republish_outcomes takes it"),
        ({"Records": [stream_record(items[1]), of_another]}, r"Records\[1\]: expected a record of the stream"),
        *((event, "expected") for event in ({}, None, {"Records": [record("{}")]}, {"Records": [{"dynamodb": {}}]})),
    ]:
        with pytest.raises(NotAStreamEvent, match=sentence):
            function.lambda_handler(event, Context())
    assert consumer.take() == []
    assert not invoke(function, [])


def test_an_event_without_its_schema_is_found_at_its_publication_and_at_its_arrival(
    aws: Endpoint, seen_events: SeenEvents
) -> None:
    """Each event that a test sees is held against its schema: in a function's requests, and in a consumer's queue."""
    aws.client("events").create_event_bus(Name="wrong-events")
    consumer = new_consumer(aws, "wrong-events", "wrong-events")
    with mock.patch.dict(os.environ, aws.environment):
        bus = EventBus(events_client(read_seconds=10), "wrong-events", "teller")
    now = datetime(2026, 11, 22, 14, 30, tzinfo=UTC)
    refused = refusal_event("m-1", None, ("INVALID_MESSAGE", "body: expected JSON"), now)
    wrong = OutcomeEvent("TransactionPosted", '{"account_id": "a"}', now)
    for event, is_wrong in ((refused, False), (wrong, True)):
        seen_events.published = seen_events.taken = 0
        assert bus.publish_once([event], Deadline.after(20)) == [None]
        at_its_publication, seen_events.problems = seen_events.problems, []
        consumer.take()
        at_its_arrival, seen_events.problems = seen_events.problems, []
        assert (seen_events.published, seen_events.taken) == (1, 1)
        assert at_its_arrival == at_its_publication
        assert bool(at_its_arrival) == is_wrong == ('detail: "status" is a required property' in at_its_arrival)
