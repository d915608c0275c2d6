"""A job's records in the Locks table, as the command reads them after real locks and runs."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from conditional_writes import Item
from conditional_writes.locks import Locks, LockTaken
from tests.support.locks_stack import LocksStack
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint
from tools.teller.job_records import JOBS, read_job
from workers.scheduled_jobs import Job, Step

JOB = JOBS["reconcile_accounts"]
NIGHTS = [f"2026-03-0{day}T02:00:00+00:00" for day in range(1, 8)]


class Stack(LocksStack):
    def run(self, night: str) -> None:
        logger, metrics = Logger(service="teller", level="CRITICAL"), EphemeralMetrics(namespace="Teller")
        queue: Any = None
        job = Job(JOB.name, lambda run: iter([Step({}, report={"accounts": 1})]), self.locks, queue, logger, metrics)
        context: Any = Context()
        assert job.run(json.dumps({"job": JOB.name, "scheduled_time": night, "force": True}), self.now, context)


def _why(night: str) -> str:
    return f"for {night}, request r"


@pytest.fixture
def stack(dynamodb: Endpoint) -> Any:
    return Stack(dynamodb)


def test_the_last_runs_come_with_their_reports_the_latest_first(stack: Any) -> None:
    found = read_job(stack, JOB)
    assert (found.lock.item, found.runs, found.last_done) == ({}, [], None)
    for night in NIGHTS:
        stack.clock.seconds += 86400
        stack.run(night)
    found = read_job(stack, JOB)
    assert [(run.scheduled_time, run.report) for run in found.runs] == [
        (each, {"accounts": 1}) for each in NIGHTS[::-1]
    ]
    assert found.last_done == found.runs[0]
    assert found.runs[0].finished_at == stack.now


def test_a_late_run_for_an_earlier_time_is_the_last_that_was_done(stack: Any) -> None:
    stack.run(NIGHTS[5])
    stack.clock.seconds += 60
    stack.run(NIGHTS[2])
    assert read_job(stack, JOB).last_done.scheduled_time == NIGHTS[2]


def test_a_lock_is_free_then_held_then_lapsed_just_when_another_may_take_it(stack: Any) -> None:
    stack.run(NIGHTS[0])
    lock = read_job(stack, JOB).lock
    assert (lock.state(stack.now), lock.owner, lock.working_on) == ("free", None, None)
    held = stack.locks.acquire(JOB.name, lease_seconds=60, why=_why(NIGHTS[1]), window=NIGHTS[1])
    held.save_checkpoint({"after": "acc-7"})
    lock = read_job(stack, JOB).lock
    assert (lock.working_on, lock.checkpoint) == (NIGHTS[1], {"after": "acc-7"})
    states = [lock.state(stack.now + timedelta(seconds=seconds)) for seconds in (0, 60, 61, 61.001)]
    assert states == ["held", "held", "held", "lapsed"]
    another = Locks(stack.client("dynamodb"), stack.table, now=stack.clock)
    stack.clock.seconds += 60.9
    with pytest.raises(LockTaken):
        another.acquire(JOB.name, lease_seconds=1)
    stack.clock.seconds += 0.2
    another.acquire(JOB.name, lease_seconds=1, window=NIGHTS[1]).release()
    lock = read_job(stack, JOB).lock
    assert (lock.state(stack.now), lock.working_on) == ("free", NIGHTS[1]), "the run was interrupted"


@pytest.mark.parametrize(
    ("damage", "state"),
    [
        ({"leased_until": 5}, "unreadable"),
        ({"windows_done": [7]}, "unreadable"),
        ({"leased_until": "no time"}, "held"),
        ({"holder": "no map", "checkpoint": "none"}, "free"),
    ],
)
def test_a_record_that_was_made_by_hand_is_no_failure(stack: Any, damage: Item, state: str) -> None:
    stack.put({"lock_key": JOB.name} | damage)
    lock = read_job(stack, JOB).lock
    assert (lock.state(datetime.now(UTC)), lock.holder, lock.checkpoint) == (state, {}, None)
