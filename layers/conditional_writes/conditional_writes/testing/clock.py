"""A clock that goes on when it is told to, and code under test that goes by it."""

import contextlib
import ctypes
import gc
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Any
from unittest import mock

_active = threading.Lock()


class Clock:
    """Stands still until `advance` or a pause. It begins with the time of now, or with these seconds since 1970."""

    def __init__(self, start_seconds: float | None = None) -> None:
        self._start = time.time() if start_seconds is None else start_seconds
        self._passed = 0.0

    def time(self) -> float:
        """The seconds since 1970."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """The seconds since the clock was made."""
        return self._passed

    def reset(self) -> None:
        """It begins again."""
        self._passed = 0.0

    def advance(self, seconds: float) -> None:
        """Lets so many seconds pass."""
        if seconds < 0:
            raise ValueError(f"sleep length must be non-negative, got {seconds}")
        self._passed += seconds

    def sleep(self, seconds: float) -> None:
        """A pause of the code under test: the time passes at once."""
        self.advance(seconds)

    def now(self, tz: tzinfo | None = None) -> datetime:
        return datetime.fromtimestamp(self.time(), tz)

    def _of_now(self, function: Callable[[float], Any]) -> Callable[..., Any]:
        """A function of seconds, which takes those of this clock if it is given none."""
        return lambda seconds=None: function(self.time() if seconds is None else seconds)

    @contextlib.contextmanager
    def simulated_time(self) -> Iterator["Clock"]:
        """`time.sleep`, `time.monotonic`, `time.time` and `datetime.now` go by this clock, in the whole process.

        So do `time_ns`, `monotonic_ns`, `gmtime`, `localtime`, `ctime`, `strftime`, `datetime.utcnow` and
        `datetime.today`, and asyncio's loops: if one would wait for a timer, as that of `asyncio.sleep`, the time
        passes, even if a socket or a thread has yet to answer. A function that was imported by its own name, as by
        `from time import sleep`, goes by the real time. One clock at a time.
        """
        if not _active.acquire(blocking=False):
            raise RuntimeError("another clock is simulated in this process")
        strftime = time.strftime
        try:
            with (
                mock.patch.multiple(
                    time,
                    sleep=self.sleep,
                    time=self.time,
                    monotonic=self.monotonic,
                    time_ns=lambda: round(self.time() * 1e9),
                    monotonic_ns=lambda: round(self.monotonic() * 1e9),
                    gmtime=self._of_now(time.gmtime),
                    localtime=self._of_now(time.localtime),
                    ctime=self._of_now(time.ctime),
                    strftime=lambda form, at=None: strftime(form, time.localtime() if at is None else at),
                ),
                _waits_of_loops(self),
                _methods_of_datetime(
                    now=lambda tz=None: self.now(tz),
                    utcnow=lambda: self.now(UTC).replace(tzinfo=None),  # `today` asks `time.time`
                ),
            ):
                yield self
        finally:
            _active.release()


@contextlib.contextmanager
def _waits_of_loops(clock: Clock) -> Iterator[None]:
    """An event loop waits in its selector: until its next timer, or without a limit for sockets and threads."""
    select = selectors.DefaultSelector.select

    def simulated(selector: selectors.DefaultSelector, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return select(selector, timeout)
        ready = select(selector, 0)
        if not ready:
            clock.sleep(timeout)
        return ready

    with mock.patch.object(selectors.DefaultSelector, "select", simulated):
        yield


@contextlib.contextmanager
def _methods_of_datetime(**methods: Any) -> Iterator[None]:
    """Puts methods into the class itself, so that it is the same class wherever it was imported.

    Python has no public way to change a class that is written in C. The class's own dict is found as the one object
    that its `__dict__` refers to.
    """
    [attributes] = gc.get_referents(datetime.__dict__)
    before = {name: attributes[name] for name in methods}
    try:
        attributes.update({name: staticmethod(method) for name, method in methods.items()})
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))
        yield
    finally:
        attributes.update(before)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))
