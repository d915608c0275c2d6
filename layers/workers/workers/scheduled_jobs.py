"""Runs a scheduled job once for each scheduled time, under a lock, in as many invocations as it takes.

The jobs themselves are `functions/<job>/app.py`, their schedules are in template.yaml: docs/extending.md.

EventBridge Scheduler delivers an event at least once, and Lambda retries a failed invocation. So an event may come
twice, at once or hours later, and the function may die on any line. The lock's record has the scheduled times that are
done, and the checkpoint of the one that isn't.
"""

import contextlib
import json
import os
import reprlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline, Item
from conditional_writes.items import copied
from conditional_writes.locks import Lock, Locks, LockTaken, WindowDone
from conditional_writes.requests import Write
from workers.clients import lambda_client
from workers.invocation import deadline_of, lease_seconds_of

UNRESOLVED = "<aws.scheduler.scheduled-time>"
"""The placeholder for the time in a schedule's input. A local AWS may leave it as it is; on AWS that is invalid."""


class InvalidEvent(Exception):
    """The event isn't this scheduled job's: the text says which field is wrong, and what was expected."""


class Run(NamedTuple):
    """The state of a job when an invocation begins. Without a `checkpoint` the job begins from the start.

    `after_kill`: the run before this one never released the lock. It was killed, perhaps by the step that comes next.
    """

    scheduled_time: datetime
    checkpoint: Item | None
    after_kill: bool = False


class Step(NamedTuple):
    """A part of a job: the checkpoint after it, and the writes that commit with the checkpoint.

    The `last` step completes the job: its checkpoint is not saved. `next_seconds` is the time that the next step may
    take, if that is more than twice as long as the steps so far.
    """

    checkpoint: Item
    writes: Sequence[Write] = ()
    last: bool = False
    next_seconds: float = 0


type Work = Callable[[Run], Iterator[Step]]
"""The work for a scheduled time, step by step.

If the function dies in a step, the step is done again. Its writes take effect once; all else that it does must be
harmless twice. A step should take a fraction of the function's timeout.
"""


class Job(NamedTuple):
    """A function's job. `name` is also the name of its lock, and of the `job` in its events.

    An invocation counts in one metric: `Done`, `Continued`, `DoneBefore`, `InProgress` or `Refused`. One that fails
    otherwise counts in none.
    """

    name: str
    work: Work
    locks: Locks
    logger: Logger
    metrics: Metrics

    def run(self, event: Any, context: LambdaContext) -> dict[str, str]:
        """Works until the job is done or time is short, and then invokes the function again for the rest.

        A duplicate of an event whose run is in progress has nothing to do: its outcome is InProgress. A retry of the
        event whose own run holds the lock is no duplicate, because that run was killed: Lambda's retries of an event
        have its request id.

        Returns `{"job": …, "scheduled_time": …, "outcome": …}`. Raises InvalidEvent; LockTaken, which names the holder,
        if the lock is held for another scheduled time, or by a killed run of this event (Lambda retries); and LockLost
        if this invocation was paused for longer than its lease, and another took the lock over.
        """
        scheduled_time = self._scheduled_time(event)
        window = scheduled_time.isoformat()
        about = {"job": self.name, "scheduled_time": window}
        why = _why(window, context.aws_request_id)
        with contextlib.ExitStack() as held:
            once = self.locks.once(self.name, window, lease_seconds=lease_seconds_of(context), why=why)
            try:
                lock = held.enter_context(once)
            except WindowDone as error:
                return about | {"outcome": self._count("DoneBefore", about), "reason": str(error)}
            except LockTaken as error:
                holder_why = str(error.holder.get("why"))
                reason = {"reason": str(error)}
                if holder_why.startswith(_why(window, "")) and holder_why != why:
                    return about | {"outcome": self._count("InProgress", about | reason)} | reason
                self._count("Refused", about | reason)
                raise
            self.logger.info("started", extra=about | {"token": lock.token, "checkpoint": lock.checkpoint})
            done = self._work_on(lock, scheduled_time, deadline_of(context))
        if not done:
            _invoke_again(event, context)
        return about | {"outcome": self._count("Done" if done else "Continued", about)}

    def _count(self, outcome: str, about: dict[str, str]) -> str:
        self.logger.info(outcome, extra=about)
        self.metrics.add_metric(outcome, MetricUnit.Count, 1)
        return outcome

    def _work_on(self, lock: Lock, scheduled_time: datetime, deadline: Deadline) -> bool:
        """Whether the job is done. If time is short for a further step, the lock is released after the checkpoint.

        After a kill that is so after one step, because Lambda's retries of this event may be used up: the next
        invocation has retries of its own.
        """
        longest_step_seconds, started = 0.0, time.monotonic()
        for step in self.work(Run(scheduled_time, copied(lock.checkpoint), lock.taken_over)):
            if step.last:
                lock.complete(*step.writes)
                return True
            assert step.checkpoint != lock.checkpoint, f"{self.name}: a step without progress, at {step.checkpoint}"
            lock.save_checkpoint(step.checkpoint, *step.writes)
            longest_step_seconds = max(longest_step_seconds, time.monotonic() - started)
            if lock.taken_over or deadline.remaining_seconds < max(2 * longest_step_seconds, step.next_seconds):
                lock.release()
                return False
            started = time.monotonic()
        raise AssertionError(f"{self.name}: no step said that it is the last")

    def _scheduled_time(self, event: Any) -> datetime:
        fields = event if isinstance(event, dict) else {}
        if fields.get("job") != self.name:
            raise InvalidEvent(f"job: expected {self.name!r}, got {_shown(fields.get('job'))}")
        scheduled_time: Any = fields.get("scheduled_time")
        if scheduled_time == UNRESOLVED and os.environ.get("AWS_ENDPOINT_URL"):
            self.logger.warning("scheduled_time isn't resolved: taken for today, 0:00 UTC, so the job runs once a day")
            return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        try:
            parsed = datetime.fromisoformat(scheduled_time)
            if parsed.tzinfo:
                return parsed.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            pass
        expected = 'expected an ISO 8601 time with its offset, such as "2026-02-28T02:00:00Z"'
        raise InvalidEvent(f"scheduled_time: {expected}, got {_shown(scheduled_time)}")


def _why(window: str, request_id: str) -> str:
    """The holder's `why` in the lock's record. It tells a duplicate event from a retry."""
    return f"for {window}, request {request_id}"


def _shown(value: object) -> str:
    """The beginning of the value: the log has the text of an exception, and shouldn't have a whole event."""
    return reprlib.repr(value)[:40]


def _invoke_again(event: Any, context: LambdaContext) -> None:
    """Invokes the function asynchronously with the same event.

    Lambda takes a chain of such calls for a loop and drops the 17th, unless the function's `RecursiveLoop` is `Allow`:
    https://aws.amazon.com/blogs/compute/detecting-and-stopping-recursive-loops-in-aws-lambda-functions/
    """
    lambda_client().invoke(
        FunctionName=context.invoked_function_arn, InvocationType="Event", Payload=json.dumps(event).encode()
    )
