"""Locks for jobs that must not run at the same time, or not twice for one window: a lease, in one item of a table.

A holder has the lock until it releases it, or until its lease ends by the wall clock. The record outlives the lease, so
that fencing tokens only grow and completed windows are remembered. A lease alone doesn't stop a holder that was paused
for longer than its lease: its writes go into a transaction with the lock. See docs/decisions/wall-clock-lease.md.
"""

import contextlib
import math
import os
import random
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from conditional_writes.core.items import Item, Key, copied
from conditional_writes.core.loop import OutcomeUnknown, Plan, Stopped, write
from conditional_writes.core.requests import (
    Check,
    Condition,
    Update,
    Write,
    all_of,
    any_of,
    at_least,
    contains,
    equals,
    more_than,
)
from conditional_writes.core.steps import Deadline, Pause, Steps, blocking, deadline_or_default, steps
from conditional_writes.core.together import Conflict
from conditional_writes.locks.errors import LockLost, LockTaken, LockUnreadable, WindowDone, WindowForgotten, described

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

CALL_SECONDS = 10
"""The time in which the tries of one write may begin. The last one may take `client.SLOWEST_CALL_SECONDS` more."""
LONGEST_PAUSE_SECONDS = 1.0
REMEMBERED_WINDOWS = 100
REMEMBERED_SECONDS = 90 * 24 * 3600
"""How long an unused record outlives its lease, until DynamoDB's TTL removes it, by `expires_at`. Decides nothing."""

_TYPES = {
    "leased_until": "S",
    "token": "N",
    "times_acquired": "N",
    "last_released": "N",
    "windows_done": "L",
    "windows_done_through": "S",
}
_IN_PYTHON: dict[str, tuple[type, str]] = {
    "S": (str, "a text"),
    "N": (Decimal, "a number"),
    "L": (list, "a list of texts"),
}

READABLE = all_of(
    Condition("attribute_not_exists({}) OR attribute_type({}, [])", (name, name), (kind,))
    for name, kind in _TYPES.items()
)
"""Each of the attributes that decide who gets the lock is absent, or has its type.

DynamoDB compares values of different types as unequal, so that a lease's end that is a number would be none.
"""


def wall_clock() -> float:
    """The seconds since the epoch: `time.time` as it is now, for a test may have put its own clock there."""
    return time.time()


def _holder_in(record: Item) -> Item:
    """The record's holder; empty if the record was made by hand, and has none."""
    holder = record.get("holder")
    return holder if isinstance(holder, dict) else {}


