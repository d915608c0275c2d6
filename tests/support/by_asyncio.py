"""The library's calls by its driver for asyncio: the same tests, and each call is awaited in an event loop."""

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Self
from unittest import mock

import pytest
from botocore.client import BaseClient

from conditional_writes.asyncio import AsyncExactlyOnce, AsyncLock, AsyncLocks, AsyncModelTable, AsyncVersionedTable
from conditional_writes.asyncio.driver import awaitable
from conditional_writes.core import steps
from conditional_writes.exactly_once import ExactlyOnce
from conditional_writes.locks import Lock, Locks
from conditional_writes.models import ModelTable
from conditional_writes.versioned import VersionedTable
from conditional_writes.versioned.queries import Pages

CALLS = {
    VersionedTable: ["load", "load_many", "get", "save", "put_many", "update", "add", "delete", "modify", "upsert"],
    ModelTable: ["load", "load_many", "get", "save", "put_many", "delete", "modify", "upsert"],
    ExactlyOnce: ["run"],
    Lock: ["refresh", "save_checkpoint", "release", "complete"],
}


class Answer(dict[str, Any]):
    """A client's answer that can be awaited, too."""

    def __await__(self) -> Generator[None, None, Self]:
        yield from ()
        return self


@contextlib.contextmanager
def calls_are_awaited() -> Iterator[None]:
    """Each call of a table, a function or a lock is that of its counterpart in `conditional_writes.asyncio`."""
    call = BaseClient._make_api_call  # type: ignore[attr-defined]
    with contextlib.ExitStack() as patched:
        for owner, names in CALLS.items():
            for name in names:
                patched.enter_context(mock.patch.object(owner, name, _awaited(owner, name)))
        for patch in (
            mock.patch.object(BaseClient, "_make_api_call", lambda *given: Answer(call(*given))),
            mock.patch.object(Pages, "read_page", lambda pages: _run(_read_page(pages))),
            mock.patch.object(Locks, "acquire", _acquire),
            mock.patch.object(steps, "check_awaited"),  # such a client is of both kinds
            mock.patch("asyncio.sleep", _sleep),
        ):
            patched.enter_context(patch)
        yield


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Its result. A call within another's plan, as of another writer, has an event loop in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, coroutine).result()


def _awaited(owner: Any, name: str) -> Callable[..., Any]:
    blocking = getattr(owner, name)

    @functools.wraps(blocking)
    def call(of: Any, *arguments: Any, **named: Any) -> Any:
        return _run(getattr(_counterpart(of), name)(*arguments, **named))

    vars(call)["__wrapped__"] = vars(blocking)["__wrapped__"]
    return call


def _counterpart(of: Any) -> Any:
    match of:
        case VersionedTable():
            table = AsyncVersionedTable.__new__(AsyncVersionedTable)
            vars(table).update(vars(of))
            return table
        case ModelTable():
            models: Any = AsyncModelTable.__new__(AsyncModelTable)
            vars(models).update(vars(of), table=_counterpart(of.table))
            return models
        case ExactlyOnce():
            return AsyncExactlyOnce(of)
    return AsyncLock(of)


_read_page = awaitable(Pages.read_page)


def _acquire(locks: Locks, name: str, **named: Any) -> Lock:
    counterpart = AsyncLocks(locks.client, locks.table, clock_skew_seconds=locks.clock_skew_seconds, now=locks.now)
    lock = _run(counterpart.acquire(name, **named))
    lock._lock._locks = locks
    return lock._lock


async def _sleep(seconds: float) -> None:
    """The pause of a test that has its own clock, too."""
    time.sleep(seconds)


@pytest.fixture(params=["blocking", "asyncio"])
def driver(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a test by both of the library's drivers."""
    with calls_are_awaited() if request.param == "asyncio" else contextlib.nullcontext():
        yield
