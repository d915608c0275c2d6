"""The one flow of an SQS batch: decode → handle → settle → report.

Powertools' batch processor hands over one record at a time. A commit of several messages needs the whole batch:
docs/decisions/own-batch-flow.md.
"""

import logging
import math
import os
import random
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline
from workers.attempts import MAXIMUM_BEGUN, Attempts
from workers.batch_report import Measurement, report
from workers.clients import sqs_client
from workers.dead_letters import send_dead_letters
from workers.invocation import RESERVED_SECONDS, SETTLING_SECONDS, deadline_of
from workers.queue_messages import (
    Again,
    Dead,
    Disposition,
    Done,
    Loggable,
    NotAnSqsEvent,
    NotAnSqsRecord,
    QueueMessage,
    Waiting,
    message_from_record,
    message_id_of,
    printable_reason,
)
from workers.redelivery import acknowledge, delay_redelivery, delay_seconds_of

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

logger = logging.getLogger(__name__)


class Queue(NamedTuple):
    """A queue with its dead-letter queue, and how long its messages may stay there.

    SQS deletes a message after `retention_seconds`. A message is delivered again after at most
    `longest_redelivery_seconds`, and waits for another message in at most `maximum_waits` deliveries in a row.
    """

    client: "SQSClient"
    url: str
    dead_letter_url: str
    retention_seconds: int
    longest_redelivery_seconds: int
    maximum_waits: int

    @classmethod
    def from_environment(cls) -> "Queue":
        """As a function's environment names it: QUEUE_URL, DEAD_LETTER_QUEUE_URL and so on."""
        numbers = ("RETENTION_SECONDS", "LONGEST_REDELIVERY_SECONDS", "MAXIMUM_WAITS")
        return cls(
            sqs_client(),
            os.environ["QUEUE_URL"],
            os.environ["DEAD_LETTER_QUEUE_URL"],
            *(int(os.environ[number]) for number in numbers),
        )


class GivenUp(StrEnum):
    """Why the worker itself gives a message up: the attribute `reason_code` of its dead letter."""

    FUNCTION_KILLED = "FUNCTION_KILLED"
    """Each attempt to process the message ended its function: by its exit, by its memory, or by its timeout."""
    RETRIES_EXHAUSTED = "RETRIES_EXHAUSTED"
    """AWS couldn't process the message for days, and SQS would delete it within a day. The message may be healthy."""


LAST_SECONDS = 24 * 3600
"""The end of a message's retention, in which it isn't returned to its queue."""


