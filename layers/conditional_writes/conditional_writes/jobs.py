"""A scheduled job: its work done once for each scheduled time, under a lock, in as many invocations as it takes.

EventBridge Scheduler delivers at least once, and Lambda calls again for what failed. So an event may come twice, at
once or hours later, and the function may die anywhere in between: the lock's record knows which times are done, and how
far the one at hand has come.
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

from conditional_writes.client import deadline_of, lambda_client
from conditional_writes.deadline import Deadline
from conditional_writes.items import Item, copied
from conditional_writes.locks import Lock, Locks, LockTaken, WindowDone, lease_seconds_of
from conditional_writes.requests import Write

UNRESOLVED = "<aws.scheduler.scheduled-time>"
"""What stands in a schedule's input for the time. A local AWS may leave it there; on AWS it is an invalid event's."""


class InvalidEvent(Exception):
    """The event is no scheduled job's: its text says which field is wrong, and what was expected."""


class Step(NamedTuple):
    """What a job did: where it is now, and what to write together with that. With the `last` one it is done."""

    place: Item
    writes: Sequence[Write] = ()
    last: bool = False


type Work = Callable[[datetime, Item | None], Iterator[Step]]
"""The work for a scheduled time, step by step, from the place that the one before kept; None: from the start.

A step is done again where the function died in it, so what it does besides its writes must be harmless twice. It should
take a fraction of the function's timeout.
"""


class Job(NamedTuple):
    """A function's job, and what it takes to run it. `name` is the lock's, too.

    Each invocation is counted in a metric: `Done`, `GoesOn`, `DoneBefore`, or `Refused`.
    """

    name: str
    work: Work
    locks: Locks
    logger: Logger
    metrics: Metrics

    def run(self, event: Any, context: LambdaContext) -> dict[str, str]:
        """Does what time there is for, and calls the function again for the rest. Returns what became of it.

        Raises InvalidEvent; LockTaken, naming the holder, while another works: Lambda tries again later; and LockLost
        where this one was paused for so long that another took over.
        """
        scheduled_time = self._scheduled_time(event)
        window = scheduled_time.isoformat()
        about = {"job": self.name, "scheduled_time": window}
        why = f"for {window}, request {context.aws_request_id}"
        with contextlib.ExitStack() as held:
            once = self.locks.once(self.name, window, lease_seconds=lease_seconds_of(context), why=why)
            try:
                lock = held.enter_context(once)
            except WindowDone as error:
                return about | {"outcome": self._came_to("DoneBefore", about), "reason": str(error)}
            except LockTaken as error:
                self._came_to("Refused", about | {"reason": str(error)})
                raise
            self.logger.info("started", extra=about | {"token": lock.token, "place": lock.checkpoint})
            done = self._work_on(lock, scheduled_time, deadline_of(context))
        if not done:
            _call_again(event, context)
        return about | {"outcome": self._came_to("Done" if done else "GoesOn", about)}

    def _came_to(self, outcome: str, about: dict[str, str]) -> str:
        self.logger.info(outcome, extra=about)
        self.metrics.add_metric(outcome, MetricUnit.Count, 1)
        return outcome

    def _work_on(self, lock: Lock, scheduled_time: datetime, deadline: Deadline) -> bool:
        """Whether it is done. If not, no time was left for a step: the place is kept, and the lock given back."""
        longest_step_seconds, started = 0.0, time.monotonic()
        for step in self.work(scheduled_time, copied(lock.checkpoint)):
            if step.last:
                lock.complete(*step.writes)
                return True
            assert step.place != lock.checkpoint, f"{self.name}: a step that leaves it in its place, {step.place}"
            lock.save_checkpoint(step.place, *step.writes)
            longest_step_seconds = max(longest_step_seconds, time.monotonic() - started)
            if deadline.remaining_seconds < 2 * longest_step_seconds:
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
            time_there = datetime.fromisoformat(scheduled_time)
            if time_there.tzinfo:
                return time_there.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            pass
        expected = 'expected an ISO 8601 time with its offset, such as "2026-02-28T02:00:00Z"'
        raise InvalidEvent(f"scheduled_time: {expected}, got {_shown(scheduled_time)}")


def _shown(value: object) -> str:
    """Enough to recognise it by: a whole event in an exception is a whole event in the log."""
    return reprlib.repr(value)[:40]


def _call_again(event: Any, context: LambdaContext) -> None:
    """With the same event, not waiting for it.

    Lambda takes that for a loop, and drops the 17th call of a chain, unless the function's `RecursiveLoop` is `Allow`:
    https://aws.amazon.com/blogs/compute/detecting-and-stopping-recursive-loops-in-aws-lambda-functions/
    """
    lambda_client().invoke(
        FunctionName=context.invoked_function_arn, InvocationType="Event", Payload=json.dumps(event).encode()
    )
