"""Queues of a local AWS: how many messages wait on one, and what is in a dead-letter queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.local_aws.server import Endpoint, shared_client


@dataclass(frozen=True)
class DeadLetter:
    """`attributes` are the texts among those that its producer gave it."""

    body: str
    reason: str | None
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)


def take_dead_letters(aws: Endpoint, queue_url: str) -> list[DeadLetter]:
    """What is in the queue, taken out of it."""
    sqs = shared_client(aws, "sqs")
    letters: list[DeadLetter] = []
    while messages := sqs.receive_message(
        QueueUrl=queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    ).get("Messages"):
        for message in messages:
            given = message.get("MessageAttributes", {})
            attributes = {name: one["StringValue"] for name, one in given.items() if "StringValue" in one}
            letters.append(DeadLetter(message["Body"], attributes.pop("reason", None), attributes))
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
    return letters


def waiting_messages(sqs, queue_url: str) -> int:
    """Messages on a queue, those being worked on and those that wait for a while included."""
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])["Attributes"]
    return sum(int(attributes[f"ApproximateNumberOfMessages{which}"]) for which in ("", "NotVisible", "Delayed"))
