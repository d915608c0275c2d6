"""The one flow of an SQS batch: decode → handle → settle → report.

Powertools' batch processor hands over one record at a time. A commit of several messages needs the whole batch:
docs/decisions/own-batch-flow.md.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit, single_metric
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline
from workers.attempts import MAXIMUM_BEGUN, NOT_BEGUN, Attempts
from workers.dead_letters import send_dead_letters
from workers.invocation import RESERVED_SECONDS, SETTLING_SECONDS
from workers.queue_messages import (
    UNTROUBLED,
    Again,
    Dead,
    Disposition,
    Done,
    ErrorText,
    Loggable,
    QueueMessage,
    Waiting,
    messages_of,
    printable_reason,
)
from workers.redelivery import acknowledge, delay_after_kill_seconds, delay_redelivery, delays_seconds_of

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient


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
    def from_environment(cls, client: "SQSClient", prefix: str = "") -> "Queue":
        """As a function's environment names it: QUEUE_URL and DEAD_LETTER_QUEUE_URL, after the prefix, and so on."""
        numbers = ("RETENTION_SECONDS", "LONGEST_REDELIVERY_SECONDS", "MAXIMUM_WAITS")
        return cls(
            client,
            os.environ[f"{prefix}QUEUE_URL"],
            os.environ[f"{prefix}DEAD_LETTER_QUEUE_URL"],
            *(int(os.environ[number]) for number in numbers),
        )


MAXIMUM_VALUES = 99
"""Of a metric in one invocation. With one more, Powertools would publish early what there is."""


class Measurement(NamedTuple):
    """A value of a metric. `dimension` is a name and a value, beside the service's."""

    metric: str
    value: float
    unit: MetricUnit = MetricUnit.Count
    dimension: tuple[str, str] | None = None

    def emit(self, metrics: Metrics) -> None:
        if self.dimension is None:
            metrics.add_metric(self.metric, self.unit, self.value)
            return
        with single_metric(self.metric, self.unit, self.value) as metric:
            metric.add_dimension(*self.dimension)


class GivenUp(StrEnum):
    """Why the worker itself gives a message up: the attribute `reason_code` of its dead letter."""

    FUNCTION_KILLED = "FUNCTION_KILLED"
    """Each attempt to process the message ended its function: by its exit, by its memory, or by its timeout."""
    RETRIES_EXHAUSTED = "RETRIES_EXHAUSTED"
    """AWS couldn't process the message for days, and SQS would delete it within hours. The message may be healthy."""


LAST_SECONDS = 2 * 3600
"""The end of a message's retention, in which it isn't returned to its queue: eight deliveries or more."""
BEGIN_SECONDS = 5.0
"""To begin attempts: if the table Attempts or SQS is slow, first deliveries shall not wait for it.

A batch of redelivered messages alone takes up to half of its time.
"""


