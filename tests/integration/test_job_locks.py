"""A job's records in the Locks table, as the command reads them, and the release of its lock by an operator."""

import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from conditional_writes import Deadline, Item, key, read
from conditional_writes.core.items import to_dynamodb
from conditional_writes.locks import Lock, LockLost, Locks, LockTaken
from tests.support.clock import Clock
from tests.support.faults import Fault, Faults, Killed, applies
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table
from tools.teller.job_records import JOBS, LockRecord, read_job
from tools.teller.job_release import Release, release
from workers.scheduled_jobs import Job, Step

JOB = JOBS["reconcile_accounts"]
NIGHTS = [f"2026-03-0{day}T02:00:00+00:00" for day in range(1, 8)]
WINDOW, CHECKPOINT = NIGHTS[0], {"after": "acc-1"}
LEASE_SECONDS = 60
_numbers = itertools.count(1)


class Stack:
    """A stack that has a Locks table and nothing else, and the runs of a job in it. Its clock stands still."""

    def __init__(self, dynamodb: Endpoint) -> None:
        self.dynamodb, self.clock = dynamodb.client("dynamodb"), Clock()
        self.table = create_locks_table(dynamodb, f"locks-{next(_numbers)}")
        self.locks = Locks(self.dynamodb, self.table, now=self.clock)

    def __getitem__(self, output: str) -> str:
        return {"LocksTableName": self.table}[output]

    def client(self, _service: str) -> Any:
        return self.dynamodb

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.seconds, UTC)

    def put(self, item: Item) -> None:
        self.dynamodb.put_item(TableName=self.table, Item=to_dynamodb({"lock_key": JOB.name} | item))

    def delete(self) -> None:
        self.dynamodb.delete_item(TableName=self.table, Key=to_dynamodb({"lock_key": JOB.name}))

    def item(self) -> Item | None:
        wanted = key(self.table, lock_key=JOB.name)
        return read(self.dynamodb, [wanted], Deadline.after(10))[wanted]

    def look(self) -> LockRecord:
        return LockRecord(JOB.name, self.item() or {})

    def state(self) -> str:
        return self.look().state(self.now)

    def run(self, night: str) -> None:
        logger, metrics = Logger(service="teller", level="CRITICAL"), EphemeralMetrics(namespace="Teller")
        queue: Any = None
        job = Job(JOB.name, lambda run: iter([Step({}, report={"accounts": 1})]), self.locks, queue, logger, metrics)
        context: Any = Context()
        assert job.run(json.dumps({"job": JOB.name, "scheduled_time": night, "force": True}), self.now, context)

    def acquire(self, window: str = WINDOW) -> Lock:
        return self.locks.acquire(JOB.name, lease_seconds=LEASE_SECONDS, why=f"for {window}, request r", window=window)

    def held(self) -> Lock:
        """The lock of a run that has saved a checkpoint, and isn't released."""
        self.clock.seconds += 1
        lock = self.acquire()
        lock.save_checkpoint(CHECKPOINT)
        return lock

    def lapsed(self) -> Lock:
        lock = self.held()
        self.clock.seconds += 2 * LEASE_SECONDS
        return lock

    def release(self, seen: LockRecord) -> Release:
        return release(self, seen)  # type: ignore[arg-type]


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
    held = stack.acquire(NIGHTS[1])
    held.save_checkpoint({"after": "acc-7"})
    lock = read_job(stack, JOB).lock
    assert (lock.working_on, lock.checkpoint) == (NIGHTS[1], {"after": "acc-7"})
    states = [lock.state(stack.now + timedelta(seconds=seconds)) for seconds in (0, 60, 61, 61.001)]
    assert states == ["held", "held", "held", "lapsed"]
    another = Locks(stack.dynamodb, stack.table, now=stack.clock)
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
    stack.put(damage)
    lock = read_job(stack, JOB).lock
    assert (lock.state(datetime.now(UTC)), lock.holder, lock.checkpoint) == (state, {}, None)


# --- the release: no holder is thrown out that came since the look ---------------------------------------------


def test_a_lapsed_lock_is_free_and_the_next_holder_learns_that_the_last_one_was_killed(stack: Any) -> None:
    killed = stack.lapsed()
    assert stack.state() == "lapsed"
    assert stack.release(stack.look()) is Release.RELEASED
    assert stack.state() == "free"
    item = stack.look().item
    assert datetime.fromisoformat(item["released_at"]).tzinfo is UTC
    assert "owner" not in item
    following = stack.acquire()
    assert (following.taken_over, following.checkpoint) == (True, CHECKPOINT)
    assert following.token > killed.token
    following.release()
    assert not stack.acquire().taken_over


SINCE: dict[str, tuple[Release, Callable[[Any, Lock], object]]] = {
    "another holder came": (Release.CHANGED, lambda stack, _: stack.held()),
    "its lease was prolonged": (Release.CHANGED, lambda _, lock: lock.refresh(LEASE_SECONDS)),
    "it was released": (Release.FREE, lambda _, lock: lock.release()),
    "it was completed": (Release.FREE, lambda _, lock: lock.complete()),
    "its record was deleted": (Release.FREE, lambda stack, _: stack.delete()),
}


@pytest.mark.parametrize(("answer", "happens"), SINCE.values(), ids=SINCE)
def test_a_lock_that_changed_since_the_look_stays_as_it_is(
    stack: Any, answer: Release, happens: Callable[[Any, Lock], object]
) -> None:
    late = stack.lapsed()
    seen = stack.look()
    happens(stack, late)
    before = stack.item()
    assert stack.release(seen) is answer
    assert stack.item() == before


def test_a_record_without_an_owner_is_released_too(stack: Any) -> None:
    """One that was made by hand."""
    stack.put({"leased_until": "2026-01-01T00:00:00+00:00"})
    assert stack.release(stack.look()) is Release.RELEASED
    assert stack.state() == "free"


@pytest.mark.parametrize("write", ["save_checkpoint", "complete"])
@pytest.mark.parametrize("is_taken", [False, True], ids=["free since", "taken by another run"])
def test_a_holder_at_work_whose_lock_is_released_by_force_learns_it_at_its_next_write(
    stack: Any, write: str, is_taken: bool
) -> None:
    at_work = stack.held()
    assert stack.release(stack.look()) is Release.RELEASED
    if is_taken:
        stack.held()
    before = stack.look()
    with pytest.raises(LockLost):
        at_work.save_checkpoint({"after": "acc-2"}) if write == "save_checkpoint" else at_work.complete()
    assert stack.look() == before


FAULTS = [fault for fault in Fault if applies(fault, "UpdateItem")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.value)
@pytest.mark.parametrize("meanwhile", [False, True], ids=["nobody since", "taken by another run since"])
def test_a_release_that_fails_at_its_call_leaves_a_sound_record_and_can_be_made_again(
    stack: Any, fault: Fault, meanwhile: bool
) -> None:
    stack.lapsed()
    seen, faults = stack.look(), Faults(fault, at=1)
    first: Any = None
    try:
        with faults.on(stack.dynamodb):
            first = stack.release(seen)
    except (Killed, Exception):  # noqa: BLE001 (the command ends)
        pass
    assert faults.injected[fault] >= 1
    assert first in (None, Release.RELEASED)
    assert stack.state() in (["free"] if first else ["free", "lapsed"])
    following = stack.held() if meanwhile else None
    again = stack.release(seen)
    assert again in ([Release.CHANGED] if meanwhile else [Release.RELEASED, Release.FREE])
    following = following or stack.held()
    assert following.taken_over
    following.complete()
    assert stack.look().windows_done == [WINDOW]
