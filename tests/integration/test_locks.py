"""Locks. Docstrings name other libraries' errors, with the numbers of their issues."""

import pickle
import re
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from conditional_writes import (
    Conflict,
    Deadline,
    Key,
    OutcomeUnknown,
    Put,
    absent,
    exists,
    key,
    write_together,
)
from conditional_writes.core.items import from_dynamodb
from conditional_writes.locks import Lock, LockLost, Locks, LockTaken, LockUnreadable, WindowDone, WindowForgotten
from conditional_writes.locks import lock as lock_module
from conditional_writes.testing import Engine
from tests.support.clock import START, Clock
from tests.support.faults import Fault, Faults, between_tries
from tests.support.new_tables import calls_of, new_table
from tools.local_aws.server import Endpoint

pytestmark = pytest.mark.usefixtures("driver")


class Table:
    def __init__(self, dynamodb: Endpoint) -> None:
        self.dynamodb, self.client = dynamodb, dynamodb.client("dynamodb")
        self.name = new_table(self.client, {"lock_key": "S"})
        self.clock = Clock()

    def locks(self) -> Any:
        """A `Locks` as in another process, with a client of its own whose calls are counted."""
        client = self.dynamodb.client("dynamodb")
        locks: Any = Locks(client, self.name, now=self.clock)
        locks.calls = calls_of(client)
        return locks

    def key(self, name: str = "nightly") -> Key:
        return key(self.name, lock_key=name)

    def record(self, name: str = "nightly") -> dict[str, Any]:
        found = self.client.get_item(TableName=self.name, Key={"lock_key": {"S": name}}, ConsistentRead=True)
        return from_dynamodb(found["Item"])

    def delete(self, name: str = "nightly") -> None:
        self.client.delete_item(TableName=self.name, Key={"lock_key": {"S": name}})


@pytest.fixture
def table(dynamodb: Endpoint) -> Table:
    return Table(dynamodb)


@pytest.fixture
def mine(table: Table) -> Any:
    return table.locks()


@pytest.fixture
def theirs(table: Table) -> Any:
    return table.locks()


def acquire(locks: Any, lease_seconds: float = 60, **options: Any) -> Lock:
    lock: Lock = locks.acquire("nightly", lease_seconds=lease_seconds, **options)
    return lock


def test_a_holder_knows_whether_the_one_before_released_the_lock(table: Table, mine: Any, theirs: Any) -> None:
    first = acquire(mine)
    first.release()
    table.clock.seconds += 0.001
    acquire(theirs)  # Never released.
    table.clock.seconds += 100
    third = acquire(mine)
    third.complete()
    table.clock.seconds += 0.001
    fourth = acquire(theirs)
    assert [lock.taken_over for lock in (first, third, fourth)] == [False, True, False]
    record = table.record()
    assert (record["times_acquired"], record["last_released"]) == (4, 3)


def test_each_step_is_one_request(table: Table, mine: Any, theirs: Any) -> None:
    lock = acquire(mine)
    lock.refresh(60)
    with pytest.raises(LockTaken):
        acquire(theirs)
    lock.release()
    table.clock.seconds += 0.001
    acquire(theirs)
    table.clock.seconds += 100
    acquire(mine)  # Takes over the lapsed lock.
    assert mine.calls == ["UpdateItem"] * 4
    assert theirs.calls == ["UpdateItem"] * 2


def test_one_who_is_refused_learns_by_whom_and_until_when(table: Table, mine: Any, theirs: Any) -> None:
    lock = acquire(mine, why="reconcile 2026-02-28")
    with pytest.raises(LockTaken) as caught:
        acquire(theirs)
    assert caught.value.leased_until.timestamp() == lock.leased_until == START + 60
    assert caught.value.holder["why"] == "reconcile 2026-02-28"
    assert caught.value.holder.keys() == {"who", "where", "since", "why"}
    assert "until 2027-01-15T08:01:00+00:00: who " in str(caught.value)
    assert "why reconcile 2026-02-28" in str(caught.value)


def test_a_lease_that_lapsed_is_seen_by_one_who_starts_fresh(table: Table, mine: Any) -> None:
    """amazon-dynamodb-lock-client #34, #44, #93; dynamolock #778; python_dynamodb_lock #366."""
    acquire(mine, lease_seconds=60)
    table.clock.seconds += 60.9
    with pytest.raises(LockTaken):  # The lease has lapsed by less than the clock skew.
        acquire(table.locks())
    table.clock.seconds += 0.2
    acquire(table.locks())


