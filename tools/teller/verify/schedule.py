"""Step 5: a one-off schedule runs a job once, and the same message again does nothing."""

import json
import time
from contextlib import suppress
from datetime import datetime, timedelta

from tools import prices
from tools.teller.job_records import JOBS, RunOfJob, read_lock, read_runs
from tools.teller.job_runs import begin
from tools.teller.message_queues import counts_of
from tools.teller.verify.run import Run
from tools.teller.verify.steps import Step, different

JOB = JOBS["reconcile_accounts"]
"""It reads all accounts, and changes none."""
PLACEHOLDER = "<aws.scheduler.scheduled-time>"
BEGIN_SECONDS = 180
"""Scheduler is a minute late at most."""
END_SECONDS = 600
MOST_DOLLARS = 0.25
READ_UNIT_BYTES = 4096


def schedule(run: Run, step: Step) -> None:
    claim = f"a one-off schedule runs {JOB.name} once"
    if why_not := _why_not(run):
        step.not_tried(claim, why_not)
        return
    local = run.deployment.is_local
    at = run.now() + timedelta(seconds=3 if local else 60)
    event = {"job": JOB.name, "scheduled_time": at.isoformat() if local else PLACEHOLDER}
    _make(run, at, event)
    try:
        step.sent = f"a schedule of {JOB.name} for {at:%H:%M:%S} UTC, and its message again"
        run.wait(
            lambda: _run_at(run, at).record or read_lock(run.deployment, JOB).working_on == at.isoformat(),
            lambda: f"{JOB.name}: expected a run for {at.isoformat()}, got none",
            BEGIN_SECONDS,
        )
        began = time.monotonic()
        while not (done := _run_at(run, at)).finished_at and time.monotonic() < began + END_SECONDS:
            time.sleep(1)
    finally:
        _delete(run)
    if not done.finished_at:
        step.not_tried(claim, f"the run for {at.isoformat()} has begun, and still goes on after {END_SECONDS} s")
        return
    step.check(claim)
    if local:
        step.only_on_aws("Scheduler puts the scheduled time into the event", "a local AWS leaves its placeholder")
    else:
        step.check("Scheduler puts the scheduled time into the event")
    begin(run.deployment, JOB, event | {"scheduled_time": at.isoformat()})
    run.wait(
        lambda: counts_of(run.deployment, JOB.queue_output).total == 0,
        lambda: f"{JOB.name}: expected its queue to be empty",
        BEGIN_SECONDS,
    )
    again = _run_at(run, at)
    step.check("the same message again does nothing", *different("finished", done.finished_at, again.finished_at))
    step.measure(f"{done.report.get('accounts_checked')} accounts checked")
    step.check("the job finds no mismatch", *map(str, done.report.get("first_mismatches", [])))


def _why_not(run: Run) -> str | None:
    """Why the job isn't to run now, if so."""
    tables = ("Accounts", "Journal", "Reversals", "Checkpoints")
    size = sum(_bytes(run, f"{table}TableName") for table in tables)
    dollars = size / READ_UNIT_BYTES * prices.READ_UNITS.dollars / 1e6
    if dollars > MOST_DOLLARS:
        return f"reading all accounts and journals may cost {dollars:.2f} dollars"
    if read_lock(run.deployment, JOB).working_on:
        return f"{JOB.name} is running just now, or was interrupted: its run would begin anew"
    return None


def _bytes(run: Run, table: str) -> int:
    described = run.client("dynamodb").describe_table(TableName=run.deployment[table])["Table"]
    size: int = described.get("TableSizeBytes", 0)
    return size


def _run_at(run: Run, at: datetime) -> RunOfJob:
    [found] = read_runs(run.deployment, JOB, [at.isoformat()])
    return found


def _make(run: Run, at: datetime, event: dict[str, str]) -> None:
    """A schedule like the job's own, for one time."""
    scheduler = run.client("scheduler")
    own = scheduler.get_schedule(Name=run.resources["ReconcileAccountsSchedule"])
    scheduler.create_schedule(
        Name=run.name,
        ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
        ScheduleExpressionTimezone="UTC",
        FlexibleTimeWindow={"Mode": "OFF"},
        ActionAfterCompletion="DELETE",
        Target={**own["Target"], "Input": json.dumps(event)},
    )


def _delete(run: Run) -> None:
    scheduler = run.client("scheduler")
    with suppress(scheduler.exceptions.ResourceNotFoundException):  # It deletes itself, too.
        scheduler.delete_schedule(Name=run.name)
