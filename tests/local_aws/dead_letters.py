"""Reads a dead-letter queue."""

from dataclasses import dataclass

from tests.local_aws.server import Endpoint, shared_client


@dataclass(frozen=True)
class DeadLetter:
    body: str
    reason: str | None


def take_dead_letters(aws: Endpoint, queue_url: str) -> list[DeadLetter]:
    """What is in the queue, taken out of it."""
    sqs = shared_client(aws, "sqs")
    letters: list[DeadLetter] = []
    while messages := sqs.receive_message(
        QueueUrl=queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    ).get("Messages"):
        for message in messages:
            reason = message.get("MessageAttributes", {}).get("reason", {}).get("StringValue")
            letters.append(DeadLetter(message["Body"], reason))
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
    return letters
