"""Deadlines: the time until which a call may send requests."""

import math
import time
from typing import Any, NamedTuple


class DeadlinePassed(Exception):
    """No time is left for another request. Nothing of the plan was written, so it can be tried again later."""


class Deadline(NamedTuple):
    """A point in time on the monotonic clock, in seconds. No request is sent after it."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        if math.isnan(seconds):
            raise ValueError("a deadline after nan seconds, which would never pass")
        return cls(time.monotonic() + seconds)

    @classmethod
    def of_invocation(cls, context: Any, reserved_seconds: float) -> "Deadline":
        """So many seconds before a Lambda invocation times out. `context` is the second argument of its handler."""
        return cls.after(context.get_remaining_time_in_millis() / 1000 - reserved_seconds)

    @property
    def remaining_seconds(self) -> float:
        return self.at - time.monotonic()

    def earlier_by(self, seconds: float) -> "Deadline":
        return Deadline(self.at - seconds)

    def check(self, doing: str) -> None:
        """Raises DeadlinePassed if the deadline has passed. `doing` names the work, for the error's text."""
        if self.remaining_seconds <= 0:
            raise DeadlinePassed(f"no time is left: {doing}")


DEFAULT_SECONDS = 10


def deadline_or_default(deadline: Deadline | None) -> Deadline:
    """The given deadline; None: ten seconds from now. Raises TypeError for what is none, as a number of seconds."""
    if deadline is None:
        return Deadline.after(DEFAULT_SECONDS)
    if not hasattr(deadline, "remaining_seconds"):
        raise TypeError(f"deadline: {deadline!r} is no deadline: use Deadline.after, with the seconds from now")
    return deadline
