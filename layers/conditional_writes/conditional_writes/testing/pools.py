"""Thread pools of workers: their threads are scheduled, too."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from unittest import mock

from conditional_writes.testing.schedule import Stuck, current


@contextlib.contextmanager
def scheduled_pools() -> Iterator[None]:
    """Calls that a worker submits to a ThreadPoolExecutor are scheduled, without a limit on its threads.

    `submit`, `map`, `result`, `exception` and the end of the pool's block wait as the schedule knows; what waits
    otherwise, as `as_completed` and a Thread of the worker's own, is no part of any order.
    """
    submit, shutdown, start = ThreadPoolExecutor.submit, ThreadPoolExecutor.shutdown, threading.Thread.start
    result, exception = Future.result, Future.exception
    submitted: dict[int, list[Future[Any]]] = {}

    def scheduled_submit(pool: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **names: Any) -> Any:
        if (running := current()) is None:
            return submit(pool, call, *args, **names)
        schedule, thread = running
        future = schedule.submit(thread, lambda: call(*args, **names))
        submitted.setdefault(id(pool), []).append(future)
        return future

    def scheduled_shutdown(pool: ThreadPoolExecutor, *args: Any, **names: Any) -> None:
        for future in submitted.pop(id(pool), ()):
            _wait(future)
        shutdown(pool, *args, **names)

    def scheduled_result(future: Future[Any], timeout: float | None = None) -> Any:
        _wait(future)
        return result(future, timeout)

    def scheduled_exception(future: Future[Any], timeout: float | None = None) -> Any:
        _wait(future)
        return exception(future, timeout)

    def refused_start(thread: threading.Thread) -> None:
        if current() is not None:
            raise Stuck("a worker starts a thread of its own: the schedule knows those of a ThreadPoolExecutor alone")
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
