"""Runs a scheduled job by hand: invokes its function, and follows the run until it is finished."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from conditional_writes import Item
from tools.teller.deployment import Deployment
from tools.teller.failures import Failure
from tools.teller.job_records import JobInfo, RunOfJob, read_records, read_runs
from workers.segments import Segment

LOOKS_EVERY_SECONDS = 2.0
STALLED_AFTER_SECONDS = 8 * 60
"""Longer than a lease and Lambda's retries, after which a run that was killed goes on."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come. `done` of its segments are done, and `checkpoints` has those of the others."""

    run: RunOfJob
    segments: int
    done: int
    checkpoints: list[Item]
    tokens: list[Any]


def begin(deployment: Deployment, job: JobInfo, event: Mapping[str, Any]) -> "Future[dict[str, Any]]":
    """Invokes the job's function, in a thread that doesn't keep the process from ending."""
    answer: Future[dict[str, Any]] = Future()

    def invoke() -> None:
        try:
            answer.set_result(deployment.invoke(job.function_output, event))
        except BaseException as error:  # noqa: BLE001 (it is raised where the answer is taken)
            answer.set_exception(error)

    threading.Thread(target=invoke, daemon=True).start()
    return answer


def follow(
    deployment: Deployment,
    job: JobInfo,
    scheduled_time: str,
    answer: "Future[dict[str, Any]]",
    show: Callable[[Progress], None] = lambda progress: None,
) -> tuple[dict[str, Any], RunOfJob]:
    """The function's answer, and the run once it is finished. Calls `show` every two seconds.

    A run that was done before its records were kept has no report.

    Raises Failure if the function fails, and if nothing happens for eight minutes.
    """
    before: Progress | None = None
    changed_at = time.monotonic()
    while True:
        wait([answer], LOOKS_EVERY_SECONDS)
        answered = answer.result() if answer.done() else None
        progress = progress_of(deployment, job, scheduled_time)
        show(progress)
        if answered and (progress.run.finished_at or answered["outcome"] == "DoneBefore"):
            return answered, progress.run
        if progress != before or answered is None:
            before, changed_at = progress, time.monotonic()
        elif time.monotonic() > changed_at + STALLED_AFTER_SECONDS:
            raise Failure(
                f"the run of {job.name} for {scheduled_time} hasn't come any further for "
                f"{STALLED_AFTER_SECONDS // 60} minutes. `teller jobs` shows who holds its lock",
                "STALLED",
            )
        if answered:
            time.sleep(LOOKS_EVERY_SECONDS)


def progress_of(deployment: Deployment, job: JobInfo, scheduled_time: str) -> Progress:
    """As the records are now: two requests."""
    [run] = read_runs(deployment, job, [scheduled_time])
    segments = int((run.record or {}).get("segments", 1))
    numbered = [Segment(number, segments) for number in range(1, segments + 1)]
    locks = [segment.lock_of(job.name) for segment in numbered]
    parts = [f"{job.name} {scheduled_time} {segment}" for segment in numbered]
    found = read_records(deployment, [*locks, *parts])
    records = [record for record in map(found.get, locks) if record]
    return Progress(
        run,
        segments,
        sum(found[part] is not None for part in parts),
        [checkpoint["saved"] for checkpoint in _checkpoints(records) if checkpoint.get("window") == scheduled_time],
        [record.get("token") for record in records],
    )


def _checkpoints(records: list[Item]) -> list[Item]:
    found = [record.get("checkpoint") for record in records]
    return [checkpoint for checkpoint in found if isinstance(checkpoint, dict)]


def event_of(job: JobInfo, scheduled_time: datetime, **flags: bool) -> dict[str, Any]:
    """The function's event. A flag that is false isn't in it."""
    about = {"job": job.name, "scheduled_time": scheduled_time.astimezone(UTC).isoformat()}
    return about | {name: True for name, is_set in flags.items() if is_set}
