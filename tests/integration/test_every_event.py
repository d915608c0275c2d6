"""Each event that a test sees is held against its schema: in a function's requests, and in a consumer's queue."""

import os
from datetime import UTC, datetime
from unittest import mock

from conditional_writes import Deadline
from ledger.core.outcome_events import OutcomeEvent, refusal_event
from tests.support.every_event import SeenEvents
from tools.local_aws.consumers import new_consumer
from tools.local_aws.server import Endpoint
from workers.event_bus import EventBus, events_client


def test_an_event_without_its_schema_is_found_at_its_publication_and_at_its_arrival(
    aws: Endpoint, seen_events: SeenEvents
) -> None:
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