class QueueWorker[Content: Loggable](NamedTuple):
    """The processing of a queue's messages by a function.

    `decode` returns the content of a body, or raises an error. `handle` gives each decoded message its disposition, and
    returns its measurements. `disposition_of` turns an error of `decode` into the disposition of its message: also one
    that is no Exception, as a library's exit or a panic of its Rust code. `tell_of_dead` is given the messages that
    went to the dead-letter queue, before the next one is processed that may kill the function. `record_dead` is given
    the dead messages before they go there: if it raises an error, they come again.
    """

    decode: Callable[[str], Content]
    handle: Callable[[Sequence[QueueMessage[Content]], Deadline], Iterable[Measurement]]
    disposition_of: Callable[[BaseException], Waiting | Again | Dead]
    queue: Queue
    attempts: Attempts
    logger: Logger
    metrics: Metrics
    tell_of_dead: Callable[[Sequence[tuple[QueueMessage[Content], Dead]], Deadline], None] | None = None
    record_dead: Callable[[Sequence[tuple[QueueMessage[Content], Dead]], Deadline], None] | None = None

    def process(self, event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
        """Processes an event's messages. Returns the ids of those that go back to the queue, as Lambda expects them.

        Lambda deletes every message of the event that the answer doesn't name. So messages that are done are only
        deleted here if another message may kill the function before it answers.

        Messages are processed together. Only those with an attempt that never ended are processed after them, each
        alone. If the function dies on any line, all messages that aren't acknowledged go back. Raises NotAnSqsEvent.
        """
        messages, unreadable_ids = messages_of(event)
        deadline = Deadline.of_invocation(context, RESERVED_SECONDS)
        work_deadline = Deadline.of_invocation(context, RESERVED_SECONDS + SETTLING_SECONDS)
        alone = self._begin(messages, work_deadline)
        together = [message for message in messages if message not in alone]
        measurements = self._process(together, work_deadline)
        self._settle(together, context.aws_request_id, work_deadline, deadline)
        self._report(together, [*measurements, Measurement("ReturnedToQueue", len(unreadable_ids))])
        self._tell_of_dead(together, deadline)
        if alone:
            self._acknowledge(together, deadline)
            self.metrics.flush_metrics()
            self._process_alone(alone, context.aws_request_id, work_deadline, deadline)
        returned_ids = [message.message_id for message in messages if message.goes_back]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in unreadable_ids + returned_ids]}

    def _begin(self, messages: Sequence[QueueMessage[Content]], deadline: Deadline) -> Sequence[QueueMessage[Content]]:
        """Begins attempts of the suspects. Returns, and doesn't begin, those with an attempt that never ended.

        The likeliest killers are last in the result. A message whose attempt can't be read or begun has the disposition
        Again.
        """
        redelivered = [message for message in messages if message.delivered_before]
        if not redelivered:
            return ()
        invocation_seconds = math.ceil(max(0.0, deadline.remaining_seconds) + SETTLING_SECONDS + RESERVED_SECONDS)
        half_seconds = deadline.remaining_seconds / 2
        seconds = BEGIN_SECONDS if len(redelivered) < len(messages) else max(BEGIN_SECONDS, half_seconds)
        deadline = min(deadline, Deadline.after(seconds))
        self.attempts.read(redelivered, deadline)
        suspects = [message for message in redelivered if message.disposition is None and message.is_suspect]
        alone = [message for message in suspects if message.attempt.begun]
        alone.sort(key=lambda message: message.attempt.begun)
        try:
            self.attempts.begin([message for message in suspects if not message.attempt.begun], deadline)
            self._hide(suspects, invocation_seconds, deadline)
        except Exception as error:  # noqa: BLE001 (the other messages are processed all the same)
            not_begun = Again.after(error, NOT_BEGUN)
            for message in suspects:
                message.disposition = not_begun
            return ()
        return alone

    def _hide(self, suspects: Sequence[QueueMessage[Content]], invocation_seconds: int, deadline: Deadline) -> None:
        """If the function is killed, its suspects come back soon after it would have timed out, not all at once."""
        longest = self.queue.longest_redelivery_seconds
        delays = {message: delay_after_kill_seconds(invocation_seconds, longest) for message in suspects}
        delay_redelivery(self.queue.client, self.queue.url, delays, deadline)

    def _process_alone(
        self, messages: Sequence[QueueMessage[Content]], request_id: str, work_deadline: Deadline, deadline: Deadline
    ) -> None:
        """Processes the messages one after another. One with MAXIMUM_BEGUN attempts that never ended is dead."""
        measurements: list[Measurement] = []
        for message in messages:
            if message.attempt.begun >= MAXIMUM_BEGUN:
                killed = f"each of {message.attempt.begun} attempts to process it killed its function"
                message.disposition = Dead(GivenUp.FUNCTION_KILLED, f"{killed}: exit, memory or timeout")
            else:
                try:
                    self.attempts.begin([message], work_deadline)
                except Exception as error:  # noqa: BLE001 (without an attempt begun, it may kill its function unseen)
                    message.disposition = Again.after(error, NOT_BEGUN)
                else:
                    measurements += self._process([message], work_deadline)
            self._settle([message], request_id, work_deadline, deadline)
            self._tell_of_dead([message], deadline)
            self._acknowledge([message], deadline)
        self._report(messages, measurements)

    def _process(self, messages: Sequence[QueueMessage[Content]], deadline: Deadline) -> list[Measurement]:
        """Decodes and handles the messages that have no disposition yet."""
        pending = [message for message in messages if message.disposition is None]
        for message in pending:
            message.was_processed = True
            try:
                message.content = self.decode(message.body)
            except BaseException as error:  # noqa: BLE001 (an error of any type is this message's alone)
                message.disposition = self.disposition_of(error)
        measurements: list[Measurement] = []
        try:
            measurements += self.handle([message for message in pending if message.disposition is None], deadline)
            for message in pending:
                assert message.disposition is not None, "it was given no disposition"
        except Exception as error:  # noqa: BLE001 (the messages that have their disposition keep it)
            again = Again.after(error)
            for message in pending:
                message.disposition = message.disposition or again
        return measurements

    def _settle(
        self, messages: Sequence[QueueMessage[Content]], request_id: str, work_deadline: Deadline, deadline: Deadline
    ) -> None:
        """Records dead messages, sends their letters, ends the attempts, and delays redelivery."""
        for message in messages:
            message.disposition = self._limited(message)
        self._record_dead(messages, work_deadline)
        if any(isinstance(message.disposition, Dead) for message in messages):
            send_dead_letters(self.queue.client, self.queue.dead_letter_url, messages, request_id, deadline)
        going_back = [message for message in messages if message.goes_back]
        if going_back or any(message.attempt != UNTROUBLED for message in messages):
            self.attempts.end(messages, deadline)
        if going_back:
            delays = delays_seconds_of(going_back, self.queue.longest_redelivery_seconds)
            delay_redelivery(self.queue.client, self.queue.url, delays, deadline)

    def _record_dead(self, messages: Sequence[QueueMessage[Content]], deadline: Deadline) -> None:
        """If they can't be recorded, they come again; without a record they are dead only if SQS would delete them."""
        dead = _dead(messages)
        if not dead or not self.record_dead:
            return
        try:
            self.record_dead(dead, deadline)
        except Exception as error:  # noqa: BLE001 (it is about these messages alone)
            for message, disposition in dead:
                again = Again.after(error, f"{disposition.code}, and it couldn't be recorded: ")
                if self._is_in_its_last_hours(message):
                    self.logger.warning("dead without a record", extra={"reason": again.reason})
                else:
                    message.disposition = again

    def _limited(self, message: QueueMessage[Content]) -> Disposition:
        """The message's disposition; Dead if it has waited too long, or if SQS would delete it soon."""
        disposition = message.disposition
        assert disposition is not None, "a message that is settled has its disposition"
        last_hours = self._is_in_its_last_hours(message)
        days = f"in {message.age_seconds / 86_400:.1f} days on the queue"
        match disposition:
            case Waiting(code, reason) if last_hours:
                disposition = Dead(code, f"not found {days}: {reason}")
            case Waiting(code, reason) if message.waits_in_a_row >= self.queue.maximum_waits:
                disposition = Dead(code, f"waited through {message.waits_in_a_row} deliveries: {reason}")
            case Again(reason) if last_hours:
                disposition = Dead(GivenUp.RETRIES_EXHAUSTED, f"not processed {days}: {reason}")
        if isinstance(disposition, Done):
            return disposition
        return disposition._replace(reason=printable_reason(disposition.reason))

    def _is_in_its_last_hours(self, message: QueueMessage[Content]) -> bool:
        return message.age_seconds >= self.queue.retention_seconds - LAST_SECONDS

    def _acknowledge(self, messages: Iterable[QueueMessage[Content]], deadline: Deadline) -> None:
        """Deletes the messages that don't go back, so that the next message can't take them along."""
        ended = [message for message in messages if not message.goes_back]
        acknowledge(self.queue.client, self.queue.url, ended, deadline)

    def _tell_of_dead(self, messages: Sequence[QueueMessage[Content]], deadline: Deadline) -> None:
        """The messages stay dead, whatever becomes of it."""
        dead = _dead(messages)
        if dead and self.tell_of_dead:
            try:
                self.tell_of_dead(dead, deadline)
            except Exception:
                self.logger.warning("could not tell of dead letters", exc_info=True)

    def _report(self, messages: Sequence[QueueMessage[Content]], measurements: Iterable[Measurement]) -> None:
        """Writes a line for the messages together, and a line for each: at DEBUG for those that are done.

        Emits the measurements, and what the dispositions count to.
        """
        dispositions = [message.disposition for message in messages]
        done = Counter(disposition.effect.label for disposition in dispositions if isinstance(disposition, Done))
        codes = Counter(disposition.code for disposition in dispositions if isinstance(disposition, Dead))
        waiting = sum(isinstance(disposition, Waiting) for disposition in dispositions)
        returned = sum(isinstance(disposition, Again) for disposition in dispositions)
        counts = {**done, "waiting": waiting, "returned": returned, "dead_lettered": codes.total()}
        not_zero = {name: count for name, count in counts.items() if count}
        self.logger.info("batch", extra={"messages": len(messages), **not_zero})
        self._log_each(messages)
        ages = [message.age_seconds * 1000 for message in messages if isinstance(message.disposition, Done)]
        returned_ages = [message.age_seconds * 1000 for message in messages if isinstance(message.disposition, Again)]
        for measured in [
            *measurements,
            Measurement("Waiting", waiting),
            Measurement("ReturnedToQueue", returned),
            Measurement("DeadLettered", codes.total()),
            *(Measurement("DeadLettered", count, dimension=("ReasonCode", code)) for code, count in codes.items()),
            *(Measurement("MessageAge", round(age), MetricUnit.Milliseconds) for age in ages[:MAXIMUM_VALUES]),
            Measurement("ReturnedAge", round(max(returned_ages, default=0)), MetricUnit.Milliseconds),
        ]:
            measured.emit(self.metrics)

    def _log_each(self, messages: Iterable[QueueMessage[Content]]) -> None:
        """Writes the messages' lines, without their payloads. Of errors with one text the first has its traceback."""
        logged: set[ErrorText] = set()
        for message in messages:
            ids = {"message_id": message.message_id, **(message.content.log_fields if message.content else {})}
            match message.disposition:
                case Done(effect):
                    self.logger.debug(effect.label, extra={**ids, **effect.log_fields})
                case Dead(code, reason):
                    self.logger.warning("dead-lettered", extra=ids | {"reason_code": code, "reason": reason})
                case Waiting(code, reason):
                    self.logger.warning("waiting", extra=ids | {"reason_code": code, "reason": reason})
                case Again(reason, error):
                    fields = ids | {"reason": reason}
                    if error and error not in logged:
                        fields |= {"exception_name": error.name, "exception": error.traceback}
                        logged.add(error)
                    self.logger.error("returned to the queue", extra=fields)


def _dead[Content: Loggable](
    messages: Iterable[QueueMessage[Content]],
) -> list[tuple[QueueMessage[Content], Dead]]:
    dispositions = ((message, message.disposition) for message in messages)
    return [(message, disposition) for message, disposition in dispositions if isinstance(disposition, Dead)]