class Lock:
    """A lock that is held.

    `token` is an integer, greater than that of any earlier holder. `leased_until` is in seconds since the epoch.
    `checkpoint` is the last checkpoint that was saved for the lock's window; None if none was saved. `taken_over` says
    whether the holder before this one never released the lock: it died, or was paused for longer than its lease.

    Each call may also raise DeadlinePassed, OutcomeUnknown, NoSuchTable and botocore's other errors, as `write` does.
    After OutcomeUnknown and botocore's errors it may have taken effect: call again, or let the lease end.
    """

    def __init__(self, locks: "Locks", key: Key, held: "_Held", record: Item) -> None:
        self._locks, self._key, self._held = locks, key, held
        self._windows_done: list[str] = record.get("windows_done", [])
        self._number = record.get("times_acquired", 1)
        self.taken_over: bool = record.get("last_released", 0) < self._number - 1
        self.checkpoint: Item | None = None
        match record.get("checkpoint"):
            case {"window": held.window, "saved": checkpoint}:
                self.checkpoint = checkpoint
        self._released = False

    @property
    def token(self) -> int:
        return self._held.token

    @property
    def leased_until(self) -> float:
        return self._held.leased_until

    @blocking
    def refresh(self, lease_seconds: float) -> Steps[None]:
        """Prolongs the lease, so that it lasts at least this long from now. Raises LockLost.

        No call makes the lease shorter, even if its request arrives after that of a later call or another thread.
        """
        _check_lease(lease_seconds)
        until = max(self._locks.now() + lease_seconds, self.leased_until)
        values = {"leased_until": _timestamp(until), "expires_at": _expiry(until)}
        yield from self._write(values, unless=more_than("leased_until", values["leased_until"]))
        self._held = self._held._replace(leased_until=max(until, self.leased_until))

    @blocking
    def save_checkpoint(self, checkpoint: Item, *writes: Write) -> Steps[None]:
        """Saves a checkpoint so that the next holder can resume.

        The checkpoint and the `writes` take effect together, or none does. The record has one checkpoint, which
        replaces that of another window. Raises LockLost, and Conflict if a condition of the writes doesn't hold.
        """
        yield from self._write({"checkpoint": {"window": self._held.window, "saved": checkpoint}}, writes=writes)
        self.checkpoint = copied(checkpoint)

    @blocking
    def release(self) -> Steps[None]:
        """Releases the lock; the window isn't completed. A second call does nothing.

        Raises LockLost if another holder took the lock over.
        """
        return self._release({})

    @blocking
    def complete(self, *writes: Write) -> Steps[None]:
        """Releases the lock with its window completed. The `writes` take effect together with that, or none does.

        Raises Conflict if a condition of the writes doesn't hold, and LockLost: then this holder doesn't complete the
        window. After a release, `complete()` does nothing, and `complete(*writes)` raises LockLost. If an earlier call
        of `complete` got no answer and took effect, this one returns, and its own `writes` are not made: a repetition
        has the same writes.
        """
        # Another window's checkpoint stays: that window isn't completed.
        finished = () if self.checkpoint is None else ("checkpoint",)
        return self._release(self._with_this_window_done(), finished, writes)

    def condition_check(self) -> Check:
        """A check for a transaction that only this holder may write: it fails if the holder has lost the lock."""
        return Check(self._key, equals("owner", self._held.owner))

    def _with_this_window_done(self) -> Item:
        if self._held.window is None:
            return {}
        windows = sorted([*self._windows_done, self._held.window])
        forgotten = windows[:-REMEMBERED_WINDOWS]
        done = {"windows_done": windows[-REMEMBERED_WINDOWS:]}
        return done | ({"windows_done_through": forgotten[-1]} if forgotten else {})

    def _release(self, values: Item, removed: tuple[str, ...] = (), writes: Sequence[Write] = ()) -> Steps[None]:
        if self._released and not writes:
            return
        values = values | {"released_at": _timestamp(self._locks.now()), "last_released": self._number}
        yield from self._write(values, ("owner", "leased_until", *removed), writes)
        self._released = True

    def _write(
        self,
        values: Item,
        removed: tuple[str, ...] = (),
        writes: Sequence[Write] = (),
        unless: Condition | None = None,
    ) -> Steps[None]:
        """Writes to the record if it is still this holder's. If `unless` holds, the record needs no write."""
        if self._released:
            raise self._lost(None, "it was released before")
        mine = equals("owner", self._held.owner)
        update = Update(self._key, values, mine if unless is None else mine & ~unless, removed)
        plan, deadline = Plan(None, [update, *writes], once=True), Deadline.after(CALL_SECONDS)
        try:
            written = yield from steps(write)(self._locks.client, lambda _: plan, {}, deadline, stop=lambda _: True)
        except OutcomeUnknown as error:
            if error.key != self._key:  # one of the caller's own writes
                raise
            self._accept_or_raise(error.found, error, update, writes)
            return
        if isinstance(written, Stopped):
            refused = next(each for each in plan.writes if each.key in written.found)
            if refused is not update:
                raise Conflict(refused, written.found[refused.key])
            self._accept_or_raise(written.found[self._key], None, update, writes)

    def _accept_or_raise(
        self, record: Item | None, unknown: OutcomeUnknown | None, update: Update, writes: Sequence[Write]
    ) -> None:
        """Returns if the record is as the update would leave it. Raises LockLost, or `unknown` if that is all."""
        releases = "released_at" in update.values
        if record is None:
            if unknown:
                raise unknown  # the first try may have taken effect, and no record can tell
            raise self._lost(None, "its record is gone") from None

        if record.get("owner") == self._held.owner:
            return  # still held, so `unless` holds: the lease is longer already

        if record.get("token") == self.token:  # released, and nobody has held it since
            if releases and self._was_released_likewise(record, update, writes):
                return
            raise self._lost(None, "it was released before") from None

        # Another holder has the lock, or had it since.
        if releases and unknown:
            raise unknown  # the first try may have released it in time
        holder = _holder_in(record)
        raise self._lost(holder, f"since then: {described(holder)}") from None

    def _was_released_likewise(self, record: Item, update: Update, writes: Sequence[Write]) -> bool:
        """Whether the record's release did the same as this one: an earlier try, or another thread, was first."""
        if self._held.window is not None and "windows_done" in update.values:
            return _is_done(self._held.window, record)
        return not writes

    def _lost(self, holder: Item | None, why: str) -> LockLost:
        return LockLost(self._held.name, self.token, holder, why)


