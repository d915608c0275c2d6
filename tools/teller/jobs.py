"""`teller jobs`, `jobs run` and `jobs release`: the scheduled jobs, their locks and their reports."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from conditional_writes import Item
from tools.teller.failures import Failure, WrongUse
from tools.teller.groups import ListByDefault
from tools.teller.job_records import (
    JOBS,
    JobInfo,
    JobRecords,
    LockRecord,
    RunOfJob,
    is_enabled,
    read_job,
    read_locks,
    read_runs,
)
from tools.teller.job_release import Release
from tools.teller.job_release import release as release_lock
from tools.teller.job_runs import Progress, begin, event_of, follow
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.progress import at_work
from tools.teller.tables import Rows, fields_table, lines, table
from tools.teller.times import moment, shown
from tools.teller.words import counted
from workers.job_events import why_not_begun

NAMES = " or ".join((", ".join(list(JOBS)[:-1]), list(JOBS)[-1]))
JobName = Annotated[str, typer.Argument(help=f"{NAMES}.", metavar="NAME", show_default=False)]
ForOption = Annotated[
    datetime | None,
    typer.Option("--for", parser=moment, help="The scheduled time. ISO 8601. Default: this minute.", metavar="TIME"),
]
WholeOption = Annotated[bool, typer.Option("--whole", help="reconcile_accounts: replay all journals whole.")]
ForceRunOption = Annotated[
    bool, typer.Option("--force", help="Begin a run for a time that is ahead, or more than a day ago.")
]
ForceReleaseOption = Annotated[
    bool, typer.Option("--force", help="Release also a lock whose lease isn't over. Its holder may be at work.")
]

LAST_RUNS = 5
"""So many are shown."""
MOST_SENTENCES = 5
"""Of the last run's mismatches and skipped accounts."""

RISK = (
    "The holder may be at work. If it is, it goes on with its step while another run may begin: messages may be sent "
    "twice, with the same ids. It finds at its next write that it lost the lock, and its event is tried again"
)


def add_to(app: typer.Typer) -> None:
    jobs = typer.Typer(cls=ListByDefault)

    @jobs.callback()
    def about() -> None:
        """Show the scheduled jobs, run one, or release its lock.

        Without a subcommand: list.
        """

    subcommand(jobs, "list")(list_jobs)
    subcommand(jobs)(run)
    subcommand(jobs)(release)
    app.add_typer(jobs, name="jobs")


def list_jobs(operator: Operator) -> None:
    """Show schedules, locks, progress and last runs.

    All times are in UTC.
    """
    found = [read_job(operator.deployment, job) for job in JOBS.values()]
    now = datetime.now(UTC)
    answer = [_job_json(operator, records, now) for records in found]
    if operator.as_json:
        operator.show({"jobs": answer})
        return
    for number, (records, job) in enumerate(zip(found, answer, strict=True)):
        operator.say(*([""] if number else []))
        operator.say(records.job.name, style="bold")
        operator.say(fields_table(_job_fields(records, job, now)))
        if records.runs:
            operator.say(_runs_table(records.runs[:LAST_RUNS]))
        if records.last_done and records.last_done.troubles:
            operator.say(*_troubles_in_words(records.last_done))