def test_tokens_only_grow(table: Table, mine: Any, theirs: Any) -> None:
    """After release, expiry, deletion and TTL, and with a slow clock; amazon-dynamodb-lock-client #1."""
    tokens = [acquire(mine).token]
    table.clock.seconds += 100  # The lease has expired.
    lock = acquire(theirs)
    tokens.append(lock.token)
    lock.release()
    tokens.append(acquire(mine).token)  # At the same instant.
    table.clock.seconds += 100
    table.delete()
    lock = acquire(theirs)
    tokens.append(lock.token)
    lock.release()
    table.clock.seconds -= 0.9
    lock = acquire(mine)
    tokens.append(lock.token)
    assert all(isinstance(token, int) for token in tokens)
    assert tokens == sorted(set(tokens))


def test_a_late_holder_does_not_release_its_successors_lock(table: Table, mine: Any, theirs: Any) -> None:
    """ShedLock's release has no owner."""
    late = acquire(mine, why="first")
    table.clock.seconds += 100
    lock = acquire(theirs, why="second")
    for step in (lambda: late.refresh(60), late.release, late.complete):
        with pytest.raises(LockLost, match=r"since then: .*why second") as caught:
            step()
        assert caught.value.token == late.token
    lock.refresh(60)
    lock.release()


def test_a_second_release_is_harmless_and_the_lock_can_be_had_again(table: Table, mine: Any, theirs: Any) -> None:
    """dynamodblock: a reused object's second release does nothing, so that a warm Lambda never releases the lock."""
    for _ in range(3):
        table.clock.seconds += 0.001
        lock = acquire(mine)
        lock.release()
        table.clock.seconds += 0.001
        theirs.acquire("nightly", lease_seconds=60).release()
        lock.release()
    assert mine.calls == ["UpdateItem"] * 6


class OurOwnError(BaseException):
    pass


def fail_while_holding(locks: Any, error: BaseException, before: Callable[[], object]) -> None:
    with locks.hold("nightly", lease_seconds=60):
        before()
        raise error


@pytest.mark.parametrize("error", [ValueError("x"), OurOwnError(), KeyboardInterrupt(), LockTaken("other", {}, None)])  # type: ignore[arg-type]
@pytest.mark.parametrize("lost", [False, True])
def test_an_error_in_the_block_passes_through_untouched(
    table: Table, mine: Any, error: BaseException, lost: bool
) -> None:
    """python-dynamodb-lock #426 swallows exceptions. The seed's code swallows its own conditional failure."""
    with pytest.raises(type(error)) as caught:
        fail_while_holding(mine, error, table.delete if lost else list)
    assert caught.value is error
    acquire(table.locks())


def test_a_paused_holders_fenced_write_is_refused(table: Table, mine: Any, theirs: Any) -> None:
    paused = acquire(mine)
    effect = key(table.name, lock_key="effect")
    write_together(table.client, [Put(effect, {"by": "first"}), paused.condition_check()])
    table.clock.seconds += 100
    write_together(table.client, [Put(effect, {"by": "first, late, but alone"}), paused.condition_check()])
    successor = acquire(theirs)
    with pytest.raises(Conflict):
        write_together(table.client, [Put(effect, {"by": "first, too late"}), paused.condition_check()])
    write_together(table.client, [Put(effect, {"by": "second"}), successor.condition_check()])
    assert table.record("effect")["by"] == "second"


INFINITE, NAN = float("inf"), float("nan")
MISUSES: list[tuple[str, Callable[[Any, Any], object], Iterable[Any]]] = [
    ("lease_seconds: expected more than 0", acquire, (0, -5, NAN, INFINITE)),
    (
        "clock_skew_seconds: expected 0 or more",
        lambda locks, seconds: Locks(locks.client, "Locks", clock_skew_seconds=seconds),
        (-1, NAN, INFINITE),
    ),
    (
        "window: expected a text that sorts by time",
        lambda locks, window: run(locks, window, []),
        ("", 5, date(2026, 2, 28), None),
    ),
    ("window: expected a text", lambda locks, window: acquire(locks, window=window), (5, date(2026, 2, 28))),
]