class QueueWorker[Content: Loggable](NamedTuple):
    """What a function does with the messages of its queue.

    `decode` returns the content of a body, or raises an error. `handle` gives each decoded message its disposition, and
    returns its measurements. `disposition_of` turns an error of `decode` into the disposition of its message.
    """

    decode: Callable[[str], Content]
    handle: Callable[[Sequence[QueueMessage[Content]], Deadline], Iterable[Measurement]]
    disposition_of: Callable[[Exception], Waiting | Again | Dead]
    queue: Queue
    attempts: Attempts
    logger: Logger
    metrics: Metrics

    def process(self, event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
        """Processes an event's messages. Returns the ids of those that go back to the queue, as Lambda expects them.

        Messages are processed together. Only those that may have killed their function are processed after them, each
        alone. If the function dies on any line, all messages that aren't acknowledged go back. Raises NotAnSqsEvent.
        """
        messages, unreadable_ids = _received(event)
        deadline = deadline_of(context)
        work_deadline = deadline.earlier_by(SETTLING_SECONDS)
        together, alone = self._divided(messages, work_deadline)
        measurements = self._process_together(together, work_deadline)
        self._settle(together, deadline)
        if alone:
            self._acknowledge(together, deadline)
        for message in alone:
            measurements += self._process_alone(message, work_deadline)
            self._settle([message], deadline)
            self._acknowledge([message], deadline)
        report(messages, measurements, self.logger, self.metrics)
        returned = [message.message_id for message in messages if isinstance(message.disposition, Waiting | Again)]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in unreadable_ids + returned]}

    def _divided(
        self, messages: Sequence[QueueMessage[Content]], deadline: Deadline
    ) -> tuple[list[QueueMessage[Content]], list[QueueMessage[Content]]]:
        """The messages to process together, and those to process alone: those with an attempt that never ended.

        Each suspect among the first has an attempt begun. If the attempts can't be read or written, the messages that
        were delivered before have the disposition Again.
        """
        redelivered = [message for message in messages if message.delivered_before]
        alone: list[QueueMessage[Content]] = []
        try:
            self.attempts.read(redelivered, deadline)
            suspects = [message for message in redelivered if message.is_suspect or message.attempt.begun]
            alone = sorted((message for message in suspects if message.attempt.begun), key=_begun)
            self.attempts.begin([message for message in suspects if not message.attempt.begun], deadline)
            self._hide(suspects, deadline)
        except Exception as error:  # noqa: BLE001 (what was delivered for the first time is processed all the same)
            for message in redelivered:
                message.disposition = Again(f"its attempt couldn't be begun: {error or repr(error)}", error)
        return [message for message in messages if message not in alone], alone

    def _hide(self, suspects: Sequence[QueueMessage[Content]], deadline: Deadline) -> None:
        """If the function is killed, its suspects come back soon after it would have timed out, not all at once."""
        invocation_seconds = math.ceil(max(0.0, deadline.remaining_seconds) + SETTLING_SECONDS + RESERVED_SECONDS)
        longest = self.queue.longest_redelivery_seconds
        delays = {message: min(invocation_seconds + random.randint(1, 60), longest) for message in suspects}
        delay_redelivery(self.queue.client, self.queue.url, delays, deadline)

    def _process_alone(self, message: QueueMessage[Content], deadline: Deadline) -> list[Measurement]:
        """Processes a message that may have killed its function. If it did so each time, it is dead."""
        if message.attempt.begun >= MAXIMUM_BEGUN:
            reason = (
                f"each of {message.attempt.begun} attempts to process it killed its function: exit, memory or timeout"
            )
            message.disposition = Dead(GivenUp.FUNCTION_KILLED, reason)
        elif message.disposition is None:
            try:
                self.attempts.begin([message], deadline)
            except Exception as error:  # noqa: BLE001 (without an attempt begun, it may kill its function unseen)
                message.disposition = Again(f"its attempt couldn't be begun: {error or repr(error)}", error)
        return self._process_together([message], deadline)

    def _process_together(self, messages: Sequence[QueueMessage[Content]], deadline: Deadline) -> list[Measurement]:
        """Decodes and handles the messages that have no disposition yet."""
        pending = [message for message in messages if message.disposition is None]
        for message in pending:
            try:
                message.content = self.decode(message.body)
            except Exception as error:  # noqa: BLE001 (an error of any type is this message's alone)
                message.disposition = self.disposition_of(error)
        measurements: list[Measurement] = []
        try:
            measurements += self.handle([message for message in pending if message.disposition is None], deadline)
            for message in pending:
                assert message.disposition is not None, "it was given no disposition"
        except Exception as error:  # noqa: BLE001 (the messages that have their disposition keep it)
            for message in pending:
                message.disposition = message.disposition or Again(str(error) or repr(error), error)
        return measurements

    def _settle(self, messages: Sequence[QueueMessage[Content]], deadline: Deadline) -> None:
        """Sends dead letters, delays redelivery, and ends the attempts."""
        for message in messages:
            message.disposition = self._limited(message)
        if any(isinstance(message.disposition, Dead) for message in messages):
            send_dead_letters(self.queue.client, self.queue.dead_letter_url, messages, deadline)
        longest = self.queue.longest_redelivery_seconds
        delays = {message: delay for message in messages if (delay := delay_seconds_of(message, longest)) is not None}
        delay_redelivery(self.queue.client, self.queue.url, delays, deadline)
        self.attempts.end(messages, deadline)

    def _limited(self, message: QueueMessage[Content]) -> Disposition:
        """The message's disposition; Dead if it has waited too long, or if SQS would delete it soon."""
        disposition = message.disposition
        assert disposition is not None, "a message that is settled has its disposition"
        last = self.queue.retention_seconds - LAST_SECONDS
        match disposition:
            case Waiting(code, reason) if message.waits_in_a_row >= self.queue.maximum_waits:
                disposition = Dead(code, f"waited through {message.waits_in_a_row} deliveries: {reason}")
            case Again(reason) if message.age_seconds >= last:
                exhausted = f"not processed in {message.age_seconds / 86_400:.1f} days: {reason}"
                disposition = Dead(GivenUp.RETRIES_EXHAUSTED, exhausted)
        if isinstance(disposition, Done):
            return disposition
        return disposition._replace(reason=printable_reason(disposition.reason))

    def _acknowledge(self, messages: Iterable[QueueMessage[Content]], deadline: Deadline) -> None:
        """Deletes what is at its end: if the next message kills the function, it takes along none of them."""
        ended = [message for message in messages if isinstance(message.disposition, Done | Dead)]
        acknowledge(self.queue.client, self.queue.url, ended, deadline)


def _begun(message: QueueMessage[Any]) -> int:
    return message.attempt.begun


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
