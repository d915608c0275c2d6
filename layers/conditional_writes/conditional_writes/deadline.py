"""How long there is to keep trying."""

import time
from typing import NamedTuple


class DeadlinePassed(Exception):
    """No time is left for another attempt. Nothing of this plan was written: later, it can be tried again."""


class Deadline(NamedTuple):
    """A point in time, on the monotonic clock, after which no request is sent."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    @property
    def remaining_seconds(self) -> float:
        return self.at - time.monotonic()

    def check(self, doing: str) -> None:
        """Raises DeadlinePassed, naming what was being done, once the time is up."""
        if self.remaining_seconds <= 0:
            raise DeadlinePassed(f"no time is left: {doing}")
