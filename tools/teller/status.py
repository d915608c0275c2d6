"""`teller status`: one screen about a stack, and what isn't well."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import typer

from tools.teller.alarms import Alarms, alarms_of
from tools.teller.deployment import Deployment
from tools.teller.figures import BECAME, Figures, figures
from tools.teller.job_records import JOBS, JobRecords, LockRecord, is_enabled, read_job
from tools.teller.letters import QueueName
from tools.teller.message_queues import Counts, MessageQueue, counts_of
from tools.teller.operator import Operator, subcommand
from tools.teller.printed_tables import Rows, table
from tools.teller.times import TO_THE_MINUTE, duration, shown
from tools.teller.words import counted

UNKNOWN = "not known here"


def add_to(app: typer.Typer) -> None:
    subcommand(app)(status)


class Status(NamedTuple):
    """The state of a stack at the time `now`. The dead letters are by queue."""

    now: datetime
    created_at: datetime
    queues: dict[str, Counts]
    dead_letters: dict[str, Counts]
    alarms: Alarms
    jobs: list[JobRecords]
    enabled: dict[str, bool]
    figures: Figures

    def troubles(self) -> Iterator[str]:
        """A sentence for each thing that isn't well, with the command that says more."""
        for queue, counts in self.dead_letters.items():
            if counts.total:
                yield f"{counted(counts.total, 'dead letter')} of {queue}: teller dead-letters {queue}"
        for alarm in self.alarms.ringing:
            yield f"{alarm.name} rings: docs/operations.md#alarms"
        for job in self.jobs:
            yield from self._troubles_of(job)

    def _troubles_of(self, job: JobRecords) -> Iterator[str]:
        name = job.job.name
        if job.lock.unreadable:
            yield f"the lock {job.lock.name!r} can't be taken: {job.lock.unreadable}"
        elif job.lock.state(self.now) == "lapsed":
            yield f"the lock {job.lock.name!r} has lapsed, so its holder was killed: teller jobs"
        done_at = job.last_done.finished_at if job.last_done else None
        if self.enabled[name] and (done_at or self.created_at) < self.now - job.job.late_after:
            yield f"{name} is late: no run was done in {duration(job.job.late_after)}: teller jobs"
        for trouble in job.last_done.troubles if job.last_done else ():
            yield f"{name}: the last run {trouble}: teller jobs"

    def answer(self) -> dict[str, Any]:
        troubles = list(self.troubles())
        return {
            "at": self.now,
            "well": not troubles,
            "not_well": troubles,
            "queues": {
                queue: counts._asdict()
                | {
                    "oldest_seconds": (self.figures.oldest_message_seconds or {}).get(queue),
                    "came_in_the_last_hour": (self.figures.came or {}).get(queue),
                }
                for queue, counts in self.queues.items()
            },
            "dead_letters": {queue: counts.total for queue, counts in self.dead_letters.items()},
            "alarms": self.alarms._asdict() | {"ringing": [alarm._asdict() for alarm in self.alarms.ringing]},
            "jobs": {job.job.name: self._job_answer(job) for job in self.jobs},
            "became_in_the_last_hour": self.figures.became,
            "oldest_outcome_seconds": self.figures.oldest_outcome_seconds,
        }

    def _job_answer(self, job: JobRecords) -> dict[str, Any]:
        return {
            "is_enabled": self.enabled[job.job.name],
            "last_done": job.last_done.as_json() if job.last_done else None,
            "lock": job.lock.as_json(self.now),
        }


def status(operator: Operator) -> None:
    """Show on one screen whether the stack is well.

    The screen has the queues and the dead letters, the alarms that ring, the jobs' last times and locks, and what came
    and became of it in the last hour. Exit status 1: there are dead letters, an alarm rings, a job is late, its lock
    has lapsed, or its last run found mismatches or skipped accounts.
    """
    found = status_of(operator.deployment, datetime.now(UTC))
    troubles = list(found.troubles())
    operator.show(found.answer(), *_screen(operator.deployment, found, troubles))
    if troubles:
        raise typer.Exit(1)


