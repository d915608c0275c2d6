"""Counts the messages on a queue of a local AWS, and takes the dead letters from a dead-letter queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.local_aws.server import Endpoint, shared_client


@dataclass(frozen=True)
class DeadLetter:
    """`attributes` are the other message attributes of type String. The `origin` makes no letter another one."""

    body: str
    reason: str | None
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    origin: str | None = field(default=None, compare=False)


def take_dead_letters(aws: Endpoint, queue_url: str) -> list[DeadLetter]:
    """Receives and deletes all messages of the queue."""
    sqs = shared_client(aws, "sqs")
    letters: list[DeadLetter] = []
    while messages := sqs.receive_message(
        QueueUrl=queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    ).get("Messages"):
        for message in messages:
            given = message.get("MessageAttributes", {})
            attributes = {name: one["StringValue"] for name, one in given.items() if "StringValue" in one}
            own = attributes.pop("reason", None), attributes, attributes.pop("origin", None)
            letters.append(DeadLetter(message["Body"], *own))
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
    return letters


def waiting_messages(sqs, queue_url: str) -> int:
    """The number of messages on a queue, in flight and delayed messages included."""
    return _number(sqs, queue_url, "", "NotVisible", "Delayed")


def messages_in_flight(sqs, queue_url: str) -> int:
    """The number of messages that were delivered, and are being processed or wait for another delivery."""
    return _number(sqs, queue_url, "NotVisible")


def _number(sqs, queue_url: str, *which: str) -> int:
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])["Attributes"]
    return sum(int(attributes[f"ApproximateNumberOfMessages{each}"]) for each in which)
