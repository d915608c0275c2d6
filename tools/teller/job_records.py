"""The records of a scheduled job in the Locks table: its lock, and its last runs.

`workers.scheduled_jobs` and `conditional_writes.locks` write these items. docs/tables.md describes them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from conditional_writes import Deadline, Item, key, read
from conditional_writes.locks.lock import why_unreadable
from tools.teller.deployment import Deployment, function_of
from tools.teller.words import counted

CLOCK_SKEW = timedelta(seconds=1)
"""A lease is taken over only so long after its end: `conditional_writes.locks.Locks`."""
READING_SECONDS = 30
A_DAY, A_MONTH = timedelta(hours=32), timedelta(days=32)
"""A day, and a run that takes longer than the one before, as in the template's alarms about jobs that aren't done."""


@dataclass(frozen=True)
class JobInfo:
    """A scheduled job, and the parameters of its schedule.

    The time zone is UTC if `timezone_parameter` is None. The job is late if no run was done in `late_after`.
    """

    name: str
    schedule_parameter: str
    state_parameter: str
    timezone_parameter: str | None = None
    late_after: timedelta = A_DAY

    @property
    def queue_output(self) -> str:
        """The output with the URL of its queue."""
        return f"{function_of(self.name)}QueueUrl"


JOBS = {
    job.name: job
    for job in (
        JobInfo("reconcile_accounts", "ReconcileSchedule", "ReconcileState", "ScheduleTimezone"),
        JobInfo("charge_overdraft_interest", "InterestSchedule", "InterestState", late_after=A_MONTH),
        JobInfo("expire_holds", "ExpireHoldsSchedule", "ExpireHoldsState"),
    )
}


@dataclass(frozen=True)
class LockRecord:
    """The lock of a job, as its item says; the item is empty if there is none. `name` is the item's `lock_key`."""

    name: str
    item: Item

    def state(self, now: datetime) -> Literal["free", "held", "lapsed", "unreadable"]:
        """`lapsed`: the holder never released the lock, and another run may take it over."""
        if self.unreadable:
            return "unreadable"
        if self.leased_until is None:
            return "free"
        return "held" if now <= self.leased_until + CLOCK_SKEW else "lapsed"

    @property
    def unreadable(self) -> str | None:
        """A sentence about the attribute because of which nobody gets the lock, or None."""
        return why_unreadable(self.item)

    @property
    def leased_until(self) -> datetime | None:
        """The end of the lease; None if the lock is free. A text that is no time stands for the year 9999."""
        text = self.item.get("leased_until")
        return None if text is None else _time_of(str(text)) or datetime.max.replace(tzinfo=UTC) - CLOCK_SKEW

    @property
    def owner(self) -> str | None:
        return self.item.get("owner")

    @property
    def holder(self) -> Item:
        """`who`, `where`, `since` and `why` of the present or the last holder. Empty if the item doesn't say."""
        holder = self.item.get("holder")
        return holder if isinstance(holder, dict) else {}

    @property
    def checkpoint(self) -> Item | None:
        """How far the job has come for the scheduled time `working_on`; None if it has no checkpoint."""
        match self.item.get("checkpoint"):
            case {"window": str(), "saved": dict(saved)}:
                return saved
        return None

    @property
    def working_on(self) -> str | None:
        """The scheduled time that the job is at work for, or that was interrupted. None if there is none."""
        if self.leased_until is not None:
            why = str(self.holder.get("why", ""))
            if why.startswith("for ") and ", request " in why:
                return why.removeprefix("for ").partition(", request ")[0]
        match self.item.get("checkpoint"):
            case {"window": str(window)}:
                return window
        return None

    def as_json(self, now: datetime) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state(now),
            "leased_until": self.leased_until,
            "holder": self.holder,
            "working_on": self.working_on,
            "checkpoint": self.checkpoint,
        }

    @property
    def windows_done(self) -> Sequence[str]:
        """The last hundred scheduled times that the job is done for, the latest last."""
        return [] if self.unreadable else self.item.get("windows_done", [])

    def counts_as_done(self, scheduled_time: str) -> bool:
        """Whether a message for this time is answered with DoneBefore: a time that is too old to be known, too."""
        through = str(self.item.get("windows_done_through", ""))
        return scheduled_time in self.windows_done or scheduled_time <= through


@dataclass(frozen=True)
class RunOfJob:
    """A job's run for a scheduled time, an ISO 8601 text in UTC. `record` is its item: None until it is finished."""

    scheduled_time: str
    record: Item | None

    @property
    def finished_at(self) -> datetime | None:
        return _time_of(str((self.record or {}).get("finished_at")))

    @property
    def report(self) -> Item:
        """The report's fields; empty if the run isn't finished."""
        if self.record is None or self.finished_at is None:
            return {}
        others = ("lock_key", "finished_at", "expires_at")
        return {name: value for name, value in self.record.items() if name not in others and not name.startswith("cw:")}

    @property
    def troubles(self) -> list[str]:
        """What the report says that isn't well: "found 2 mismatches", "skipped 1 account"."""
        mismatches, skipped = (int(self.report.get(name, 0)) for name in ("mismatches", "accounts_skipped"))
        found = [f"found {counted(mismatches, 'mismatch', 'mismatches')}"] if mismatches else []
        return [*found, *([f"skipped {counted(skipped, 'account')}"] if skipped else [])]

    def as_json(self) -> dict[str, Any]:
        return {
            "scheduled_time": self.scheduled_time,
            "finished_at": self.finished_at,
            "report": self.report,
        }


@dataclass(frozen=True)
class JobRecords:
    """The records of a job.

    `runs` are those whose time the lock's record has. The latest come first, but those for times ahead come last.
    """

    job: JobInfo
    lock: LockRecord
    runs: Sequence[RunOfJob]

    @property
    def last_done(self) -> RunOfJob | None:
        """The last finished run, by the time at which it was finished."""
        finished = [(run.finished_at, run) for run in self.runs if run.finished_at]
        return max(finished, key=lambda each: each[0])[1] if finished else None


def read_job(deployment: Deployment, job: JobInfo) -> JobRecords:
    """The job's lock and runs. Strongly consistent: a request, and one for each hundred runs."""
    lock = read_lock(deployment, job)
    known = {window for window in [*lock.windows_done, lock.working_on] if window}
    now = datetime.now(UTC).isoformat()
    latest_first = sorted(known, key=lambda window: (window <= now, window), reverse=True)
    return JobRecords(job, lock, read_runs(deployment, job, latest_first))


def read_lock(deployment: Deployment, job: JobInfo) -> LockRecord:
    return LockRecord(job.name, read_records(deployment, [job.name])[job.name] or {})


def read_runs(deployment: Deployment, job: JobInfo, scheduled_times: Sequence[str]) -> list[RunOfJob]:
    """The runs for these times, which are written as the function writes them: in UTC, with `+00:00`."""
    names = {time: f"{job.name} {time}" for time in scheduled_times}
    found = read_records(deployment, names.values())
    return [RunOfJob(time, found[name]) for time, name in names.items()]


def is_enabled(deployment: Deployment, job: JobInfo) -> bool:
    return deployment.parameters.get(job.state_parameter) == "ENABLED"


def read_records(deployment: Deployment, names: Iterable[str]) -> dict[str, Item | None]:
    """The items of the Locks table by their names, strongly consistent."""
    keys = {name: key(deployment["LocksTableName"], lock_key=name) for name in names}
    found = read(deployment.client("dynamodb"), keys.values(), Deadline.after(READING_SECONDS))
    return {name: found.get(wanted) for name, wanted in keys.items()}


def _time_of(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
