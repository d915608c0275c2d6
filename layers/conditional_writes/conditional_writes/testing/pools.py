"""Thread pools of workers: their threads are scheduled, too."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

from conditional_writes.testing.schedule import Stuck, current


@dataclass
class _Pool:
    """The futures of a pool's calls, and the calls that no thread has begun."""

    futures: list[Future[Any]] = field(default_factory=list)
    waiting: deque[tuple[Future[Any], Callable[[], Any]]] = field(default_factory=deque)
    threads: int = 0

    def work(self, pool: ThreadPoolExecutor) -> None:
        """A thread of the pool, until nothing waits."""
        try:
            if pool._initializer is not None:
                pool._initializer(*pool._initargs)
            while self.waiting:
                _finish(*self.waiting.popleft())
        except BaseException as error:  # noqa: BLE001 (the initializer's: no call of the pool can be made)
            for future, _ in self.waiting:
                future.set_exception(error)
            self.waiting.clear()
        finally:
            self.threads -= 1


def _finish(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return  # cancelled before it began
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 (the future has it)
        future.set_exception(error)


@contextlib.contextmanager
def scheduled_pools() -> Iterator[None]:
    """Calls that a worker submits to a ThreadPoolExecutor are scheduled, as many at a time as the pool has threads.

    `submit`, `map`, `result`, `exception` and the end of the pool's block wait as the schedule knows; what waits
    otherwise, as `as_completed` and a Thread of the worker's own, is no part of any order.
    """
    submit, shutdown, start = ThreadPoolExecutor.submit, ThreadPoolExecutor.shutdown, threading.Thread.start
    result, exception = Future.result, Future.exception
    pools: WeakKeyDictionary[ThreadPoolExecutor, _Pool] = WeakKeyDictionary()

    def scheduled_submit(pool: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **names: Any) -> Any:
        if (running := current()) is None:
            return submit(pool, call, *args, **names)
        schedule, thread = running
        known, future = pools.setdefault(pool, _Pool()), Future[Any]()
        known.futures.append(future)
        known.waiting.append((future, partial(call, *args, **names)))
        if known.threads < pool._max_workers:
            known.threads += 1
            schedule.begin(thread, partial(known.work, pool))
        return future

    def scheduled_shutdown(pool: ThreadPoolExecutor, *args: Any, **names: Any) -> None:
        for future in pools.pop(pool, _Pool()).futures:
            _wait(future)
        shutdown(pool, *args, **names)

    def scheduled_result(future: Future[Any], timeout: float | None = None) -> Any:
        _wait(future)
        return result(future, timeout)

    def scheduled_exception(future: Future[Any], timeout: float | None = None) -> Any:
        _wait(future)
        return exception(future, timeout)

    def refused_start(thread: threading.Thread) -> None:
        if (running := current()) is not None:
            schedule, _ = running
            schedule.trouble = Stuck(
                "a worker starts a thread of its own: the schedule knows those of a ThreadPoolExecutor alone"
            )
            raise schedule.trouble
        start(thread)

    with (
        mock.patch.multiple(ThreadPoolExecutor, submit=scheduled_submit, shutdown=scheduled_shutdown),
        mock.patch.multiple(Future, result=scheduled_result, exception=scheduled_exception),
        mock.patch.object(threading.Thread, "start", refused_start),
    ):
        yield


def _wait(future: Future[Any]) -> None:
    if (running := current()) is not None:
        schedule, thread = running
        schedule.wait(thread, future)
