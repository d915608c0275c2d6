"""Runs a scheduled job once for each scheduled time, under a lock, in as many invocations as it takes.

The jobs themselves are `functions/<job>/app.py`, their schedules are in template.yaml: docs/extending.md.

EventBridge Scheduler sends a message to the job's queue, which stays there until the run is done. Nobody invokes the
function again: docs/decisions/jobs-by-a-queue.md. A message may come twice, at once or days later, and the function may
die on any line. The lock's record has the scheduled times that are done, and the checkpoint of the one that isn't.
"""

import contextlib
import json
import os
import reprlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import Deadline, DeadlinePassed, Item, OutcomeUnknown, Put, Write, key
from conditional_writes.core.items import copied
from conditional_writes.locks import Lock, LockLost, Locks, LockTaken, WindowDone, WindowForgotten
from workers.dead_letters import send_dead_letters
from workers.invocation import RESERVED_SECONDS
from workers.queue_messages import Dead, NotAnSqsEvent, QueueMessage, message_from_record, message_id_of
from workers.sending import NotSent, sqs_client

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

KEPT_SECONDS = 400 * 24 * 3600
"""How long the record of a run stays, until DynamoDB's TTL removes it."""
OVERRUN_SECONDS = 2.0
"""A margin for a timed-out invocation, and for its last request in flight."""
LONGEST_DELAY = timedelta(days=1)
"""Longer than the retries of EventBridge Scheduler, by the template's schedules."""
LONGEST_LEAD = timedelta(minutes=5)
"""For clocks that differ."""
UNRESOLVED = "<aws.scheduler.scheduled-time>"
"""The placeholder for the time in a schedule's input. A local AWS may leave it as it is; on AWS that is invalid."""
PASSING = (LockLost, LockTaken, DeadlinePassed, OutcomeUnknown, NotSent, BotoCoreError, ClientError)
"""Errors for which a job's message comes again, and nobody is called: those of AWS, and of a run that was paused."""


class InvalidEvent(Exception):
    """The message isn't this scheduled job's: the text says which field is wrong, and what was expected."""


class Refusal(StrEnum):
    """The attribute `reason_code` of a job's dead letter."""

    INVALID_EVENT = "INVALID_EVENT"


class Run(NamedTuple):
    """The state of a job when an invocation begins. Without a `checkpoint` the run begins from its start.

    `after_kill`: the invocation before this one never released the lock. It was killed, perhaps by the step that comes
    next. `event` is the body of the job's message, with fields of the job's own, if it has any.
    """

    scheduled_time: datetime
    event: Mapping[str, Any]
    checkpoint: Item | None = None
    after_kill: bool = False


class Step(NamedTuple):
    """A part of a run, and the checkpoint after it.

    The last step of a run has the fields of its `report`. The `writes` take effect with the checkpoint, or with the
    report, and never if another run has the lock. `next_seconds` is the time that the next step may take, if
    that is more than twice as long as the steps so far.
    """

    checkpoint: Item
    report: Item | None = None
    next_seconds: float = 0
    writes: Sequence[Write] = ()


type Work = Callable[[Run], Iterator[Step]]
"""The work for a scheduled time, step by step.

If the function dies in a step, the step is done again, so all that a step does must be harmless twice. A step should
take a fraction of the function's timeout.
"""


class JobQueue(NamedTuple):
    """The queue of a job, and the dead-letter queue that it shares with the other jobs."""

    client: "SQSClient"
    url: str
    dead_letter_url: str

    @classmethod
    def from_environment(cls) -> "JobQueue":
        return cls(sqs_client(), os.environ["QUEUE_URL"], os.environ["DEAD_LETTER_QUEUE_URL"])


