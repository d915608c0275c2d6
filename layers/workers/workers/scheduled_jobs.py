"""Runs a scheduled job once for each scheduled time, in segments under locks, in as many invocations as it takes.

The jobs themselves are `functions/<job>/app.py`, their schedules are in template.yaml: docs/extending.md.

EventBridge Scheduler delivers an event at least once, and Lambda retries a failed invocation. So an event may come
twice, at once or hours later, and the function may die on any line. A lock's record has the scheduled times that its
segment is done for, and the checkpoint of the one that isn't. The run's record says whether all segments are done.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline, Item
from conditional_writes.core.items import copied
from conditional_writes.locks import Lock, Locks, LockTaken, WindowDone, WindowForgotten
from workers.clients import lambda_client
from workers.invocation import deadline_of, lease_seconds_of
from workers.job_events import InvalidEvent, fields_of, flag_of, scheduled_time_of, segment_of, why_not_begun
from workers.segments import Report, RunRecord, Segment

UNRESOLVED = "<aws.scheduler.scheduled-time>"
"""The placeholder for the time in a schedule's input. A local AWS may leave it as it is; on AWS that is invalid."""


class Run(NamedTuple):
    """The state of a job when an invocation begins. Without a `checkpoint` the segment begins from its start.

    `after_kill`: the run before this one never released the lock. It was killed, perhaps by the step that comes next.
    `event` is the function's event, with fields of the job's own, if it has any.
    """

    scheduled_time: datetime
    segment: Segment
    event: Mapping[str, Any]
    checkpoint: Item | None = None
    after_kill: bool = False


class Step(NamedTuple):
    """A part of a job, and the checkpoint after it.

    The `last` step completes the segment: its checkpoint is the segment's part of the report. `next_seconds` is the
    time that the next step may take, if that is more than twice as long as the steps so far.
    """

    checkpoint: Item
    last: bool = False
    next_seconds: float = 0


type Work = Callable[[Run], Iterator[Step]]
"""The work on a segment for a scheduled time, step by step.

If the function dies in a step, the step is done again, so all that a step does must be harmless twice. A step should
take a fraction of the function's timeout.
"""


