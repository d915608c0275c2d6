"""Consumers of the outcomes' bus on a local AWS: each has a rule on the bus, and a queue of its own."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.local_aws.queues import waiting_messages
from tools.local_aws.server import Endpoint, shared_client

if TYPE_CHECKING:  # the library's own tests run without the application
    from ledger.core.journal import JournalEntry

EVERYTHING: Mapping[str, Any] = {"source": ["teller"]}
"""The pattern of a rule for all of Teller's events."""

type Event = dict[str, Any]
"""An event as EventBridge delivers it."""


@dataclass(frozen=True)
class Consumer:
    """A queue with the events that match a rule."""

    endpoint: Endpoint
    queue_url: str

    def take(self) -> list[Event]:
        """Receives and deletes all events of the queue."""
        sqs = shared_client(self.endpoint, "sqs")
        events: list[Event] = []
        while messages := sqs.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10).get("Messages"):
            events += (json.loads(message["Body"]) for message in messages)
            handles = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)]
            assert not sqs.delete_message_batch(QueueUrl=self.queue_url, Entries=handles).get("Failed")
        return events

    def waiting(self) -> int:
        """The number of events on the queue."""
        return waiting_messages(shared_client(self.endpoint, "sqs"), self.queue_url)

    def take_until_heard(self, entries: "Iterable[JournalEntry]", longest_silence_seconds: float = 20) -> list[Event]:
        """Takes events until each of these entries was told of, or until no event has come for so long."""
        events, heard_at = list[Event](), time.monotonic()
        missing = {f"{entry.account_id}#{entry.outcome.account_version}" for entry in entries}
        while missing and time.monotonic() < heard_at + longest_silence_seconds:
            if taken := self.take():
                events += taken
                missing -= {event["detail"]["id"] for event in taken}
                heard_at = time.monotonic()
            else:
                time.sleep(0.1)
        return events + self.take()


def new_consumer(endpoint: Endpoint, bus_name: str, name: str, pattern: Mapping[str, Any] = EVERYTHING) -> Consumer:
    """Makes a rule and its queue, both of this name. The bus exists."""
    sqs, events = shared_client(endpoint, "sqs"), shared_client(endpoint, "events")
    queue_url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name=name, EventBusName=bus_name, EventPattern=json.dumps(pattern))
    targets = [{"Id": "queue", "Arn": arn}]
    assert not events.put_targets(Rule=name, EventBusName=bus_name, Targets=targets)["FailedEntryCount"]
    return Consumer(endpoint, queue_url)
