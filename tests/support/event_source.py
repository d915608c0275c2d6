"""A queue's event source mapping on the engine's clock: Lambda's pollers, which nothing waits for."""

from types import ModuleType
from typing import Any

from conditional_writes.testing import Clock
from tests.support.sqs import Sqs
from tools.local_aws.functions import Context, invoke, record

BATCH = 10


class EventSource:
    """Delivers a queue's messages to a function whenever they are visible, one batch after another.

    Each takes `batch_seconds`. `deliveries` counts invocations.
    """

    def __init__(self, sqs: Sqs, clock: Clock, function: ModuleType, batch_seconds: float = 0) -> None:
        self._sqs, self._clock, self._function, self._batch_seconds = sqs, clock, function, batch_seconds
        self._queue = {"QueueUrl": function.worker.queue.url}
        self.messages = sqs.queues[function.worker.queue.url.rpartition("/")[2]].messages
        self.deliveries = 0

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self._ask("SendMessage", MessageBody=body)

    def run(self, seconds: float, left: int = 0) -> None:
        """For so long, or until only so many messages are on the queue."""
        end = self._clock.time() + seconds
        while len(self.messages) > left and (now := self._clock.time()) <= end:
            if self.run_once():
                self._clock.advance(self._batch_seconds)
            else:
                due = min(message.visible_at for message in self.messages if message.visible_at > now)
                self._clock.advance(min(due - now, end - now + 0.001))

    def run_once(self) -> bool:
        """Delivers a batch, if a message is visible. Returns whether one was."""
        received = self._ask("ReceiveMessage", MaxNumberOfMessages=BATCH, AttributeNames=["All"])
        if received:
            self._deliver(received["Messages"])
        return bool(received)

    def _deliver(self, messages: list[dict[str, Any]]) -> None:
        records = [
            record(message["Body"])
            | {"messageId": message["MessageId"], "receiptHandle": message["ReceiptHandle"]}
            | {"attributes": message["Attributes"]}
            for message in messages
        ]
        self.deliveries += 1
        failed = invoke(self._function, records, Context())
        for message in messages:
            if message["MessageId"] not in failed:
                self._ask("DeleteMessage", ReceiptHandle=message["ReceiptHandle"])

    def _ask(self, operation: str, **request: Any) -> dict[str, Any]:
        return self._sqs.answer(operation, self._queue | request, "")
