"""Clocks for tests: one for objects that take a clock, such as `Locks`, and one for the lines of accounts."""

import contextlib
import types
from collections.abc import Iterator
from unittest import mock

START = 1_800_000_000.0
LOOK_SECONDS = 0.125
"""How long a look at an account takes, by `clock_of_lines`: after three of them the patience for a ticket is over."""


class Clock:
    """Stands still until `seconds`, the seconds since the epoch, is changed."""

    def __init__(self) -> None:
        self.seconds = START

    def __call__(self) -> float:
        return self.seconds


@contextlib.contextmanager
def clock_of_lines(clock: Clock) -> Iterator[None]:
    """The lines of accounts go by this clock, and so does their contention. Each of their pauses advances it.

    So no time is lost in a line, and the number of looks at an account doesn't depend on chance.
    """

    def sleep(seconds: float) -> None:
        clock.seconds += seconds + LOOK_SECONDS

    time = types.SimpleNamespace(time=clock, monotonic=clock, sleep=sleep)
    with mock.patch("ledger.lines.time", time), mock.patch("ledger.tables.time", time):
        yield
