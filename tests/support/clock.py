"""Clocks for tests, for objects that take a clock, such as `Locks`, and for the lines of accounts; and a deadline."""

import contextlib
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

from conditional_writes import Deadline, testing

START = 1_800_000_000.0
LOOK_SECONDS = 0.125
"""How long a look at an account takes, by `clock_of_lines`: after three of them the patience for a ticket is over."""


def plenty() -> Deadline:
    """A deadline for tests that aren't about it. That of a module would begin at the import, long before its tests."""
    return Deadline.after(1000)


class RanTooLong(BaseException):
    """A test has reached its deadline. No Exception, so Hypothesis doesn't take it for a failure of the example."""


class Clock(testing.Clock):
    """The library's, for objects that take a function of the time. Tests may set its `seconds` since the epoch."""

    def __init__(self, start_seconds: float = START) -> None:
        super().__init__(start_seconds)

    def __call__(self) -> float:
        return self.time()

    @property
    def seconds(self) -> float:
        return self.time()

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._passed = seconds - self._start

    def side_by_side(self, call: Callable[[Any], Any], arguments: Iterable[Any], _: int = 0) -> list[Any]:
        """As `in_parallel`, one call after another: together they take as long as the longest of them."""
        began, ended, results = self.seconds, [self.seconds], []
        for argument in arguments:
            self.seconds = began
            results.append(call(argument))
            ended.append(self.seconds)
        self.seconds = max(ended)
        return results


@contextlib.contextmanager
def clock_of_lines(clock: Clock) -> Iterator[None]:
    """The lines of accounts go by this clock, and so does their contention. Each of their pauses advances it, and each
    of the poster's.

    So no time is lost in a line, and the number of looks at an account doesn't depend on chance.
    """

    def sleep(seconds: float) -> None:
        clock.seconds += seconds + LOOK_SECONDS

    time = types.SimpleNamespace(time=clock, monotonic=clock, sleep=sleep)
    with contextlib.ExitStack() as patches:
        for module in ("lines", "tables", "batch_poster"):
            patches.enter_context(mock.patch(f"ledger.{module}.time", time))
        yield
