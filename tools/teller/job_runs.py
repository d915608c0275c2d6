"""Runs a scheduled job by hand: sends its message, and follows the run until it is finished."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from conditional_writes import Item
from tools.teller.deployment import Deployment
from tools.teller.failures import Failure
from tools.teller.job_records import JobInfo, RunOfJob, read_records

LOOKS_EVERY_SECONDS = 2.0
STALLED_AFTER_SECONDS = 20 * 60
"""Longer than the pause between two deliveries of a message, after which a run that was killed or failed goes on."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come. `checkpoint` is None before its first step."""

    run: RunOfJob
    checkpoint: Item | None
    token: Any


def begin(deployment: Deployment, job: JobInfo, event: Mapping[str, Any]) -> None:
    """Sends the message, as EventBridge Scheduler does. Raises Failure for an answer that doesn't name it."""
    url = deployment[job.queue_output]
    answer = deployment.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(event))
    if "MessageId" not in answer:  # as in the page of a proxy
        raise Failure(f"the queue {url} didn't say that it took the message")


def follow(
    deployment: Deployment,
    job: JobInfo,
    scheduled_time: str,
    show: Callable[[Progress], None] = lambda progress: None,
) -> RunOfJob:
    """The run once it is finished. Calls `show` every two seconds. Raises Failure if nothing happens for 20 minutes."""
    before: Progress | None = None
    changed_at = time.monotonic()
    while True:
        progress = progress_of(deployment, job, scheduled_time)
        show(progress)
        if progress.run.finished_at:
            return progress.run
        if progress != before:
            before, changed_at = progress, time.monotonic()
        elif time.monotonic() > changed_at + STALLED_AFTER_SECONDS:
            raise Failure(
                f"the run of {job.name} for {scheduled_time} hasn't come any further for "
                f"{STALLED_AFTER_SECONDS // 60:.0f} minutes. Its message stays on the job's queue and comes again: "
                "`teller jobs` shows who holds the lock, the job's log what failed",
                "STALLED",
            )
        time.sleep(LOOKS_EVERY_SECONDS)


def progress_of(deployment: Deployment, job: JobInfo, scheduled_time: str) -> Progress:
    """As the records are now: one request."""
    name = f"{job.name} {scheduled_time}"
    found = read_records(deployment, [job.name, name])
    lock = found[job.name] or {}
    checkpoint = None
    match lock.get("checkpoint"):
        case {"window": window, "saved": dict(saved)} if window == scheduled_time:
            checkpoint = saved
    return Progress(RunOfJob(scheduled_time, found[name]), checkpoint, lock.get("token"))


def event_of(job: JobInfo, scheduled_time: datetime, **flags: bool) -> dict[str, Any]:
    """The body of the job's message. A flag that is false isn't in it."""
    about = {"job": job.name, "scheduled_time": scheduled_time.astimezone(UTC).isoformat()}
    return about | {name: True for name, is_set in flags.items() if is_set}
