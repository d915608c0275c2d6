"""`teller jobs`, `jobs run` and `jobs release`: the scheduled jobs, their locks and their reports."""

from collections.abc import Iterable, Iterator
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
    read_lock,
    read_runs,
)
from tools.teller.job_release import Release
from tools.teller.job_release import release as release_lock
from tools.teller.job_runs import Progress, begin, event_of, follow
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.printed_tables import Rows, fields_table, lines, table
from tools.teller.progress import at_work
from tools.teller.times import moment, shown
from tools.teller.words import counted
from workers.scheduled_jobs import why_not_begun

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
    window, lock = scheduled_time.astimezone(UTC).isoformat(), read_lock(deployment, job)
    force = force or lock.working_on == window
    event = event_of(job, scheduled_time, whole=whole, force=force)
    [finished] = read_runs(deployment, job, [window])
    outcome = "DoneBefore" if finished.finished_at or lock.counts_as_done(window) else "Done"
    if outcome == "Done":
        if not force and (refusal := why_not_begun(scheduled_time, now)):
            raise WrongUse(f"{refusal}. The option --force adds it")
        operator.agree(f"run {name} for {window}", yes=yes)
        if lock.state(now) == "held":
            operator.remark(f"The lock {lock.name} is {_state_in_words(lock, now)}.")
        with at_work(operator, f"{name} for {shown(scheduled_time)}") as tell:
            begin(deployment, job, event)
            try:
                finished = follow(
                    deployment,
                    job,
                    window,
                    lambda progress: tell(f"{name} for {shown(scheduled_time)}: {_progress_in_words(progress)}"),
                )
            except KeyboardInterrupt:
                raise Failure(
                    f"interrupted. The run of {name} goes on by itself: `teller jobs` shows how far it has come",
                    "INTERRUPTED",
                ) from None
    elif finished.finished_at:
        operator.remark(f"{name} was done before for this time: the run was finished at {finished.finished_at}")
    result = finished.as_json()
    operator.show({"job": name, "outcome": outcome} | result, fields_table(_report_fields(result)))
    if finished.troubles:
        operator.not_well(f"{name} {' and '.join(finished.troubles)}")
    if finished.finished_at is None:
        operator.not_well(
            f"{name} does nothing for {result['scheduled_time']}. No record says that it was done: it is earlier than "
            "the last hundred times that are remembered, and all of those count as done"
        )


def release(operator: Operator, name: JobName, force: ForceReleaseOption = False, yes: YesOption = False) -> None:
    """Release a job's lock if its lease is over.

    The lease is compared with this machine's clock. The next run can take such a lock anyway, a second after the end
    of the lease. It learns that the holder was killed, and resumes from the checkpoint, whether or not the lock was
    released. Exit status 1: the lock is still held.
    """
    job, deployment = _job_named(name), operator.deployment
    now = datetime.now(UTC)
    lock = read_lock(deployment, job)
    state = lock.state(now)
    if state == "free":
        operator.show({"job": name, "lock": lock.as_json(now) | {"result": "free"}})
        operator.remark(f"The lock of {name} isn't held: there is nothing to release.")
        return
    is_wanted = state == "lapsed" or (force and state == "held")
    if is_wanted and state == "held":
        operator.remark(f"Warning: {lock.name} is {_state_in_words(lock, now)}. {RISK}.")
    if is_wanted:
        operator.agree(f"release {lock.name}", yes=yes)
    became = release_lock(deployment, lock) if is_wanted else None
    result = _result(became, lock, now)
    row = lines([_state_in_words(lock, now), result])
    operator.show({"job": name, "lock": lock.as_json(now) | {"result": result}}, fields_table({lock.name: row}))
    if became not in (Release.RELEASED, Release.FREE):
        operator.not_well(f"not released: {lock.name}")


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
    lock = records.lock
    fields = {
        "schedule": f"{job['schedule']}, in {job['timezone']}{'' if job['is_enabled'] else ', disabled'}",
        "last done": done,
        "lock": _state_in_words(lock, now),
    }
    if lock.checkpoint is not None:
        fields["progress"] = f"for {shown(lock.working_on)}: {_numbers_in_words(lock.checkpoint)}"
    return fields


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
    return _numbers_in_words(progress.checkpoint) if progress.checkpoint else "beginning"


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
        "lock": records.lock.as_json(now),
        "runs": [each.as_json() for each in records.runs[:LAST_RUNS]],
    }


def _trial_balance(of: dict[str, Any]) -> Iterator[str]:
    left_out = of["accounts_left_out"]
    yield f"at {shown(of['as_of'])}{f', without {counted(left_out, "account")}' if left_out else ''}"
    for currency, each in of["currencies"].items():
        yield f"{currency}: {each['came_in']} came in, {each['went_out']} went out, balances sum to {each['balances']}"


def _report_fields(run: dict[str, Any]) -> dict[str, Any]:
    """A run and its report, for people: numbers, and a line for each sentence."""
    fields: dict[str, Any] = {
        "scheduled time": shown(run["scheduled_time"]),
        "finished": shown(run["finished_at"]),
    }
    for name, value in run["report"].items():
        if isinstance(value, list) and not value:
            continue
        match value:
            case list():
                text: Any = lines(map(str, value))
            case dict():
                text = lines(_trial_balance(value))
            case str():
                text = value
            case _:
                text = f"{value:,}"
        fields[name.replace("_", " ")] = text
    return fields
