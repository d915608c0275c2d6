"""Reads a dead-letter queue, and knows what belongs there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ledger.decoding import InvalidMessage
from tests.local_aws.server import Endpoint, shared_client


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


def is_invalid(decode: Callable[[str], object], body: str) -> bool:
    """`decode` is `ledger.messages.decode`, or `ledger.profiles.decode`."""
    try:
        decode(body)
    except InvalidMessage:
        return True
    return False
