"""A lock for jobs that must not run at the same time, or not twice for one window: a lease, in one item of a table.

A holder has the lock until it releases it or its lease is over, by the wall clock. The record stays when it is
released, so that tokens only grow and a window that is done stays done. Nothing watches a record to see whether it
still changes: who starts fresh, as a Lambda does, sees a lease that lapsed long ago at once.

A lease protects nothing by itself: a holder that was paused for longer doesn't know it. What must not be written by
such a one is written in a transaction with the lock's `condition_check`, or where its token is checked.
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
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from conditional_writes.conditions import Condition, any_of, at_least, contains, equals, more_than
from conditional_writes.deadline import Deadline
from conditional_writes.items import Item, Key, copied
from conditional_writes.loop import OutcomeUnknown, Plan, write
from conditional_writes.requests import Check, Update, Write
from conditional_writes.versioned import Conflict, write_together

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

CALL_SECONDS = 10
"""For a request, its retries included."""
LONGEST_PAUSE_SECONDS = 1.0
REMEMBERED_WINDOWS = 100
REMEMBERED_SECONDS = 90 * 24 * 3600
"""After its lease DynamoDB's TTL removes a record that nobody uses, in `expires_at`; it decides nothing."""


class LockTaken(Exception):
    """Another has the lock. `holder` says who, where, and why; `leased_until` until when, if it isn't prolonged."""

    def __init__(self, name: str, holder: Item, leased_until: datetime) -> None:
        super().__init__(name, holder, leased_until)
        self.name, self.holder, self.leased_until = name, holder, leased_until

    def __str__(self) -> str:
        return f"lock {self.name!r} is taken until {self.leased_until.isoformat()}: {_described(self.holder)}"


class WindowDone(Exception):
    """The window was done before: there is nothing to do."""

    def __init__(self, name: str, window: str) -> None:
        super().__init__(name, window)
        self.name, self.window = name, window

    def __str__(self) -> str:
        return f"lock {self.name!r}: window {self.window} was done before"


class LockLost(Exception):
    """The lease was over, and another took the lock: `holder` is the one that has or had it since.

    Without a `holder` the record is gone, or the lock was given back before.
    """

    def __init__(self, name: str, token: int, holder: Item | None, why: str) -> None:
        super().__init__(name, token, holder, why)
        self.name, self.token, self.holder, self.why = name, token, holder, why

    def __str__(self) -> str:
        return f"lock {self.name!r} with token {self.token} was lost; {self.why}"


def _described(holder: Item) -> str:
    """The engines hand the names back in any order."""
    said = [f"{name} {holder[name]}" for name in ("who", "where", "why", "since") if name in holder]
    return ", ".join(said) or "its record doesn't say by whom"


def _holder_in(record: Item) -> Item:
    """A record that was made by hand may have none."""
    holder = record.get("holder")
    return holder if isinstance(holder, dict) else {}


