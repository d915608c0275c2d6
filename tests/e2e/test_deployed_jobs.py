"""The scheduled jobs of the deployed template.yaml, on a local AWS that enforces IAM."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb
from tests.checkers.books import Books, violations
from tests.checkers.windows import open_though_expired, windows_done, wrongly_charged
from tests.support.deployed import Bank, until
from tools.local_aws.jobs import function_name, read_report, run_job
from tools.local_aws.tables import scan
from workers.invocation import RESERVED_SECONDS

NIGHT = datetime(2026, 3, 1, 2, tzinfo=UTC)
NEXT_NIGHT = NIGHT + timedelta(days=1)
ACCOUNTS = 120
"""More accounts than one step of the reconciliation takes."""


def body(transaction_id: str, name: str, **fields: Any) -> str:
    return json.dumps({"transaction_id": transaction_id, "account_id": name} | fields)


@pytest.fixture(scope="module")
def overdrawn(bank: Bank) -> Books:
    """Books with some overdrawn accounts, and empty queues."""
    names = [f"job-{number:02}" for number in range(ACCOUNTS)]
    limit = {"type": "open_account", "currency": "EUR", "overdraft_limit": "-1000"}
    bank.transactions.send([body("open", name, **limit) for name in names])
    bank.transactions.wait_until_drained()
    bank.transactions.send([body("spend", name, amount="-365.00") for name in names[::2]])
    bank.transactions.wait_until_drained()
    return bank.books()


def test_interest_is_charged_once_though_its_day_is_delivered_twice(bank: Bank, overdrawn: Books) -> None:
    first = run_job(bank.stack, "charge_overdraft_interest", NIGHT)
    assert first["outcome"] == "Done"
    bank.transactions.wait_until_drained()
    once = bank.books()
    assert list(wrongly_charged(overdrawn, once, NIGHT.date())) == []
    again = run_job(bank.stack, "charge_overdraft_interest", NIGHT)
    assert again["outcome"] == "DoneBefore"
    assert again["reason"].startswith("the run was finished at ")
    bank.transactions.wait_until_drained()
    assert bank.books() == once
    assert violations(once) == []


def test_expired_holds_are_released_once_though_the_job_is_delivered_twice(bank: Bank, overdrawn: Books) -> None:
    holder = next(name for name in overdrawn.accounts if name.startswith("job-"))
    hold = {"type": "hold", "amount": "10"}
    times = {"past": NIGHT - timedelta(hours=1), "ahead": datetime.now(UTC) + timedelta(days=1)}
    holds = [body(name, holder, expires_at=time.isoformat(), **hold) for name, time in times.items()]
    bank.transactions.send([*holds, body("never", holder, **hold)])
    bank.transactions.wait_until_drained()
    assert run_job(bank.stack, "expire_holds", NIGHT)["outcome"] == "Done"
    bank.transactions.wait_until_drained()
    once = bank.books()
    assert once.accounts[holder].open_holds.keys() == {"ahead", "never"}
    assert list(open_though_expired(once, NIGHT)) == []
    assert [entry.request["hold_id"] for entry in once.journal[holder] if entry.request["type"] == "expire_hold"] == [
        "past"
    ]
    assert run_job(bank.stack, "expire_holds", NIGHT)["outcome"] == "DoneBefore"
    assert run_job(bank.stack, "expire_holds", NIGHT + timedelta(hours=1))["outcome"] == "Done"
    bank.transactions.wait_until_drained()
    assert bank.books() == once
    assert violations(once) == []


def test_a_night_is_reconciled_once_and_all_is_well(bank: Bank, overdrawn: Books) -> None:
    assert run_job(bank.stack, "reconcile_accounts", NIGHT)["outcome"] == "Done"
    report = read_report(bank.stack, NIGHT)
    assert run_job(bank.stack, "reconcile_accounts", NIGHT)["outcome"] == "DoneBefore"
    assert read_report(bank.stack, NIGHT) == report
    assert (report["accounts_checked"], report["first_mismatches"]) == (len(overdrawn.accounts), [])


def test_a_job_calls_itself_until_it_is_done(bank: Bank, overdrawn: Books) -> None:
    lambda_ = bank.stack.endpoint.client("lambda")
    name = bank.stack["ReconcileAccountsFunctionName"]
    before = lambda_.get_function_configuration(FunctionName=name)["Timeout"]
    # The timeout leaves only the time that is reserved for the last request, so each invocation takes one step.
    lambda_.update_function_configuration(FunctionName=name, Timeout=int(RESERVED_SECONDS))
    try:
        assert run_job(bank.stack, "reconcile_accounts", NEXT_NIGHT)["outcome"] == "Continued"
        until(lambda: NEXT_NIGHT.isoformat() in _done(bank), "the night is done")
    finally:
        lambda_.update_function_configuration(FunctionName=name, Timeout=before)
    assert read_report(bank.stack, NEXT_NIGHT)["accounts_checked"] == len(overdrawn.accounts)


@pytest.mark.parametrize("job", ["reconcile_accounts", "charge_overdraft_interest"])
def test_a_job_calls_itself_for_each_segment(bank: Bank, overdrawn: Books, job: str) -> None:
    lambda_ = bank.stack.endpoint.client("lambda")
    name = function_name(bank.stack, job)
    environment = lambda_.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    night = NEXT_NIGHT + timedelta(days=1)
    before = bank.books()
    four = {"Variables": environment | {"JOB_SEGMENTS": "4"}}
    lambda_.update_function_configuration(FunctionName=name, Environment=four)
    try:
        assert run_job(bank.stack, job, night)["outcome"] == "Continued"
        until(lambda: night.isoformat() in _done(bank, job), "the night is done")
    finally:
        lambda_.update_function_configuration(FunctionName=name, Environment={"Variables": environment})
    assert run_job(bank.stack, job, night)["outcome"] == "DoneBefore"
    bank.transactions.wait_until_drained()
    report = _records(bank)[f"{job} {night.isoformat()}"]
    assert report["segments"] == 4
    if job == "reconcile_accounts":
        assert report["accounts_checked"] == len(overdrawn.accounts)
    else:
        assert report["sent"] == sum(account.balance < 0 for account in before.accounts.values()) >= ACCOUNTS / 2
        assert list(wrongly_charged(before, bank.books(), night.date())) == []


def _records(bank: Bank) -> dict[str, dict[str, Any]]:
    items = map(from_dynamodb, scan(bank.stack.endpoint, bank.stack["LocksTableName"]))
    return {item["lock_key"]: item for item in items}


def _done(bank: Bank, job: str = "reconcile_accounts") -> set[str]:
    return windows_done(_records(bank), job)


@pytest.mark.parametrize("job", ["reconcile_accounts", "expire_holds"])
def test_the_schedule_starts_the_job(bank: Bank, overdrawn: Books, job: str) -> None:
    """A schedule for the next second, with the template's target. The local AWS doesn't fill in the scheduled time."""
    assert overdrawn
    scheduler = bank.stack.endpoint.client("scheduler")
    targets = [
        scheduler.get_schedule(Name=schedule["Name"])["Target"]
        for page in scheduler.get_paginator("list_schedules").paginate()
        for schedule in page["Schedules"]
    ]
    [target] = [target for target in targets if job in target["Input"]]
    soon = datetime.now(UTC) + timedelta(seconds=1)
    scheduler.create_schedule(
        Name=f"soon-{job}",
        ScheduleExpression=f"at({soon:%Y-%m-%dT%H:%M:%S})",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target=target,
    )
    today = soon.replace(hour=0, minute=0, second=0, microsecond=0)
    days = {day.isoformat() for day in (today, today + timedelta(days=1))}  # the job may start after midnight
    until(lambda: days & _done(bank, job), "today is done")
