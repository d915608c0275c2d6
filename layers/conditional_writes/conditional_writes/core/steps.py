"""The steps of a call: the requests and pauses that a driver takes one after another, until the call's deadline.

A call's work is written once. A function of steps is a generator: it yields a step, and gets its answer or its
error. `blocking` makes a function of it that takes the steps in its thread. `conditional_writes.asyncio` makes one that
awaits them.
"""

import functools
import math
import random
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, Protocol

SHORTEST_SECONDS, LONGEST_SECONDS = 0.05, 1.0
"""The bounds of the first of the growing pauses, and of the later ones."""
DEFAULT_SECONDS = 10
"""Of a call without a deadline."""


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


def deadline_or_default(deadline: Deadline | None) -> Deadline:
    """The given deadline; None: ten seconds from now. Raises TypeError for what is none, as a number of seconds."""
    if deadline is None:
        return Deadline.after(DEFAULT_SECONDS)
    if not hasattr(deadline, "remaining_seconds"):
        raise TypeError(f"deadline: {deadline!r} is no deadline: use Deadline.after, with the seconds from now")
    return deadline


class Step(Protocol):
    """A `Request` or a `Pause`."""

    def take(self) -> Any:
        """The answer to it, in the caller's thread."""


class Pause(NamedTuple):
    """The call goes on after so many seconds."""

    seconds: float

    def take(self) -> None:
        time.sleep(self.seconds)


type Steps[Result] = Generator[Step, Any, Result]


def blocking[**Parameters, Result](function: Callable[Parameters, Steps[Result]]) -> Callable[Parameters, Result]:
    """The function of these steps that takes them in the caller's thread."""

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        steps = function(*arguments, **named)
        try:
            step = next(steps)
            while True:
                try:
                    answer = step.take()
                except BaseException as error:  # noqa: BLE001 (the steps raise it, unless it is an answer to them)
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result

    return call


def steps[**Parameters, Result](function: Callable[Parameters, Result]) -> Callable[Parameters, Steps[Result]]:
    """The steps of a `blocking` function, for other steps: `yield from steps(read)(client, keys, deadline)`."""
    of_function: Callable[Parameters, Steps[Result]] = vars(function)["__wrapped__"]
    return of_function


def growing_pauses() -> Iterator[float]:
    """Random pauses in seconds between the tries of a request that DynamoDB throttled, without end.

    The bound of each is twice that of the one before, at most a second.
    """
    longest_seconds = SHORTEST_SECONDS
    while True:
        yield random.uniform(0, longest_seconds)
        longest_seconds = min(2 * longest_seconds, LONGEST_SECONDS)