class Lock:
    """A lock held.

    `token` is an integer, greater than that of any earlier holder. `leased_until` is in seconds since the epoch.
    `checkpoint` is the last that was saved in this window, if its holder didn't complete it.
    """

    def __init__(self, locks: "Locks", key: Key, held: "_Held", record: Item) -> None:
        self._locks, self._key, self._held = locks, key, held
        self._windows_done: list[str] = record.get("windows_done", [])
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

    def refresh(self, lease_seconds: float) -> None:
        """Prolongs the lease: it lasts at least this long from now on, and is never made shorter. Raises LockLost.

        A request of an earlier call that comes late, or of another thread, doesn't make it shorter, either.
        """
        _check_lease(lease_seconds)
        until = max(self._locks.now() + lease_seconds, self.leased_until)
        values = {"leased_until": _spelled(until), "expires_at": _expiry(until)}
        self._write(values, unless=more_than("leased_until", values["leased_until"]))
        self._held = self._held._replace(leased_until=until)

    def save_checkpoint(self, checkpoint: Item, *writes: Write) -> None:
        """Notes in the lock's record how far the work has come, for whom it may fall to next.

        What `writes` do takes effect together with it, or not at all. The record has one place: that of another window,
        which wasn't finished, is lost. Raises LockLost, and Conflict where a condition of the writes doesn't hold.
        """
        self._write({"checkpoint": {"window": self._held.window, "saved": checkpoint}}, writes=writes)
        self.checkpoint = copied(checkpoint)

    def release(self) -> None:
        """Gives the lock back; again, it does nothing. A window isn't done by that.

        Raises LockLost where the lease was over and another took it.
        """
        self._give_back({})

    def complete(self, *writes: Write) -> None:
        """Gives the lock back with its window done, and makes these writes together with that.

        Raises LockLost, and then the window isn't done by this holder; and Conflict, as `keep` does. Where the lock was
        given back before it does nothing, and with writes, which would be without the lock, it raises LockLost.
        """
        mine = () if self.checkpoint is None else ("checkpoint",)  # else it is another window's, which isn't done
        self._give_back(self._with_this_window_done(), mine, writes)

    def condition_check(self) -> Check:
        """For the transaction of a write that only the holder may make: it fails once the lock is another's."""
        return Check(self._key, equals("owner", self._held.owner))

    def _with_this_window_done(self) -> Item:
        if self._held.window is None:
            return {}
        windows = sorted([*self._windows_done, self._held.window])
        forgotten = windows[:-REMEMBERED_WINDOWS]
        done = {"windows_done": windows[-REMEMBERED_WINDOWS:]}
        return done | ({"windows_done_through": forgotten[-1]} if forgotten else {})

    def _give_back(self, values: Item, removed: tuple[str, ...] = (), writes: Sequence[Write] = ()) -> None:
        if self._released and not writes:
            return
        values = values | {"released_at": _spelled(self._locks.now())}
        self._write(values, ("owner", "leased_until", *removed), writes)
        self._released = True

    def _write(
        self,
        values: Item,
        removed: tuple[str, ...] = (),
        writes: Sequence[Write] = (),
        unless: Condition | None = None,
    ) -> None:
        """Writes to the record while it is this holder's; where `unless` holds there is no need to."""
        if self._released:
            raise self._lost(None, "it was given back before")
        mine = equals("owner", self._held.owner)
        update = Update(self._key, values, mine if unless is None else mine & ~unless, removed)
        try:
            write_together(self._locks.client, [update, *writes], deadline=Deadline.after(CALL_SECONDS))
        except (Conflict, OutcomeUnknown) as error:
            if error.key != self._key or not self._is_settled(error, update, writes):
                raise

    def _is_settled(self, refusal: Conflict | OutcomeUnknown, update: Update, writes: Sequence[Write]) -> bool:
        """Whether nothing is left to do: the record is as it should be. Raises LockLost where the lock is another's."""
        found, gives_back = refusal.found, "released_at" in update.values
        if found is not None and found.get("owner") == self._held.owner:
            return True  # its lease is longer already
        if found is not None and found.get("token") == self.token:
            if gives_back and self._was_given_back_so(found, update, writes):
                return True
            raise self._lost(None, "it was given back before") from None
        if isinstance(refusal, OutcomeUnknown) and (gives_back or found is None):
            return False
        if found is None:
            raise self._lost(None, "its record is gone") from None
        holder = _holder_in(found)
        raise self._lost(holder, f"since then: {_described(holder)}") from None

    def _was_given_back_so(self, found: Item, update: Update, writes: Sequence[Write]) -> bool:
        """By an earlier call that got no answer, or by another thread: the same, as far as the record can say."""
        if self._held.window is not None and "windows_done" in update.values:
            return _is_done(self._held.window, found)
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
    """The locks of a table with the key `lock_key`. For threads and a warm Lambda, too: nothing is kept between calls.

    `clock_skew_seconds`: what the clocks of those who use it may be apart. A lease is taken for over only when it is so
    by this much.
    """

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        *,
        clock_skew_seconds: float = 1.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not 0 <= clock_skew_seconds < math.inf:
            raise ValueError(f"clock_skew_seconds: expected 0 or more, got {clock_skew_seconds}")
        self.client, self.table, self.now = client, table, now
        self.clock_skew_seconds = clock_skew_seconds

    def acquire(
        self,
        name: str,
        *,
        lease_seconds: float,
        why: str = "",
        window: str | None = None,
        deadline: Deadline | None = None,
    ) -> Lock:
        """Takes the lock, at once or never; with a deadline it waits until then for others to release it.

        `why` is for the person who reads the table. A `window` is a text that sorts by time, such as
        "2026-02-28T04:00:00Z": it is done once. The last hundred that were are remembered, whatever their order; what
        is earlier than all of those counts as done.

        Raises LockTaken and WindowDone, and ValueError before anything is sent. One request, and one for each try while
        it waits.
        """
        _check_lease(lease_seconds)
        if window == "":
            raise ValueError("window: expected a text that sorts by time, got an empty one")
        wanted = _Wanted(Key(self.table, (("lock_key", name),)), name, lease_seconds, why, window)
        pause_seconds = 0.05
        while True:
            try:
                written = write(
                    self.client,
                    lambda observed: self._plan(wanted, observed.get(wanted.key)),
                    {},
                    Deadline.after(CALL_SECONDS),
                )
                return Lock(self, wanted.key, written.result, written.found[wanted.key] or {})
            except LockTaken as taken:
                if deadline is None or deadline.remaining_seconds <= 0:
                    raise
                lapses_in = taken.leased_until.timestamp() + self.clock_skew_seconds - self.now()
                longest = min(pause_seconds, max(0.01, lapses_in), deadline.remaining_seconds)
                time.sleep(max(0.0, random.uniform(longest / 2, longest)))  # the deadline passes meanwhile
                pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    @contextlib.contextmanager
    def hold(
        self, name: str, *, lease_seconds: float, why: str = "", deadline: Deadline | None = None
    ) -> Iterator[Lock]:
        """The lock for a block. An error in the block passes through, and the lock is given back before.

        A place that was kept is for the next holder where the block failed, and forgotten where it didn't.
        """
        lock = self.acquire(name, lease_seconds=lease_seconds, why=why, deadline=deadline)
        with _given_back(lock):
            yield lock
        lock.complete()

    @contextlib.contextmanager
    def once(
        self, name: str, window: str, *, lease_seconds: float, why: str = "", deadline: Deadline | None = None
    ) -> Iterator[Lock]:
        """The lock for a block that runs at most once for this window, unless it fails: then it is given back.

        Raises WindowDone, before the block, when it was done.
        """
        lock = self.acquire(name, lease_seconds=lease_seconds, why=why, window=window, deadline=deadline)
        with _given_back(lock):
            yield lock
        lock.complete()

    def _plan(self, wanted: "_Wanted", found: Item | None) -> Plan[_Held]:
        key, name, lease_seconds, why, window = wanted
        now = self.now()  # before the write: the lease is never longer than its holder thinks
        lapsed = _spelled(now - self.clock_skew_seconds)
        if found is not None:
            if window is not None and _is_done(window, found):
                raise WindowDone(name, window)
            if found.get("leased_until", "") >= lapsed:
                raise LockTaken(name, _holder_in(found), _read(found["leased_until"]))
        token = max(int(now * 1_000_000), int((found or {}).get("token", 0)) + 1)
        held = _Held(name, uuid.uuid4().hex, token, now + lease_seconds, window)
        values = {
            "owner": held.owner,
            "token": token,
            "leased_until": _spelled(held.leased_until),
            "expires_at": _expiry(held.leased_until),
            "holder": _holder() | {"since": _spelled(now)} | ({"why": why} if why else {}),
        }
        taken = [at_least("leased_until", lapsed), at_least("token", token)]
        if window is not None:
            taken += [contains("windows_done", window), at_least("windows_done_through", window)]
        free: Condition = ~any_of(taken)
        return Plan(held, [Update(key, values, free, return_new=True)])


def _check_lease(lease_seconds: float) -> None:
    if not 0 < lease_seconds < math.inf:
        raise ValueError(f"lease_seconds: expected more than 0, got {lease_seconds}")


def _is_done(window: str, record: Item) -> bool:
    return window in record.get("windows_done", ()) or window <= record.get("windows_done_through", "")


@contextlib.contextmanager
def _given_back(lock: Lock) -> Iterator[None]:
    """What the block raises is raised, whatever becomes of the lock."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            lock.release()
        raise


def _holder() -> dict[str, str]:
    """Who and where, for the person who reads the table."""
    return {
        "who": os.environ.get("AWS_LAMBDA_FUNCTION_NAME") or f"{Path(sys.argv[0]).name} {os.getpid()}",
        "where": os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME") or socket.gethostname(),
    }


def _spelled(seconds: float) -> str:
    """Sorts as the times do."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def _read(spelled: str) -> datetime:
    """Made by hand it may be any text: a lease lasts for as long as its text sorts after the time."""
    try:
        time_there = datetime.fromisoformat(spelled)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return time_there if time_there.tzinfo else time_there.replace(tzinfo=UTC)


def _expiry(leased_until: float) -> int:
    return int(leased_until) + REMEMBERED_SECONDS