class Job(NamedTuple):
    """A function's job. `name` is also the `job` in its messages, and the name of its lock.

    Each invocation counts in one metric, which is its outcome: `Done`, `Continued`, `DoneBefore`, `InProgress`,
    `ReturnedToQueue` or `DeadLettered`. One that fails otherwise counts in none.
    """

    name: str
    work: Work
    locks: Locks
    queue: JobQueue
    logger: Logger
    metrics: Metrics

    def process(self, event: Any, context: LambdaContext) -> dict[str, list[dict[str, str]]]:
        """Works on the run of the event's one message. Returns the message's id if it comes again, as Lambda expects.

        The message comes again at once if the run goes on, and after the queue's visibility timeout if AWS fails or
        another run has the lock. One whose body no delivery can make a run of is a dead letter. Raises the errors of
        the work and of the lock's record: then the message comes again, too.
        """
        message = _message_in(event)
        try:
            outcome = self.run(message.body, message.sent_at, context)
            if outcome == "Continued":
                self._deliver_again_at_once(message)
        except InvalidEvent as error:
            outcome = self._bury(message, str(error), context)
        except PASSING as error:
            outcome = "ReturnedToQueue"
            about = {"message_id": message.message_id, "reason": str(error)}
            self.logger.warning(outcome, extra=about, exc_info=True)
        self.metrics.add_metric(outcome, MetricUnit.Count, 1)
        comes_again = outcome in {"Continued", "InProgress", "ReturnedToQueue"}
        return {"batchItemFailures": [{"itemIdentifier": message.message_id}] if comes_again else []}

    def run(self, body: str, sent_at: datetime, context: LambdaContext) -> str:
        """Works on the run that a message asks for, until it is done or time is short.

        Returns the outcome. It is InProgress if another run has the lock: that one may be at work, or was killed and
        its lease isn't over.

        Raises InvalidEvent; LockLost, if this invocation was paused for longer than its lease, and another took the
        lock over; and the errors of the work.
        """
        event = event_in(body, self.name)
        run = Run(scheduled_time_of(event, sent_at), event)
        window = run.scheduled_time.isoformat()
        about = {"job": self.name, "scheduled_time": window}
        why = f"for {window}, request {context.aws_request_id}"
        with contextlib.ExitStack() as held:
            once = self.locks.once(self.name, window, lease_seconds=lease_seconds_of(context), why=why)
            try:
                lock = held.enter_context(once)
            except (WindowDone, WindowForgotten) as error:
                return self._ended("DoneBefore", about, str(error))
            except LockTaken as error:
                return self._ended("InProgress", about, str(error))
            self.logger.info("started", extra=about | {"token": lock.token, "checkpoint": lock.checkpoint})
            run = run._replace(checkpoint=copied(lock.checkpoint), after_kill=lock.taken_over)
            is_done = self._do_steps(run, lock, Deadline.of_invocation(context, RESERVED_SECONDS))
        return self._ended("Done" if is_done else "Continued", about)

    def _ended(self, outcome: str, about: dict[str, str], reason: str = "") -> str:
        self.logger.info(outcome, extra=about | ({"reason": reason} if reason else {}))
        return outcome

    def _do_steps(self, run: Run, lock: Lock, deadline: Deadline) -> bool:
        """Whether the run is done. If time is short for a further step, the lock is released after the checkpoint.

        The run's record is written in the transaction that completes the scheduled time.
        """
        longest_step_seconds, started = 0.0, time.monotonic()
        for step in self.work(run):
            if step.report is not None:
                lock.complete(self._record(run, step.report), *step.writes)
                return True
            assert step.checkpoint != lock.checkpoint, f"{self.name}: a step without progress, at {step.checkpoint}"
            lock.save_checkpoint(step.checkpoint, *step.writes)
            longest_step_seconds = max(longest_step_seconds, time.monotonic() - started)
            if deadline.remaining_seconds < max(2 * longest_step_seconds, step.next_seconds):
                lock.release()
                return False
            started = time.monotonic()
        raise AssertionError(f"{self.name}: no step said that it is the last")

    def _record(self, run: Run, report: Item) -> Put:
        now = self.locks.now()
        finished_at = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
        fields = report | {"finished_at": finished_at, "expires_at": int(now) + KEPT_SECONDS}
        return Put(key(self.locks.table, lock_key=f"{self.name} {run.scheduled_time.isoformat()}"), fields)

    def _bury(self, message: QueueMessage[Any], reason: str, context: LambdaContext) -> str:
        """Sends the message to the dead-letter queue. It comes again if that queue doesn't take it."""
        message.disposition = Dead(Refusal.INVALID_EVENT, reason)
        deadline, url = Deadline.of_invocation(context, RESERVED_SECONDS), self.queue.dead_letter_url
        send_dead_letters(self.queue.client, url, [message], context.aws_request_id, deadline)
        outcome = "DeadLettered" if isinstance(message.disposition, Dead) else "ReturnedToQueue"
        self.logger.error(outcome, extra={"message_id": message.message_id, "reason_code": Refusal.INVALID_EVENT})
        return outcome

    def _deliver_again_at_once(self, message: QueueMessage[Any]) -> None:
        self.queue.client.change_message_visibility(
            QueueUrl=self.queue.url, ReceiptHandle=message.receipt_handle, VisibilityTimeout=0
        )


