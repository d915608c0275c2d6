"""The release of a job's lock by an operator, on both engines: no holder is thrown out that came since the look."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from conditional_writes import Deadline, key, read
from conditional_writes.items import to_dynamodb
from conditional_writes.locks import Lock, LockLost, Locks
from tests.support.clock import Clock
from tests.support.faults import Fault, Faults, Killed, applies
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table
from tools.teller.job_records import LockRecord
from tools.teller.job_release import Release, release
from workers.segments import Segment

NAME, WINDOW, CHECKPOINT = "reconcile_accounts", "2026-03-01T02:00:00+00:00", {"after": "acc-1"}
LEASE_SECONDS = 60

_numbers = itertools.count(1)


class Deployed:
    """The stack, as far as a release needs it, and the runs of a job in it."""

    def __init__(self, dynamodb: Endpoint) -> None:
        self._client = dynamodb.client("dynamodb")
        self.table, self.clock = create_locks_table(dynamodb, f"release-{next(_numbers)}"), Clock()
        self.locks = Locks(self._client, self.table, now=self.clock)

    def __getitem__(self, output: str) -> str:
        assert output == "LocksTableName"
        return self.table

    def client(self, service: str) -> Any:
        assert service == "dynamodb"
        return self._client

    def held(self) -> Lock:
        """The lock of a run that has saved a checkpoint, and isn't released."""
        self.clock.seconds += 1
        lock = self.locks.acquire(NAME, lease_seconds=LEASE_SECONDS, window=WINDOW)
        lock.save_checkpoint(CHECKPOINT)
        return lock

    def lapsed(self) -> Lock:
        lock = self.held()
        self.clock.seconds += 2 * LEASE_SECONDS
        return lock

    def look(self) -> LockRecord:
        wanted = key(self.table, lock_key=NAME)
        item = read(self._client, [wanted], Deadline.after(10))[wanted]
        assert item
        return LockRecord(NAME, Segment(), item)

    def state(self) -> str:
        return self.look().state(datetime.fromtimestamp(self.clock.seconds, UTC))

    def release(self, seen: LockRecord) -> Release:
        return release(self, seen)  # type: ignore[arg-type]


@pytest.fixture
def deployed(dynamodb: Endpoint) -> Deployed:
    return Deployed(dynamodb)


def test_a_lapsed_lock_is_free_and_the_next_holder_learns_that_the_last_one_was_killed(deployed: Deployed) -> None:
    killed = deployed.lapsed()
    assert deployed.state() == "lapsed"
    assert deployed.release(deployed.look()) is Release.RELEASED
    assert deployed.state() == "free"
    item = deployed.look().item
    assert datetime.fromisoformat(item["released_at"]).tzinfo is UTC
    assert "owner" not in item
    following = deployed.locks.acquire(NAME, lease_seconds=LEASE_SECONDS, window=WINDOW)
    assert (following.taken_over, following.checkpoint) == (True, CHECKPOINT)
    assert following.token > killed.token
    following.release()
    assert not deployed.locks.acquire(NAME, lease_seconds=LEASE_SECONDS, window=WINDOW).taken_over


def test_a_holder_that_came_since_the_look_keeps_the_lock(deployed: Deployed) -> None:
    deployed.lapsed()
    seen, new = deployed.look(), deployed.held()
    assert deployed.release(seen) is Release.CHANGED
    new.save_checkpoint({"after": "acc-2"})
    new.complete()


def test_a_holder_that_prolonged_its_lease_since_the_look_keeps_the_lock(deployed: Deployed) -> None:
    late = deployed.lapsed()
    seen = deployed.look()
    late.refresh(LEASE_SECONDS)
    assert deployed.release(seen) is Release.CHANGED
    late.complete()


@pytest.mark.parametrize("end", [Lock.release, Lock.complete], ids=["released", "completed"])
def test_a_lock_that_was_released_since_the_look_stays_as_it_is(
    deployed: Deployed, end: Callable[[Lock], None]
) -> None:
    late = deployed.lapsed()
    seen = deployed.look()
    end(late)
    before = deployed.look()
    assert deployed.release(seen) is Release.FREE
    assert deployed.look() == before


def test_a_record_that_was_deleted_since_the_look_is_not_made_again(deployed: Deployed) -> None:
    deployed.lapsed()
    seen = deployed.look()
    deployed.client("dynamodb").delete_item(TableName=deployed.table, Key=to_dynamodb({"lock_key": NAME}))
    assert deployed.release(seen) is Release.FREE
    wanted = key(deployed.table, lock_key=NAME)
    assert read(deployed.client("dynamodb"), [wanted], Deadline.after(10))[wanted] is None


def test_a_record_without_an_owner_is_released_too(deployed: Deployed) -> None:
    """One that was made by hand."""
    item = {"lock_key": NAME, "leased_until": "2026-01-01T00:00:00+00:00"}
    deployed.client("dynamodb").put_item(TableName=deployed.table, Item=to_dynamodb(item))
    assert deployed.release(deployed.look()) is Release.RELEASED
    assert deployed.state() == "free"


@pytest.mark.parametrize("write", ["save_checkpoint", "complete"])
@pytest.mark.parametrize("is_taken", [False, True], ids=["free since", "taken by another run"])
def test_a_holder_at_work_whose_lock_is_released_by_force_learns_it_at_its_next_write(
    deployed: Deployed, write: str, is_taken: bool
) -> None:
    at_work = deployed.held()
    assert deployed.release(deployed.look()) is Release.RELEASED
    if is_taken:
        deployed.held()
    before = deployed.look()
    with pytest.raises(LockLost):
        at_work.save_checkpoint({"after": "acc-2"}) if write == "save_checkpoint" else at_work.complete()
    assert deployed.look() == before


FAULTS = [fault for fault in Fault if applies(fault, "UpdateItem")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.value)
@pytest.mark.parametrize("meanwhile", [False, True], ids=["nobody since", "taken by another run since"])
def test_a_release_that_fails_at_its_call_leaves_a_sound_record_and_can_be_made_again(
    dynamodb: Endpoint, fault: Fault, meanwhile: bool
) -> None:
    deployed = Deployed(dynamodb)
    deployed.lapsed()
    seen, faults = deployed.look(), Faults(fault, at=1)
    try:
        with faults.on(deployed.client("dynamodb")):
            first = deployed.release(seen)
    except (Killed, Exception):  # noqa: BLE001 (the command ends)
        first = None
    assert faults.injected[fault] >= 1
    assert first in (None, Release.RELEASED)
    assert deployed.state() in (["free"] if first else ["free", "lapsed"])
    following = deployed.held() if meanwhile else None
    again = deployed.release(seen)
    assert again in ([Release.CHANGED] if meanwhile else [Release.RELEASED, Release.FREE])
    following = following or deployed.held()
    assert following.taken_over
    following.complete()
    assert deployed.look().windows_done == [WINDOW]