@pytest.mark.parametrize(("sentence", "misuse", "values"), MISUSES)
def test_what_cannot_be_meant_is_refused_before_anything_is_sent(
    mine: Any, sentence: str, misuse: Callable[[Any, Any], object], values: Iterable[Any]
) -> None:
    for value in values:
        with pytest.raises((TypeError, ValueError), match=sentence):
            misuse(mine, value)
    assert mine.calls == []
    with pytest.raises(ValueError, match="lease_seconds: expected more than 0"):
        acquire(mine).refresh(NAN)


@pytest.mark.parametrize(
    ("leased_until", "said"),
    [
        ("2027-06-01", r"until 2027-06-01T00:00:00\+00:00: its record doesn't say by whom"),
        ("until I say so", "until 9999-12-31"),
    ],
)
def test_a_person_can_hold_the_lock_by_hand(table: Table, mine: Any, leased_until: str, said: str) -> None:
    record = key(table.name, lock_key="nightly")
    write_together(table.client, [Put(record, {"leased_until": leased_until})])
    with pytest.raises(LockTaken, match=said) as caught:
        acquire(mine)
    assert caught.value.holder == {}
    write_together(table.client, [Put(record, {"checkpoint": {"by": "hand"}})])
    assert acquire(mine).checkpoint is None


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("leased_until", 1_900_000_000, "a text"),
        ("token", "1", "a number"),
        ("times_acquired", "once", "a number"),
        ("last_released", [], "a number"),
        ("windows_done", "2026-03-01", "a list of texts"),
        ("windows_done_through", 20260301, "a text"),
    ],
)
def test_a_record_that_cannot_be_read_is_not_taken_for_a_free_lock(
    table: Table, mine: Any, attribute: str, value: object, expected: str
) -> None:
    record = key(table.name, lock_key="nightly")
    write_together(table.client, [Put(record, {attribute: value})])
    before = table.record()
    sentence = re.escape(f"can't be read; {attribute}: expected {expected}, got {value!r}")
    with pytest.raises(LockUnreadable, match=rf"lock 'nightly': its record in the table {table.name} {sentence}$"):
        acquire(mine, window="2026-03-01", deadline=Deadline.after(60))
    assert table.record() == before
    table.delete()
    acquire(mine)


def before_the_next_request(locks: Any, do: Callable[[], object]) -> None:
    events = locks.client.meta.events

    def do_it(**_: Any) -> None:
        events.unregister("before-send", do_it)
        do()

    events.register_first("before-send", do_it)


def test_a_refresh_that_comes_late_does_not_make_the_lease_shorter(table: Table, mine: Any, theirs: Any) -> None:
    """A shorter refresh that is sent before a longer one, and arrives after it: a lost attempt or another thread's."""
    lock = acquire(mine, lease_seconds=1)
    before_the_next_request(mine, lambda: lock.refresh(60))
    lock.refresh(10)
    assert lock.leased_until == table.clock.seconds + 60
    table.clock.seconds += 60
    with pytest.raises(LockTaken):
        acquire(theirs)
    lock.release()


def test_after_the_release_nothing_is_written_for_the_lock(table: Table, mine: Any) -> None:
    lock = acquire(mine, window="2026-02-28")
    lock.release()
    report = key(table.name, lock_key="report")
    for step in (lambda: lock.refresh(60), lambda: lock.save_checkpoint({}), lambda: lock.complete(Put(report, {}))):
        with pytest.raises(LockLost, match="it was released before"):
            step()
    lock.complete()
    assert len(mine.calls) == 2
    assert "windows_done" not in table.record()


def test_one_who_waits_asks_seldom_and_gets_it_when_it_is_released() -> None:
    """dynamo-dlm put 1,284 times in a wait of 2.4 s. Pauses double, up to half a second at least."""
    with Engine() as engine, engine.simulated_time() as clock:
        client = engine.client()
        locks = Locks(client, new_table(client, {"lock_key": "S"}))
        held, until = acquire(locks, why="long"), clock.time() + 2.4
        with pytest.raises(LockTaken, match="why long"):
            acquire(locks, deadline=Deadline.after(0.3))
        calls, releases = calls_of(client), iter([held.release])

        def release_at_the_time(**_: Any) -> None:
            if clock.time() > until:
                for release in releases:
                    release()

        client.meta.events.register("before-call", release_at_the_time)
        acquire(locks, deadline=Deadline.after(30))
    assert len(calls) <= 13


