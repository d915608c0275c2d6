"""The release of a job's lock by an operator, on both engines: no holder is thrown out that came since the look."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from conditional_writes import Deadline, Item, key, read
from conditional_writes.core.items import to_dynamodb
from conditional_writes.locks import Lock, LockLost
from tests.support.faults import Fault, Faults, Killed, applies
from tests.support.locks_stack import LocksStack
from tools.local_aws.server import Endpoint
from tools.teller.job_records import LockRecord
from tools.teller.job_release import Release, release

NAME, WINDOW, CHECKPOINT = "reconcile_accounts", "2026-03-01T02:00:00+00:00", {"after": "acc-1"}
LEASE_SECONDS = 60


class Deployed(LocksStack):
    """The stack and the runs of a job in it."""

    def acquire(self) -> Lock:
        return self.locks.acquire(NAME, lease_seconds=LEASE_SECONDS, window=WINDOW)

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

    def item(self) -> Item | None:
        wanted = key(self.table, lock_key=NAME)
        return read(self.client("dynamodb"), [wanted], Deadline.after(10))[wanted]

    def look(self) -> LockRecord:
        return LockRecord(NAME, self.item() or {})

    def state(self) -> str:
        return self.look().state(self.now)

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
    following = deployed.acquire()
    assert (following.taken_over, following.checkpoint) == (True, CHECKPOINT)
    assert following.token > killed.token
    following.release()
    assert not deployed.acquire().taken_over


SINCE: dict[str, tuple[Release, Callable[[Deployed, Lock], object]]] = {
    "another holder came": (Release.CHANGED, lambda deployed, _: deployed.held()),
    "its lease was prolonged": (Release.CHANGED, lambda _, lock: lock.refresh(LEASE_SECONDS)),
    "it was released": (Release.FREE, lambda _, lock: lock.release()),
    "it was completed": (Release.FREE, lambda _, lock: lock.complete()),
    "its record was deleted": (
        Release.FREE,
        lambda deployed, _: deployed.client("dynamodb").delete_item(
            TableName=deployed.table, Key=to_dynamodb({"lock_key": NAME})
        ),
    ),
}


@pytest.mark.parametrize(("answer", "happens"), SINCE.values(), ids=SINCE)
def test_a_lock_that_changed_since_the_look_stays_as_it_is(
    deployed: Deployed, answer: Release, happens: Callable[[Deployed, Lock], object]
) -> None:
    late = deployed.lapsed()
    seen = deployed.look()
    happens(deployed, late)
    before = deployed.item()
    assert deployed.release(seen) is answer
    assert deployed.item() == before


def test_a_record_without_an_owner_is_released_too(deployed: Deployed) -> None:
    """One that was made by hand."""
    deployed.put({"lock_key": NAME, "leased_until": "2026-01-01T00:00:00+00:00"})
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
    deployed: Deployed, fault: Fault, meanwhile: bool
) -> None:
    deployed.lapsed()
    seen, faults = deployed.look(), Faults(fault, at=1)
    first: Any = None
    try:
        with faults.on(deployed.client("dynamodb")):
            first = deployed.release(seen)
    except (Killed, Exception):  # noqa: BLE001 (the command ends)
        pass
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
