"""Each event that a test sees is held against its schema: in a function's requests, and in a consumer's queue."""

import os
from datetime import UTC, datetime
from unittest import mock

from conditional_writes import Deadline
from ledger.core.outcome_events import OutcomeEvent
from tests.support.every_event import SeenEvents
from tools.local_aws.consumers import new_consumer
from tools.local_aws.functions import Context, invoke, process_transactions, publish_outcomes, record, stream_record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_tables, scan
from workers.clients import events_client
from workers.event_bus import EventBus


def test_an_events_publication_and_its_arrival_are_seen(ministack: Endpoint, seen_events: SeenEvents) -> None:
    tables = create_tables(ministack, "every-event")
    opening = {"type": "open_account", "transaction_id": "t-1", "account_id": "a", "currency": "EUR"}
    debit = {"transaction_id": "t-2", "account_id": "a", "amount": "-5"}
    assert not invoke(process_transactions(ministack, tables), [record(opening), record(debit)])
    publisher = publish_outcomes(ministack)
    consumer = new_consumer(ministack, publisher.bus.name, "every-event")
    seen_events.published = seen_events.taken = 0
    publisher.lambda_handler({"Records": list(map(stream_record, scan(ministack, tables.journal)))}, Context())
    assert sorted(event["detail-type"] for event in consumer.take()) == ["AccountOpened", "TransactionRejected"]
    assert (seen_events.published, seen_events.taken, seen_events.problems) == (2, 2, [])


def test_an_event_without_its_schema_is_found_at_both_places(ministack: Endpoint, seen_events: SeenEvents) -> None:
    ministack.client("events").create_event_bus(Name="wrong-events")
    consumer = new_consumer(ministack, "wrong-events", "wrong-events")
    with mock.patch.dict(os.environ, ministack.environment):
        bus = EventBus(events_client(read_seconds=10), "wrong-events", "teller")
    wrong = OutcomeEvent("TransactionPosted", '{"account_id": "a"}', datetime(2026, 11, 22, 14, 30, tzinfo=UTC))
    assert bus.publish_once([wrong], Deadline.after(20)) == [None]
    at_its_publication, seen_events.problems = seen_events.problems, []
    consumer.take()
    at_its_arrival, seen_events.problems = seen_events.problems, []
    assert "detail: 'status' is a required property" in at_its_publication
    assert at_its_arrival == at_its_publication