class Job(NamedTuple):
    """A function's job. `name` is also the `job` in its events, and the names of its locks begin with it.

    A new run has so many `segments`. `report` makes the report's fields of the last checkpoint of each segment.

    An invocation counts in one metric: `Done`, `Continued`, `DoneBefore`, `InProgress` or `Refused`. One that fails
    otherwise counts in none. However many segments a run has, one of its invocations counts in `Done`.
    """

    name: str
    work: Work
    report: Report
    segments: int
    locks: Locks
    logger: Logger
    metrics: Metrics

    def run(self, event: Any, context: LambdaContext) -> dict[str, str]:
        """Begins the run for the event's scheduled time, or works on a segment of it.

        If the run has several segments, the function is invoked for each, with `segment` and `segments` in the event.

        An event of a time in the future, or of long ago, begins no run unless it has `"force": true`. A run that was
        begun goes on whatever its time.

        Returns `{"job": …, "scheduled_time": …, "outcome": …}`. Raises InvalidEvent, and the errors of `_work_on`.
        """
        fields = fields_of(event, self.name)
        scheduled_time, segment, forced = self._scheduled_time(fields), segment_of(fields), flag_of(fields, "force")
        window = scheduled_time.isoformat()
        about = {"job": self.name, "scheduled_time": window} | ({"segment": str(segment)} if segment else {})
        record = RunRecord(self.locks, self.name, window)
        refusal = None if forced else why_not_begun(scheduled_time, self._now())
        if refusal and not record.is_begun():
            raise InvalidEvent(refusal)
        begun = record.begin(self.segments)
        if "finished_at" in begun:
            return self._ended("DoneBefore", about, f"the run was finished at {begun['finished_at']}")
        segments = int(begun["segments"])
        if segment and segment.of != segments:
            raise InvalidEvent(f"segments: expected {segments}, as the run was begun, got {segment.of}")
        if segment or segments == 1:
            return self._work_on(Run(scheduled_time, segment or Segment(), event), record, about, context)
        for number in range(1, segments + 1):
            one = {"scheduled_time": window, "segment": number, "segments": segments}
            _invoke_again(event | one, context)
        return self._ended("Continued", about)

    def _work_on(self, run: Run, record: RunRecord, about: dict[str, str], context: LambdaContext) -> dict[str, str]:
        """Works until the segment is done or time is short, and then invokes the function again for the rest.

        The invocation that finds all segments done finishes the run: its outcome is Done. If that invocation is killed
        before, Lambda's retry of its event finds its segment done, and finishes the run.

        A duplicate of an event whose run is in progress has nothing to do: its outcome is InProgress. A retry of the
        event whose own run holds the lock is no duplicate, because that run was killed: Lambda's retries of an event
        have its request id.

        Raises LockTaken, which names the holder, if the lock is held for another scheduled time, or by a killed run of
        this event (Lambda retries); and LockLost if this invocation was paused for longer than its lease, and another
        took the lock over.
        """
        segment, window = run.segment, run.scheduled_time.isoformat()
        name = segment.lock_of(self.name)
        why = _why(window, context.aws_request_id)
        with contextlib.ExitStack() as held:
            once = self.locks.once(name, window, lease_seconds=lease_seconds_of(context), why=why)
            try:
                lock = held.enter_context(once)
            except (WindowDone, WindowForgotten) as error:
                outcome = record.finish(segment.of, self.report)
                return self._ended("Done" if outcome == "Done" else "DoneBefore", about, str(error))
            except LockTaken as error:
                holder_why = str(error.holder.get("why"))
                if holder_why.startswith(_why(window, "")) and holder_why != why:
                    return self._ended("InProgress", about, str(error))
                self._ended("Refused", about, str(error))
                raise
            self.logger.info("started", extra=about | {"token": lock.token, "checkpoint": lock.checkpoint})
            run = run._replace(checkpoint=copied(lock.checkpoint), after_kill=lock.taken_over)
            done = self._do_steps(run, lock, record, deadline_of(context))
        if done:
            return self._ended(record.finish(segment.of, self.report), about)
        _invoke_again(run.event, context)
        return self._ended("Continued", about)

    def _ended(self, outcome: str, about: dict[str, str], reason: str = "") -> dict[str, str]:
        """The function's answer, after the outcome is logged and counted."""
        because = {"reason": reason} if reason else {}
        self.logger.info(outcome, extra=about | because)
        self.metrics.add_metric(outcome, MetricUnit.Count, 1)
        return about | {"outcome": outcome} | because

    def _do_steps(self, run: Run, lock: Lock, record: RunRecord, deadline: Deadline) -> bool:
        """Whether the segment is done. If time is short for a further step, the lock is released after the checkpoint.

        After a kill that is so after one step, because Lambda's retries of this event may be used up: the next
        invocation has retries of its own.
        """
        longest_step_seconds, started = 0.0, time.monotonic()
        for step in self.work(run):
            if step.last:
                lock.complete(record.part(run.segment, step.checkpoint))
                return True
            assert step.checkpoint != lock.checkpoint, f"{self.name}: a step without progress, at {step.checkpoint}"
            lock.save_checkpoint(step.checkpoint)
            longest_step_seconds = max(longest_step_seconds, time.monotonic() - started)
            if lock.taken_over or deadline.remaining_seconds < max(2 * longest_step_seconds, step.next_seconds):
                lock.release()
                return False
            started = time.monotonic()
        raise AssertionError(f"{self.name}: no step said that it is the last")

    def _scheduled_time(self, fields: Mapping[str, Any]) -> datetime:
        if fields.get("scheduled_time") == UNRESOLVED and os.environ.get("AWS_ENDPOINT_URL"):
            self.logger.warning("scheduled_time isn't resolved: taken for today, 0:00 UTC, so the job runs once a day")
            return self._now().replace(hour=0, minute=0, second=0, microsecond=0)
        return scheduled_time_of(fields)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.locks.now(), UTC)


def _why(window: str, request_id: str) -> str:
    """The holder's `why` in the lock's record. It tells a duplicate event from a retry."""
    return f"for {window}, request {request_id}"


def _invoke_again(event: Any, context: LambdaContext) -> None:
    """Invokes the function asynchronously with this event: the same again, or that of a segment.

    Lambda takes a chain of such calls for a loop and drops the 17th, unless the function's `RecursiveLoop` is `Allow`:
    https://aws.amazon.com/blogs/compute/detecting-and-stopping-recursive-loops-in-aws-lambda-functions/
    """
    lambda_client().invoke(
        FunctionName=context.invoked_function_arn, InvocationType="Event", Payload=json.dumps(event).encode()
    )