class _Held(NamedTuple):
    name: str
    owner: str
    token: int
    leased_until: float
    window: str | None


class _Wanted(NamedTuple):
    key: Key
    name: str
    lease_seconds: float
    why: str
    window: str | None


class Locks:
    """The locks of a table with the key `lock_key`. Threads may share the object: it holds no state of a lock.

    `clock_skew_seconds` is the largest difference between the clocks of all users: a lease is taken over only so long
    after its end. `now` returns the seconds since the epoch.

    Each call may also raise DeadlinePassed, OutcomeUnknown, NoSuchTable and botocore's other errors, as `write` does.
    After OutcomeUnknown and botocore's errors the lock may be taken, by nobody who knows: it is free when the lease
    ends.
    """

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        *,
        clock_skew_seconds: float = 1.0,
        now: Callable[[], float] = wall_clock,
    ) -> None:
        _check_number("clock_skew_seconds", clock_skew_seconds)
        if not 0 <= clock_skew_seconds < math.inf:
            raise ValueError(f"clock_skew_seconds: expected 0 or more, got {clock_skew_seconds}")
        self.client, self.table, self.now = client, table, now
        self.clock_skew_seconds = clock_skew_seconds

    @blocking
    def acquire(
        self,
        name: str,
        *,
        lease_seconds: float,
        why: str = "",
        window: str | None = None,
        deadline: Deadline | None = None,
    ) -> Steps[Lock]:
        """Takes the lock at once, or raises LockTaken.

        With a deadline the call waits until then for a release, and then tries once more, for at most `CALL_SECONDS`.

        `why` is for people who read the table. A `window` is a text that sorts by time, such as "2026-02-28T04:00:00Z",
        and is done once: WindowDone is raised if it was completed before. The record remembers the hundred latest of
        the completed windows, by the order of texts. For an older window that isn't remembered, WindowForgotten is
        raised: it may have been completed.

        Raises ValueError, before any request, for a lease that isn't above 0 and finite, and for an empty window, and
        TypeError for a lease, a window or a deadline of another type. Raises LockUnreadable if the record isn't one of
        a lock. Costs one request, and while the call waits one for each try.
        """
        _check_lease(lease_seconds)
        if deadline is not None:
            deadline = deadline_or_default(deadline)
        if window is not None:
            check_window(window)
        wanted = _Wanted(Key(self.table, (("lock_key", name),)), name, lease_seconds, why, window)
        pause_seconds = 0.05
        while True:
            try:
                written = yield from steps(write)(
                    self.client,
                    lambda observed: self._plan(wanted, observed.get(wanted.key)),
                    {},
                    Deadline.after(CALL_SECONDS),
                )
                return (yield from self._made(wanted, written.result, written.found[wanted.key] or {}))
            except LockTaken as taken:
                if deadline is None or deadline.remaining_seconds <= 0:
                    raise
                lapses_in = taken.leased_until.timestamp() + self.clock_skew_seconds - self.now()
                longest = min(pause_seconds, max(0.01, lapses_in), deadline.remaining_seconds)
                yield Pause(max(0.0, random.uniform(longest / 2, longest)))  # the deadline may pass in between
                pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    @contextlib.contextmanager
    def hold(
        self, name: str, *, lease_seconds: float, why: str = "", deadline: Deadline | None = None
    ) -> Iterator[Lock]:
        """The lock for a block. If the block fails, the lock is released and the error passes through.

        After a failed block the next holder gets the saved checkpoint. After any other block the checkpoint is removed.
        """
        lock = self.acquire(name, lease_seconds=lease_seconds, why=why, deadline=deadline)
        with _completed_unless_failed(lock):
            yield lock

    @contextlib.contextmanager
    def once(
        self, name: str, window: str, *, lease_seconds: float, why: str = "", deadline: Deadline | None = None
    ) -> Iterator[Lock]:
        """The lock for a block that completes at most once for this window. A block that fails can be tried again.

        `window` is a text that sorts by time: an ISO date, "2026-02-28", not "28/02/2026" or a UUID. Raises WindowDone
        before the block if the window was completed. The lock remembers the hundred latest windows, by the order of
        texts. If a window isn't among them, and isn't later than the latest forgotten one, nobody knows whether it was
        completed: the block doesn't run, and WindowForgotten is raised.
        """
        check_window(window)
        lock = self.acquire(name, lease_seconds=lease_seconds, why=why, window=window, deadline=deadline)
        with _completed_unless_failed(lock):
            yield lock

    def _made(self, wanted: "_Wanted", held: _Held, record: Item) -> Steps[Lock]:
        lock = Lock(self, wanted.key, held, record)
        if wrong := why_unreadable(record):  # DynamoDB has no condition for all elements of a list
            yield from steps(Lock.release)(lock)
            raise LockUnreadable(wanted.name, self.table, wrong)
        return lock

    def _plan(self, wanted: "_Wanted", found: Item | None) -> Plan[_Held]:
        key, name, lease_seconds, why, window = wanted
        now = self.now()  # before the request: for the holder the lease ends no later than for others
        lapsed = _timestamp(now - self.clock_skew_seconds)
        if found is not None:
            if wrong := why_unreadable(found):
                raise LockUnreadable(name, self.table, wrong)
            if window is not None and _is_done(window, found):
                if window in found.get("windows_done", ()):
                    raise WindowDone(name, window)
                raise WindowForgotten(name, window, found["windows_done_through"])
            if found.get("leased_until", "") >= lapsed:
                raise LockTaken(name, _holder_in(found), _time_of(found["leased_until"]))
        token = max(int(now * 1_000_000), int((found or {}).get("token", 0)) + 1)
        held = _Held(name, uuid.uuid4().hex, token, now + lease_seconds, window)
        values = {
            "owner": held.owner,
            "token": token,
            "leased_until": _timestamp(held.leased_until),
            "expires_at": _expiry(held.leased_until),
            "holder": _holder() | {"since": _timestamp(now)} | ({"why": why} if why else {}),
        }
        taken = [at_least("leased_until", lapsed), at_least("token", token)]
        if window is not None:
            taken += [contains("windows_done", window), at_least("windows_done_through", window)]
        free = READABLE & ~any_of(taken)
        return Plan(held, [Update(key, values, free, added={"times_acquired": 1}, return_new=True)])