def run(
    operator: Operator,
    name: JobName,
    scheduled_time: ForOption = None,
    whole: WholeOption = False,
    force: ForceRunOption = False,
    yes: YesOption = False,
) -> None:
    """Run a job by hand, and wait for its report.

    A time that was done before isn't done again, and a run that was interrupted goes on. Exit status 1: the run failed,
    or found mismatches, or skipped accounts.
    """
    job = _job_named(name)
    if whole and name != "reconcile_accounts":
        raise WrongUse(f"--whole is for reconcile_accounts, not for {name}")
    deployment, now = operator.deployment, datetime.now(UTC)
    scheduled_time = scheduled_time or now.replace(second=0, microsecond=0)
    event = event_of(job, scheduled_time, whole=whole, force=force)
    [known] = read_runs(deployment, job, [event["scheduled_time"]])
    if not force and known.record is None and (refusal := why_not_begun(scheduled_time, now)):
        raise WrongUse(f"{refusal}. The option --force adds it")
    operator.agree(f"run {name} for {event['scheduled_time']}", yes=yes)
    for lock in read_locks(deployment, job):
        if lock.state(now) == "held":
            operator.remark(f"The lock {lock.name} is {_state_in_words(lock, now)}.")
    with at_work(operator, f"{name} for {shown(scheduled_time)}") as tell:
        try:
            answer, finished = follow(
                deployment,
                job,
                event["scheduled_time"],
                begin(deployment, job, event),
                lambda progress: tell(f"{name} for {shown(scheduled_time)}: {_progress_in_words(progress)}"),
            )
        except KeyboardInterrupt:
            raise Failure(
                f"interrupted. The run of {name} goes on by itself: `teller jobs` shows how far it has come",
                "INTERRUPTED",
            ) from None
        except Failure as failure:
            again = f"With --for {event['scheduled_time']} the same command resumes the run from its checkpoint"
            raise Failure(f"{failure.reason}. {again}", failure.code) from None
    if answer["outcome"] == "DoneBefore":
        operator.remark(f"{name} was done before for this time: {answer['reason']}")
    result = finished.as_json()
    operator.show({"job": name, "outcome": answer["outcome"]} | result, fields_table(_report_fields(result)))
    if finished.troubles:
        operator.not_well(f"{name} {' and '.join(finished.troubles)}")
    if finished.finished_at is None:
        operator.not_well(
            f"{name} did nothing for {result['scheduled_time']}. No record says that it was done: it is earlier than "
            "the last hundred times that are remembered, and all of those count as done"
        )


def release(operator: Operator, name: JobName, force: ForceReleaseOption = False, yes: YesOption = False) -> None:
    """Release a job's locks whose leases are over.

    The leases are compared with this machine's clock. The next run can take such a lock anyway, a second after the end
    of the lease. It learns that the holder was killed, and resumes from the checkpoint, whether or not the lock was
    released. Exit status 1: a lock is still held.
    """
    job, deployment = _job_named(name), operator.deployment
    now = datetime.now(UTC)
    locks = [lock for lock in read_locks(deployment, job) if lock.state(now) != "free"]
    wanted = [lock for lock in locks if lock.state(now) == "lapsed" or (force and lock.state(now) == "held")]
    for lock in wanted:
        if lock.state(now) == "held":
            operator.remark(f"Warning: {lock.name} is {_state_in_words(lock, now)}. {RISK}.")
    if wanted:
        operator.agree(f"release {', '.join(lock.name for lock in wanted)}", yes=yes)
    became = {lock.name: release_lock(deployment, lock) if lock in wanted else None for lock in locks}
    results = [lock.as_json(now) | {"result": _result(became[lock.name], lock, now)} for lock in locks]
    rows = {lock.name: lines([_state_in_words(lock, now), _result(became[lock.name], lock, now)]) for lock in locks}
    operator.show({"job": name, "locks": results}, *([fields_table(rows)] if rows else []))
    if not locks:
        operator.remark(f"No lock of {name} is held: there is nothing to release.")
    stay = [name for name, result in became.items() if result not in (Release.RELEASED, Release.FREE)]
    if stay:
        operator.not_well(f"not released: {', '.join(stay)}")


def _result(became: Release | None, lock: LockRecord, now: datetime) -> str:
    match became:
        case Release.RELEASED:
            return "released"
        case Release.FREE:
            return "its holder released it meanwhile"
        case Release.CHANGED:
            return "another run has taken it meanwhile, and keeps it"
    if lock.state(now) == "unreadable":
        return "mend the attribute in the Locks table, or delete it"
    return "stays, as the lease isn't over; --force releases it nevertheless"


def _job_named(name: str) -> JobInfo:
    try:
        return JOBS[name]
    except KeyError:
        raise WrongUse(f"there is no job {name!r}: expected {NAMES}") from None


