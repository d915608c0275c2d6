"""Consumers of the outcomes' bus on a local AWS: each has a rule on the bus, and a queue of its own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.local_aws.server import Endpoint, shared_client

EVERYTHING: Mapping[str, Any] = {"source": ["teller"]}
"""The pattern of a rule for all of Teller's events."""


@dataclass(frozen=True)
class Consumer:
    """A queue with the events that match a rule."""

    endpoint: Endpoint
    queue_url: str

    def take(self) -> list[dict[str, Any]]:
        """Receives and deletes all events of the queue, as EventBridge delivers them."""
        sqs = shared_client(self.endpoint, "sqs")
        events: list[dict[str, Any]] = []
        while messages := sqs.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10).get("Messages"):
            events += (json.loads(message["Body"]) for message in messages)
            handles = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)]
            assert not sqs.delete_message_batch(QueueUrl=self.queue_url, Entries=handles).get("Failed")
        return events


def new_consumer(endpoint: Endpoint, bus_name: str, name: str, pattern: Mapping[str, Any] = EVERYTHING) -> Consumer:
    """Makes a rule and its queue, both of this name. The bus exists."""
    sqs, events = shared_client(endpoint, "sqs"), shared_client(endpoint, "events")
    queue_url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name=name, EventBusName=bus_name, EventPattern=json.dumps(pattern))
    targets = [{"Id": "queue", "Arn": arn}]
    assert not events.put_targets(Rule=name, EventBusName=bus_name, Targets=targets)["FailedEntryCount"]
    return Consumer(endpoint, queue_url)