def _check_number(parameter: str, seconds: float) -> None:
    if not isinstance(seconds, int | float):
        raise TypeError(f"{parameter}: expected a number of seconds, got {seconds!r}")


def _check_lease(lease_seconds: float) -> None:
    _check_number("lease_seconds", lease_seconds)
    if not 0 < lease_seconds < math.inf:
        raise ValueError(f"lease_seconds: expected more than 0, got {lease_seconds}")


def check_window(window: str) -> None:
    if not isinstance(window, str):
        raise TypeError(f"window: expected a text that sorts by time, such as an ISO date, got {window!r}")
    if not window:
        raise ValueError("window: expected a text that sorts by time, got an empty one")


def _is_done(window: str, record: Item) -> bool:
    """Whether the window counts as done. If the record has forgotten it, that isn't known."""
    return window in record.get("windows_done", ()) or window <= record.get("windows_done_through", "")


@contextlib.contextmanager
def _completed_unless_failed(lock: Lock) -> Iterator[None]:
    """The block's own error is raised, even if the release fails, too."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            lock.release()
        raise
    lock.complete()


def _holder() -> dict[str, str]:
    """The process and its host, for people who read the table."""
    return {
        "who": os.environ.get("AWS_LAMBDA_FUNCTION_NAME") or f"{Path(sys.argv[0]).name} {os.getpid()}",
        "where": os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME") or socket.gethostname(),
    }


def _timestamp(seconds: float) -> str:
    """A time as a text that sorts by time."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def _time_of(timestamp: str) -> datetime:
    """The time in a record. A text that was written by hand, and is no time, stands for the year 9999."""
    try:
        time_there = datetime.fromisoformat(timestamp)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return time_there if time_there.tzinfo else time_there.replace(tzinfo=UTC)


def _expiry(leased_until: float) -> int:
    return int(leased_until) + REMEMBERED_SECONDS


def why_unreadable(record: Item) -> str | None:
    """A sentence about the first of these attributes that isn't of its type, or None."""
    for name in (name for name in _TYPES if name in record):
        value, (kind, expected) = record[name], _IN_PYTHON[_TYPES[name]]
        windows = value if isinstance(value, list) else []
        if not isinstance(value, kind) or not all(isinstance(window, str) for window in windows):
            return f"{name}: expected {expected}, got {value if isinstance(value, Decimal) else repr(value)}"
    return None