# --- once ------------------------------------------------------------------------------------------------


def run(locks: Any, window: str, effects: list[str], fail: bool = False) -> None:
    with locks.once("nightly", window, lease_seconds=60):
        if fail:
            raise RuntimeError("the job failed")
        effects.append(window)


def test_a_window_is_done_once_and_a_failed_one_is_given_back(table: Table, mine: Any, theirs: Any) -> None:
    effects: list[str] = []
    with pytest.raises(RuntimeError, match="the job failed"):
        run(mine, "2026-02-28", effects, fail=True)
    run(theirs, "2026-02-28", effects)
    with pytest.raises(WindowDone, match="window 2026-02-28 was done before"):
        run(mine, "2026-02-28", effects)
    table.clock.seconds += 1000
    run(mine, "2026-03-01", effects)
    with pytest.raises(WindowDone):
        run(theirs, "2026-02-28", effects)
    assert effects == ["2026-02-28", "2026-03-01"]


def test_a_window_that_was_missed_can_be_done_after_a_later_one(table: Table, mine: Any) -> None:
    effects: list[str] = []
    for window in ("2026-02-28", "2026-02-27"):
        table.clock.seconds += 1
        run(mine, window, effects)
        with pytest.raises(WindowDone):
            run(mine, window, effects)
    assert effects == ["2026-02-28", "2026-02-27"]