def _job_fields(records: JobRecords, job: dict[str, Any], now: datetime) -> dict[str, str]:
    last = records.last_done
    done = f"{shown(last.scheduled_time)}, finished {shown(last.finished_at)}" if last else "never, as far as is known"
    locks = {
        f"lock of {lock.segment}" if lock.segment.of > 1 else "lock": _state_in_words(lock, now)
        for lock in records.locks
        if lock.segment.of == 1 or lock.state(now) != "free"
    }
    checkpoints = {
        f"progress of {lock.segment}" if lock.segment.of > 1 else "progress": (
            f"for {shown(lock.working_on)}: {_numbers_in_words(lock.checkpoint)}"
        )
        for lock in records.locks
        if lock.checkpoint is not None
    }
    schedule = f"{job['schedule']}, in {job['timezone']}{'' if job['is_enabled'] else ', disabled'}"
    return {"schedule": schedule, "last done": done} | (locks or {"lock": "free"}) | checkpoints


def _state_in_words(lock: LockRecord, now: datetime) -> str:
    state, until, holder = lock.state(now), shown(lock.leased_until), lock.holder
    by = f"by {holder.get('where', 'a holder that its record does not name')} since {shown(holder.get('since'))}"
    why = f", {holder['why']}" if "why" in holder else ""
    match state:
        case "held":
            return f"held until {until} {by}{why}"
        case "lapsed":
            return f"never released; its lease ended {until}. It was held {by}{why}"
        case "unreadable":
            return f"can't be read, and nobody gets it: {lock.unreadable}"
    return "free"


def _progress_in_words(progress: Progress) -> str:
    segments = [f"{progress.done} of {progress.segments} segments done"] if progress.segments > 1 else []
    return "; ".join([*segments, *map(_numbers_in_words, progress.checkpoints)]) or "beginning"


NUMBERS = {
    "sent": ("message sent", "messages sent"),
    "accounts_checked": ("account checked", "accounts checked"),
    "accounts_replayed_whole": ("replayed whole", "replayed whole"),
    "accounts_skipped": ("skipped", "skipped"),
    "mismatches": ("mismatch", "mismatches"),
}
"""The numbers of a report, in the singular and the plural."""


def _numbers_in_words(fields: Item) -> str:
    """A report, or the checkpoint that becomes one: "49 accounts checked, 0 mismatches, after acc-0037"."""
    known = [counted(int(fields[name]), one, several) for name, (one, several) in NUMBERS.items() if name in fields]
    return ", ".join([*known, *([f"after {fields['after']}"] if fields.get("after") else [])])


def _troubles_in_words(run: RunOfJob) -> list[str]:
    """Why the last finished run isn't well: its first sentences, a line each."""
    sentences = [*run.report.get("first_mismatches", ()), *run.report.get("first_skipped", ())]
    more = [f"  {len(sentences) - MOST_SENTENCES} more: teller jobs --json"] if len(sentences) > MOST_SENTENCES else []
    first = [f"- {sentence}" for sentence in sentences[:MOST_SENTENCES]]
    return ["", f"The run that was done last {' and '.join(run.troubles)}:", *first, *more]


def _runs_table(runs: Iterable[RunOfJob]) -> Rows:
    rows = table("scheduled time", "finished", "report")
    for each in runs:
        rows.add_row(shown(each.scheduled_time), shown(each.finished_at) or "not yet", _numbers_in_words(each.report))
    return rows


def _job_json(operator: Operator, records: JobRecords, now: datetime) -> dict[str, Any]:
    job, parameters = records.job, operator.deployment.parameters
    return {
        "name": job.name,
        "schedule": parameters.get(job.schedule_parameter),
        "timezone": parameters.get(job.timezone_parameter or "", "UTC"),
        "is_enabled": is_enabled(operator.deployment, job),
        "last_done": records.last_done.as_json() if records.last_done else None,
        "locks": [lock.as_json(now) for lock in records.locks],
        "runs": [each.as_json() for each in records.runs[:LAST_RUNS]],
    }


def _report_fields(run: dict[str, Any]) -> dict[str, Any]:
    """A run and its report, for people: numbers, and a line for each sentence."""
    fields: dict[str, Any] = {
        "scheduled time": shown(run["scheduled_time"]),
        "finished": shown(run["finished_at"]),
    }
    fields["segments"] = str(run["segments"])
    for name, value in run["report"].items():
        if isinstance(value, list) and not value:
            continue
        fields[name.replace("_", " ")] = lines(map(str, value)) if isinstance(value, list) else f"{value:,}"
    return fields
