"""The scheduled jobs of the deployed template.yaml, on a local AWS that enforces IAM."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from conditional_writes.locks import Locks
from tests.checkers.books import Books, violations
from tests.checkers.windows import due_though_charged, open_though_expired, windows_done
from tests.support.bodies import opening, payment, rate
from tests.support.command import Command
from tests.support.deployed import Bank, changed_function, until
from tools.local_aws.scheduler import function_name, read_report, run_job

NIGHT = datetime(2026, 3, 1, 2, tzinfo=UTC)
NEXT_NIGHT = NIGHT + timedelta(days=1)
ACCOUNTS = 20
DEBTORS = ("debtor-1", "debtor-2")


@pytest.fixture(scope="module")
def overdrawn(bank: Bank) -> Books:
    """Books with some overdrawn accounts, of which two have interest that is due, and holds; and empty queues."""
    names = [f"job-{number:02}" for number in range(ACCOUNTS)]
    bank.transactions.process(*(opening(name, "-1000") for name in names))
    times = {"past": NIGHT - timedelta(hours=1), "ahead": datetime.now(UTC) + timedelta(days=1)}
    hold = {"type": "hold", "account_id": names[1], "amount": "10"}
    bank.transactions.process(
        *(payment("t-1", "-365.00", name) for name in names[::2]),
        *(hold | {"transaction_id": name, "expires_at": time.isoformat()} for name, time in times.items()),
        hold | {"transaction_id": "never"},
    )
    bank.transactions.process(*(opening(name, -(10**14)) for name in DEBTORS))
    bank.transactions.process(*(payment("t-1", -(10**13), name) for name in DEBTORS))
    for number, annual_rate in enumerate(["1", "0"]):  # what accrues between the two is due
        bank.transactions.process(*(rate(f"rate-{number}", annual_rate, name) for name in DEBTORS))
    return bank.books()


def done(bank: Bank, job: str, scheduled_time: datetime) -> Books:
    """The books once the job is done for this time. Asserts that it isn't done again."""
    report = run_job(bank.stack, job, scheduled_time)
    bank.transactions.wait_until_drained()
    once = bank.books()
    assert run_job(bank.stack, job, scheduled_time) == report
    bank.transactions.wait_until_drained()
    assert bank.books() == once
    return once


def test_interest_is_charged_once_though_its_month_is_delivered_twice(bank: Bank, overdrawn: Books) -> None:
    charged = done(bank, "charge_overdraft_interest", NIGHT)
    assert list(due_though_charged(charged)) == []
    sums = [charged.accounts[name].balance - overdrawn.accounts[name].balance for name in DEBTORS]
    assert all(each < 0 for each in sums)
    assert violations(charged) == []


def test_expired_holds_are_released_once_though_the_job_is_delivered_twice(bank: Bank, overdrawn: Books) -> None:
    books = done(bank, "expire_holds", NIGHT)
    assert books.accounts["job-01"].open_holds.keys() == {"ahead", "never"}
    assert list(open_though_expired(books, NIGHT)) == []
    expired = [entry.request["hold_id"] for entry in books.entries if entry.request["type"] == "expire_hold"]
    assert expired.count("past") == 1
    assert violations(books) == []


def test_a_night_is_reconciled_once_and_all_is_well(bank: Bank, overdrawn: Books) -> None:
    books = done(bank, "reconcile_accounts", NIGHT)
    report = read_report(bank.stack, NIGHT)
    assert (report["accounts_checked"], report["first_mismatches"]) == (len(books.accounts), [])


def wait_until_done(bank: Bank, job: str, *times: datetime) -> None:
    """Waits until the job is done for one of these times."""
    wanted = {time.isoformat() for time in times}
    until(lambda: wanted & windows_done(bank.records(), job), f"{job} is done")


def test_the_schedules_start_the_jobs(bank: Bank, overdrawn: Books) -> None:
    """Schedules for the next second, with the template's targets. The local AWS doesn't fill in the scheduled time."""
    scheduler, soon = bank.stack.endpoint.client("scheduler"), datetime.now(UTC) + timedelta(seconds=1)
    [page] = scheduler.get_paginator("list_schedules").paginate()
    targets = [scheduler.get_schedule(Name=schedule["Name"])["Target"] for schedule in page["Schedules"]]
    jobs = ["reconcile_accounts", "expire_holds"]
    for job in jobs:
        [target] = [target for target in targets if job in target["Input"]]
        expression = f"at({soon:%Y-%m-%dT%H:%M:%S})"
        scheduler.create_schedule(
            Name=f"soon-{job}", ScheduleExpression=expression, FlexibleTimeWindow={"Mode": "OFF"}, Target=target
        )
    today = soon.replace(hour=0, minute=0, second=0, microsecond=0)
    for job in jobs:
        wait_until_done(bank, job, today, today + timedelta(days=1))  # the job may start after midnight


@pytest.mark.exhaustive  # a changed function starts its processes anew: each takes seconds
def test_a_job_goes_on_in_several_invocations(bank: Bank, overdrawn: Books) -> None:
    """After a kill each account is checked alone, and there is no time for a second one."""
    job, window = "reconcile_accounts", NEXT_NIGHT.isoformat()
    locks = Locks(bank.stack.endpoint.client("dynamodb"), bank.stack["LocksTableName"])
    locks.acquire(job, lease_seconds=0.001, window=window)
    before = bank.records()[job]["times_acquired"]
    time.sleep(1.1)  # the lease has ended
    with changed_function(bank.stack, function_name(bank.stack, job), Timeout=60):
        answer = Command(bank.stack).json("jobs", "run", job, "--for", window, "--force")
    assert answer["report"]["accounts_checked"] == len(bank.books().accounts)
    assert bank.records()[job]["times_acquired"] - before >= ACCOUNTS