def _message_in(event: Any) -> QueueMessage[Any]:
    """The event's only message. Raises NotAnSqsEvent and NotAnSqsRecord."""
    match event:
        case {"Records": [record]}:
            message_id_of(record, 0)
            return message_from_record(record)
    raise NotAnSqsEvent('Records: expected one record, as the template\'s "BatchSize: 1" has it')


def lease_seconds_of(context: LambdaContext) -> float:
    """A lease that outlives the invocation: Lambda ends the holder first, so no thread needs to prolong the lease."""
    remaining_milliseconds: int = context.get_remaining_time_in_millis()
    return remaining_milliseconds / 1000 + OVERRUN_SECONDS


def event_in(body: str, job: str) -> Mapping[str, Any]:
    """The fields of a message's body. Raises InvalidEvent if it isn't this job's."""
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidEvent(f"expected JSON, got {_shown(body)}") from None
    fields = event if isinstance(event, dict) else {}
    if fields.get("job") != job:
        raise InvalidEvent(f"job: expected {job!r}, got {_shown(fields.get('job'))}")
    return fields


def scheduled_time_of(event: Mapping[str, Any], sent_at: datetime) -> datetime:
    """In UTC. Raises InvalidEvent, also for a time that is far from the message's, unless it has `"force": true`.

    On a local AWS that left the placeholder as it is, the time is the beginning of the message's day: a job runs once.
    """
    text = event.get("scheduled_time")
    if text == UNRESOLVED and os.environ.get("AWS_ENDPOINT_URL"):
        return sent_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    scheduled_time = _time_of(text)
    if not flag_of(event, "force") and (refusal := why_not_begun(scheduled_time, sent_at)):
        raise InvalidEvent(refusal)
    return scheduled_time


def flag_of(event: Mapping[str, Any], name: str) -> bool:
    """The field of this name; false if the event has none. Raises InvalidEvent."""
    flag = event.get(name, False)
    if not isinstance(flag, bool):
        raise InvalidEvent(f"{name}: expected true or false, got {_shown(flag)}")
    return flag


def why_not_begun(scheduled_time: datetime, sent_at: datetime) -> str | None:
    """A sentence if a message for this time, sent then, begins no run without `"force": true`; else None.

    A message may wait on its queue for days, so its delivery has no such limits.
    """
    if -LONGEST_LEAD <= sent_at - scheduled_time <= LONGEST_DELAY:
        return None
    expected = "expected a time at most a day before the message was sent and at most 5 minutes after"
    got = f"got {scheduled_time.isoformat()}, sent at {sent_at.isoformat(timespec='seconds')}"
    return f'scheduled_time: {expected}, and the event has no "force": true; {got}'


def _time_of(text: Any) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo:
            return parsed.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    expected = 'expected an ISO 8601 time with its offset, such as "2026-02-28T02:00:00Z"'
    raise InvalidEvent(f"scheduled_time: {expected}, got {_shown(text)}")


def _shown(value: object) -> str:
    """The beginning of the value: the log has the text of an exception, and shouldn't have a whole event."""
    return reprlib.repr(value)[:40]
