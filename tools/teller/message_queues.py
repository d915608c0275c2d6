"""The stack's queues, and the numbers of messages on them."""

from enum import StrEnum
from typing import NamedTuple, override

from tools.teller.deployment import Deployment

_ATTRIBUTE = "ApproximateNumberOfMessages"


class MessageQueue(StrEnum):
    """The queues that take messages."""

    TRANSACTIONS = "transactions"
    ADMINISTRATION = "administration"
    PROFILES = "profiles"

    @property
    def output(self) -> str:
        """The stack's output with the queue's URL."""
        return f"{self.capitalize()}QueueUrl"


class Counts(NamedTuple):
    """The messages of a queue, as SQS estimates them. Those `in_flight` were received, and may come again."""

    waiting: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        return sum(self)

    @override
    def __str__(self) -> str:
        return f"{self.waiting:,} waiting, {self.in_flight:,} in flight, {self.delayed:,} delayed"


def counts_of(deployment: Deployment, output: str) -> Counts:
    """The numbers of the queue whose URL is in this output."""
    names = [f"{_ATTRIBUTE}{which}" for which in ("", "NotVisible", "Delayed")]
    attributes = deployment.client("sqs").get_queue_attributes(QueueUrl=deployment[output], AttributeNames=names)
    return Counts(*(int(attributes["Attributes"][name]) for name in names))