def status_of(deployment: Deployment, now: datetime) -> Status:
    return Status(
        now,
        deployment.created_at,
        {queue.value: counts_of(deployment, queue.output) for queue in MessageQueue},
        {queue.value: counts_of(deployment, queue.output) for queue in QueueName},
        alarms_of(deployment),
        [read_job(deployment, job) for job in JOBS.values()],
        {name: is_enabled(deployment, job) for name, job in JOBS.items()},
        figures(deployment, now),
    )


def _screen(deployment: Deployment, found: Status, troubles: Sequence[str]) -> Iterator[str | Rows]:
    well = "not well" if troubles else "well"
    yield f"{deployment.name} at {shown(found.now)} UTC: {well}"
    yield ""
    yield _queues_table(found)
    yield ""
    yield _words_table(deployment, found)
    yield ""
    yield _jobs_table(found)
    if troubles:
        yield ""
        yield "Not well:"
        yield from (f"- {trouble}" for trouble in troubles)


def _queues_table(found: Status) -> Rows:
    numbers = ("waiting", "in flight", "delayed", "oldest", "came, last hour")
    rows = table("queue", *numbers, right=numbers)
    ages, came = found.figures.oldest_message_seconds, found.figures.came
    for queue, counts in found.queues.items():
        age = UNKNOWN if ages is None else "" if ages[queue] is None else f"{ages[queue]:,} s"
        rows.add_row(queue, *(f"{count:,}" for count in counts), age, UNKNOWN if came is None else f"{came[queue]:,}")
    return rows


def _words_table(deployment: Deployment, found: Status) -> Rows:
    words = Rows(box=None, show_header=False, padding=(0, 2, 0, 0))
    words.add_column(no_wrap=True)
    words.add_column(overflow="fold")
    for kind in BECAME:
        names = BECAME[kind].metrics
        became = [f"{count:,} {names[metric]}" for metric, count in found.figures.became[kind].items() if count]
        words.add_row(f"{kind}, last hour", ", ".join(became) or "none")
    age = found.figures.oldest_outcome_seconds
    if deployment.is_local:
        words.add_row("oldest outcome", UNKNOWN)
    else:
        words.add_row("oldest outcome", "none was published lately" if age is None else f"{age:,} s when published")
    dead = [f"{counts.total:,} of {queue}" for queue, counts in found.dead_letters.items() if counts.total]
    words.add_row("dead letters", ", ".join(dead) or "none")
    alarms = found.alarms
    if deployment.is_local and not alarms.ringing:
        words.add_row("alarms", f"{alarms.number} that a local AWS can have. It doesn't evaluate them")
    else:
        without_data = f", {alarms.without_data} have no data yet" if alarms.without_data else ""
        words.add_row("alarms", f"{len(alarms.ringing) or 'none'} of {alarms.number} ringing{without_data}")
    for alarm in alarms.ringing:
        words.add_row("", f"{alarm.name} since {shown(alarm.since)}")
    return words


def _jobs_table(found: Status) -> Rows:
    rows = table("job", "last done (UTC)", "scheduled for", "lock")
    for job in found.jobs:
        last = job.last_done
        rows.add_row(
            job.job.name if found.enabled[job.job.name] else f"{job.job.name} (schedule off)",
            shown(last.finished_at)[:TO_THE_MINUTE] if last else "never",
            shown(last.scheduled_time)[:TO_THE_MINUTE] if last else "",
            _lock_words(job.lock, found.now),
        )
    return rows


def _lock_words(lock: LockRecord, now: datetime) -> str:
    state = lock.state(now)
    return f"held until {shown(lock.leased_until)[:TO_THE_MINUTE].split()[1]}" if state == "held" else state
