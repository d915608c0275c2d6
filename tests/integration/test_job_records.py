"""A job's records in the Locks table, as the command reads them after real locks and runs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conditional_writes import Item
from conditional_writes.locks import Locks, LockTaken
from tests.support.locks_stack import LocksStack
from tools.local_aws.server import Endpoint
from tools.teller.job_records import JOBS, read_job
from workers.segments import RunRecord, Segment

JOB = JOBS["reconcile_accounts"]
NIGHTS = [f"2026-03-0{day}T02:00:00+00:00" for day in range(1, 8)]


class Stack(LocksStack):
    def run(self, night: str, segments: int = 1, *, finished: bool = True) -> None:
        """A run whose segments end, all of them or all but the last."""
        record = RunRecord(self.locks, JOB.name, night)
        record.begin(segments)
        for number in range(1, segments + finished):
            segment = Segment(number, segments)
            lock = self.locks.acquire(segment.lock_of(JOB.name), lease_seconds=60, why=_why(night), window=night)
            lock.complete(record.part(segment, {"accounts": number}))
        record.finish(segments, lambda parts: {"accounts": sum(part["accounts"] for part in parts)})


def _why(night: str) -> str:
    return f"for {night}, request r"


@pytest.fixture
def stack(dynamodb: Endpoint) -> Any:
    return Stack(dynamodb)


def test_the_last_runs_come_with_their_reports_the_latest_first(stack: Any) -> None:
    found = read_job(stack, JOB)
    assert (found.locks, found.runs, found.last_done) == ([], [], None)
    for night in NIGHTS:
        stack.clock.seconds += 86400
        stack.run(night)
    found = read_job(stack, JOB)
    assert [(run.scheduled_time, run.report) for run in found.runs] == [
        (each, {"accounts": 1}) for each in NIGHTS[::-1]
    ]
    assert found.last_done == found.runs[0]
    assert found.runs[0].finished_at == stack.now


def test_forced_runs_for_times_ahead_do_not_hide_the_last_night(stack: Any) -> None:
    for day in range(1, 6):
        stack.run(f"9999-01-0{day}T02:00:00+00:00")
    stack.run(NIGHTS[0])
    assert [run.scheduled_time[:10] for run in read_job(stack, JOB).runs][:2] == [NIGHTS[0][:10], "9999-01-05"]


def test_a_late_run_for_an_earlier_time_is_the_last_that_was_done(stack: Any) -> None:
    stack.run(NIGHTS[5])
    stack.clock.seconds += 60
    stack.run(NIGHTS[2])
    assert read_job(stack, JOB).last_done.scheduled_time == NIGHTS[2]


def test_runs_with_other_numbers_of_segments_are_found(stack: Any) -> None:
    stack.run(NIGHTS[0])
    stack.run(NIGHTS[1], segments=3)
    stack.run(NIGHTS[2], segments=2, finished=False)
    for number in (1, 57, 100):
        stack.put({"lock_key": f"{JOB.name} segment {number} of 100"})
    found = read_job(stack, JOB)
    segments = [(1, 1), (1, 2), (1, 3), (2, 3), (3, 3), (1, 100), (57, 100), (100, 100)]
    assert [lock.segment for lock in found.locks] == segments
    unfinished, *finished = [(run.scheduled_time, run.finished_at is not None, run.report) for run in found.runs]
    assert unfinished == (NIGHTS[2], False, {})
    assert finished == [(NIGHTS[1], True, {"accounts": 6}), (NIGHTS[0], True, {"accounts": 1})]


def test_a_lock_is_free_then_held_then_lapsed_just_when_another_may_take_it(stack: Any) -> None:
    stack.run(NIGHTS[0])
    [lock] = read_job(stack, JOB).locks
    assert (lock.state(stack.now), lock.owner, lock.working_on) == ("free", None, None)
    held = stack.locks.acquire(JOB.name, lease_seconds=60, why=_why(NIGHTS[1]), window=NIGHTS[1])
    held.save_checkpoint({"after": "acc-7"})
    [lock] = read_job(stack, JOB).locks
    assert (lock.working_on, lock.checkpoint) == (NIGHTS[1], {"after": "acc-7"})
    states = [lock.state(stack.now + timedelta(seconds=seconds)) for seconds in (0, 60, 61, 61.001)]
    assert states == ["held", "held", "held", "lapsed"]
    another = Locks(stack.client("dynamodb"), stack.table, now=stack.clock)
    stack.clock.seconds += 60.9
    with pytest.raises(LockTaken):
        another.acquire(JOB.name, lease_seconds=1)
    stack.clock.seconds += 0.2
    another.acquire(JOB.name, lease_seconds=1, window=NIGHTS[1]).release()
    [lock] = read_job(stack, JOB).locks
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
    [lock] = read_job(stack, JOB).locks
    assert (lock.state(datetime.now(UTC)), lock.holder, lock.checkpoint) == (state, {}, None)
