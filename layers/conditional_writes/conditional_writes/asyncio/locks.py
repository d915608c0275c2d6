"""Locks, by a client whose calls are awaited."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from conditional_writes.asyncio.driver import awaitable
from conditional_writes.core.items import Item
from conditional_writes.core.requests import Check, Write
from conditional_writes.core.steps import Deadline
from conditional_writes.locks import Lock, Locks
from conditional_writes.locks.lock import check_window, wall_clock

_acquire = awaitable(Locks.acquire)
_refresh, _save_checkpoint = awaitable(Lock.refresh), awaitable(Lock.save_checkpoint)
_release, _complete = awaitable(Lock.release), awaitable(Lock.complete)


class AsyncLock:
    """A `Lock` whose calls are awaited."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    @property
    def token(self) -> int:
        return self._lock.token

    @property
    def leased_until(self) -> float:
        return self._lock.leased_until

    @property
    def taken_over(self) -> bool:
        return self._lock.taken_over

    @property
    def checkpoint(self) -> Item | None:
        return self._lock.checkpoint

    def condition_check(self) -> Check:
        return self._lock.condition_check()

    async def refresh(self, lease_seconds: float) -> None:
        await _refresh(self._lock, lease_seconds)

    async def save_checkpoint(self, checkpoint: Item, *writes: Write) -> None:
        await _save_checkpoint(self._lock, checkpoint, *writes)

    async def release(self) -> None:
        await _release(self._lock)

    async def complete(self, *writes: Write) -> None:
        await _complete(self._lock, *writes)


class AsyncLocks:
    """`Locks` whose calls are awaited, and whose blocks begin with `async with`."""

    def __init__(
        self,
        client: Any,
        table: str,
        *,
        clock_skew_seconds: float = 1.0,
        now: Callable[[], float] = wall_clock,
    ) -> None:
        self._locks = Locks(client, table, clock_skew_seconds=clock_skew_seconds, now=now)

    async def acquire(
        self,
        name: str,
        *,
        lease_seconds: float,
        why: str = "",
        window: str | None = None,
        deadline: Deadline | None = None,
    ) -> AsyncLock:
        """As `Locks.acquire`."""
        return AsyncLock(
            await _acquire(self._locks, name, lease_seconds=lease_seconds, why=why, window=window, deadline=deadline)
        )

    @contextlib.asynccontextmanager
    async def hold(
        self, name: str, *, lease_seconds: float, why: str = "", deadline: Deadline | None = None
    ) -> AsyncIterator[AsyncLock]:
        """As `Locks.hold`."""
        lock = await self.acquire(name, lease_seconds=lease_seconds, why=why, deadline=deadline)
        async with _completed_unless_failed(lock):
            yield lock

    @contextlib.asynccontextmanager
    async def once(
        self, name: str, window: str, *, lease_seconds: float, why: str = "", deadline: Deadline | None = None
    ) -> AsyncIterator[AsyncLock]:
        """As `Locks.once`."""
        check_window(window)
        lock = await self.acquire(name, lease_seconds=lease_seconds, why=why, window=window, deadline=deadline)
        async with _completed_unless_failed(lock):
            yield lock


@contextlib.asynccontextmanager
async def _completed_unless_failed(lock: AsyncLock) -> AsyncIterator[None]:
    """The block's own error is raised, even if the release fails, too. A cancelled block releases, too."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            await lock.release()
        raise
    await lock.complete()
