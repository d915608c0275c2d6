"""The one flow of an SQS batch: decode → handle → dispose → report.

Powertools' batch processor hands over one record at a time. A commit of several messages needs the whole batch:
docs/decisions/own-batch-flow.md.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit, single_metric
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline
from workers.clients import sqs_client
from workers.dead_letters import send_dead_letters
from workers.invocation import deadline_of
from workers.queue_messages import (
    Again,
    Dead,
    Done,
    Loggable,
    NotAnSqsEvent,
    NotAnSqsRecord,
    QueueMessage,
    message_from_record,
    message_id_of,
    printable_reason,
)
from workers.redelivery import delay_redelivery

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

logger = logging.getLogger(__name__)


class Queue(NamedTuple):
    """A queue with its dead-letter queue. A message is delivered at most `maximum_deliveries` times."""

    client: "SQSClient"
    url: str
    dead_letter_url: str
    maximum_deliveries: int

    @classmethod
    def from_environment(cls) -> "Queue":
        """As a function's environment names it: QUEUE_URL, DEAD_LETTER_QUEUE_URL and MAX_RECEIVE_COUNT."""
        url, dead_letter_url = os.environ["QUEUE_URL"], os.environ["DEAD_LETTER_QUEUE_URL"]
        return cls(sqs_client(), url, dead_letter_url, int(os.environ["MAX_RECEIVE_COUNT"]))


class Measurement(NamedTuple):
    """A value of a metric. `dimension` is a name and a value, beside the service's."""

    metric: str
    value: float
    unit: MetricUnit = MetricUnit.Count
    dimension: tuple[str, str] | None = None


class QueueWorker[Content: Loggable](NamedTuple):
    """What a function does with the messages of its queue.

    `decode` returns the content of a body, or raises an error. `handle` gives each decoded message its disposition, and
    returns its measurements; if `handle` raises an error, the whole batch goes back. `disposition_of` turns an error of
    `decode` into the disposition of its message.
    """

    decode: Callable[[str], Content]
    handle: Callable[[Sequence[QueueMessage[Content]], Deadline], Iterable[Measurement]]
    disposition_of: Callable[[QueueMessage[Content], Exception], Again | Dead]
    queue: Queue
    logger: Logger
    metrics: Metrics

    def process(self, event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
        """Processes an event's messages. Returns the ids of those that go back to the queue, as Lambda expects them.

        If the function dies on any line, the whole batch goes back: no message is acknowledged before the return.
        Raises NotAnSqsEvent, and what `handle` raises.
        """
        messages, unreadable_ids = _received(event)
        self._decode(messages)
        decoded = [message for message in messages if message.disposition is None]
        measurements = self.handle(decoded, deadline_of(context))
        self._dispose(messages)
        self._report(messages, measurements)
        returned_ids = [message.message_id for message in messages if isinstance(message.disposition, Again)]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in unreadable_ids + returned_ids]}

    def _decode(self, messages: Iterable[QueueMessage[Content]]) -> None:
        for message in messages:
            try:
                message.content = self.decode(message.body)
            except Exception as error:  # noqa: BLE001 (an error of any type is this message's alone)
                message.disposition = self.disposition_of(message, error)

    def _dispose(self, messages: Sequence[QueueMessage[Content]]) -> None:
        """Sends dead messages to the dead-letter queue, and delays the redelivery of those that go back.

        Raises AssertionError, before anything is sent, if a message has no disposition.
        """
        for message in messages:
            match message.disposition:
                case Again(code, reason) if message.receive_count >= self.queue.maximum_deliveries:
                    exhausted = f"not processed in {message.receive_count} deliveries: {reason}"
                    message.disposition = Dead(code, printable_reason(exhausted))
                case Again(reason=reason) | Dead(reason=reason) as disposition:
                    message.disposition = disposition._replace(reason=printable_reason(reason))
                case None:
                    raise AssertionError(f"{message.message_id} was given no disposition")
        if any(isinstance(message.disposition, Dead) for message in messages):
            send_dead_letters(self.queue.client, self.queue.dead_letter_url, messages)
        if any(isinstance(message.disposition, Again) for message in messages):
            delay_redelivery(self.queue.client, self.queue.url, messages)

    def _report(self, messages: Sequence[QueueMessage[Content]], measurements: Iterable[Measurement]) -> None:
        for message in messages:
            self._log(message)
        dispositions = [message.disposition for message in messages]
        returned = sum(isinstance(disposition, Again) for disposition in dispositions)
        codes = Counter(disposition.code for disposition in dispositions if isinstance(disposition, Dead))
        for measured in [
            *measurements,
            Measurement("ReturnedToQueue", returned),
            *(Measurement("DeadLettered", count, dimension=("ReasonCode", code)) for code, count in codes.items()),
        ]:
            self._measure(measured)

    def _log(self, message: QueueMessage[Content]) -> None:
        """Writes one line for the message, without its payload."""
        ids = {"message_id": message.message_id, **(message.content.log_fields if message.content else {})}
        match message.disposition:
            case Done(outcome):
                self.logger.info(outcome.label, extra={**ids, **outcome.log_fields})
            case Dead(code, reason):
                self.logger.warning("dead-lettered", extra=ids | {"reason_code": code, "reason": reason})
            case Again(code, reason, error=error):
                log = self.logger.error if error else self.logger.warning
                log("returned to the queue", extra=ids | {"reason_code": code, "reason": reason}, exc_info=error)

    def _measure(self, measured: Measurement) -> None:
        if measured.dimension is None:
            self.metrics.add_metric(measured.metric, measured.unit, measured.value)
            return
        with single_metric(measured.metric, measured.unit, measured.value) as metric:
            metric.add_dimension(*measured.dimension)


def _received(event: dict[str, Any]) -> tuple[list[QueueMessage[Any]], list[str]]:
    """The event's messages, and the ids of its unreadable records: those stay on the queue. Raises NotAnSqsEvent."""
    records = event.get("Records") if isinstance(event, dict) else None
    if not isinstance(records, list):
        raise NotAnSqsEvent("Records: expected a list of SQS's records")
    message_ids = [message_id_of(record, number) for number, record in enumerate(records)]
    messages, unreadable_ids = [], []
    for message_id, record in zip(message_ids, records, strict=True):
        try:
            messages.append(message_from_record(record))
        except NotAnSqsRecord as problem:
            logger.error("message %s is left on its queue: %s", message_id, problem)  # noqa: TRY400 (it is an answer)
            unreadable_ids.append(message_id)
    return messages, unreadable_ids