def test_a_window_that_may_be_forgotten_is_not_run_nor_said_to_be_done(
    table: Table, mine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These windows don't sort by time. The first of May is the second text, after one that is forgotten by then."""
    monkeypatch.setattr(lock_module, "REMEMBERED_WINDOWS", 3)
    effects: list[str] = []
    days = ["27/04/2026", "28/04/2026", "29/04/2026", "30/04/2026"]
    for window in days:
        table.clock.seconds += 1
        run(mine, window, effects)
    table.clock.seconds += 1
    before = table.record()
    with pytest.raises(WindowForgotten) as caught:
        run(mine, "01/05/2026", effects)
    assert str(caught.value) == (
        "lock 'nightly': window 01/05/2026 isn't remembered, and isn't later than 27/04/2026, the latest forgotten "
        "one: it may have been done. Windows must sort as texts by time: use ISO dates"
    )
    assert caught.value.latest_forgotten == "27/04/2026"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert effects == days
    assert table.record() == before


@pytest.mark.parametrize("window", [None, "2026-02-28"])
def test_losing_the_lock_is_found_at_the_end_of_the_block_and_its_window_is_not_done(
    table: Table, mine: Any, theirs: Any, window: str | None
) -> None:
    def outlive_the_lease(block: Any) -> None:
        with block:
            table.clock.seconds += 100
            acquire(theirs)

    with pytest.raises(LockLost):
        outlive_the_lease(
            mine.once("nightly", window, lease_seconds=60) if window else mine.hold("nightly", lease_seconds=60)
        )
    assert "windows_done" not in table.record()


# --- a checkpoint ------------------------------------------------------------------------------------------


def test_the_next_holder_of_a_window_gets_its_checkpoint(table: Table, mine: Any, theirs: Any) -> None:
    lock = acquire(mine, window="2026-02-28")
    assert lock.checkpoint is None
    lock.save_checkpoint({"after": "acc-7", "seen": 7})
    table.clock.seconds += 100  # The holder was killed.
    lock = acquire(theirs, window="2026-02-28")
    assert lock.checkpoint == {"after": "acc-7", "seen": 7}
    lock.save_checkpoint({"after": "acc-9", "seen": 9})
    lock.release()
    table.clock.seconds += 1
    lock = acquire(mine, window="2026-02-28")
    assert lock.checkpoint == {"after": "acc-9", "seen": 9}
    lock.complete()
    assert "checkpoint" not in table.record()
    assert len(mine.calls) == 4


def test_a_window_without_a_checkpoint_has_none_and_leaves_that_of_another(table: Table, mine: Any) -> None:
    acquire(mine, window="2026-02-28").save_checkpoint({"after": "acc-7"})
    table.clock.seconds += 100
    other = acquire(mine, window="2026-03-01")
    assert other.checkpoint is None
    other.complete()
    table.clock.seconds += 1
    assert acquire(mine, window="2026-02-28").checkpoint == {"after": "acc-7"}


def hold(locks: Any, checkpoint: dict[str, Any] | None, fail: bool) -> None:
    with locks.hold("nightly", lease_seconds=60) as lock:
        assert lock.checkpoint == checkpoint
        lock.save_checkpoint({"after": "acc-7"})
        if fail:
            raise RuntimeError("the job failed")


def test_a_checkpoint_is_forgotten_once_its_block_has_ended_well(table: Table, mine: Any) -> None:
    with pytest.raises(RuntimeError, match="the job failed"):
        hold(mine, None, fail=True)
    for checkpoint in ({"after": "acc-7"}, None):
        table.clock.seconds += 1
        hold(mine, checkpoint, fail=False)


@pytest.mark.parametrize("step", ["save_checkpoint", "complete"])
def test_what_is_written_with_a_step_takes_effect_with_it_or_not_at_all(
    table: Table, mine: Any, theirs: Any, step: str
) -> None:
    def take(lock: Lock, *writes: Put) -> None:
        lock.save_checkpoint({"after": "acc-7"}, *writes) if step == "save_checkpoint" else lock.complete(*writes)

    lock = acquire(mine, window="2026-02-28")
    report = key(table.name, lock_key="report")
    with pytest.raises(Conflict) as caught:  # Its own condition failed, not the lock's.
        take(lock, Put(report, {}, exists("lock_key")))
    assert caught.value.key == report
    assert table.record().keys().isdisjoint({"checkpoint", "windows_done"})
    table.clock.seconds += 100
    successor = acquire(theirs, window="2026-02-28")
    with pytest.raises(LockLost):
        take(lock, Put(report, {"by": "first"}))
    take(successor, Put(report, {"by": "second"}))
    assert table.record("report")["by"] == "second"
    assert table.record()["checkpoint" if step == "save_checkpoint" else "windows_done"]


# --- faults ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.RESPONSE_LOST, Fault.THROTTLED, Fault.SERVER_ERROR])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_fault_never_makes_one_lose_to_oneself(table: Table, mine: Any, fault: Fault, at: int) -> None:
    """Four Python libraries report a failure although they hold the lock."""
    with Faults(fault, at).on(mine.client) as faults:
        lock = acquire(mine)
        lock.refresh(90)
        lock.release()
    assert faults.injected
    acquire(table.locks())


def test_a_release_that_was_lost_and_followed_by_another_holder_is_not_called_a_loss(
    table: Table, mine: Any, theirs: Any
) -> None:
    lock = acquire(mine)
    table.clock.seconds += 0.001
    between_tries(mine.client, lambda: acquire(theirs))
    with Faults(Fault.RESPONSE_LOST, 1).on(mine.client), pytest.raises(OutcomeUnknown, match="others have written"):
        lock.release()


@pytest.mark.parametrize("step", [lambda lock: lock.refresh(10), lambda lock: lock.save_checkpoint({})])
def test_a_step_that_was_lost_and_followed_by_another_holder_is_a_loss(
    table: Table, mine: Any, theirs: Any, step: Callable[[Lock], None]
) -> None:
    lock = acquire(mine)

    def take_over() -> None:
        table.clock.seconds += 100
        acquire(theirs, why="second")

    between_tries(mine.client, take_over)
    with Faults(Fault.RESPONSE_LOST, 1).on(mine.client), pytest.raises(LockLost, match="why second"):
        step(lock)


@pytest.mark.parametrize("step", ["release", "complete", "complete with writes"])
def test_a_second_release_after_every_response_was_lost_is_harmless(table: Table, mine: Any, step: str) -> None:
    lock = acquire(mine, window="2026-02-28")
    report = key(table.name, lock_key="report")
    writes = [Put(report, {}, absent("lock_key"))] if step == "complete with writes" else []

    def give_back() -> None:
        lock.release() if step == "release" else lock.complete(*writes)

    with Faults(Fault.ALL_RESPONSES_LOST, 1).on(mine.client), pytest.raises(ReadTimeoutError):
        give_back()
    give_back()
    give_back_calls = len(mine.calls)
    lock.release()
    assert len(mine.calls) == give_back_calls
