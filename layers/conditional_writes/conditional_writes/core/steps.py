"""Steps: the requests and pauses of a call, which a driver takes one after another. What a call does is written once.

A function of steps is a generator: it yields a step, and gets its answer or its error. `blocking` makes a function of
it that takes the steps in its thread. `conditional_writes.asyncio` makes one that awaits them.
"""

import functools
import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from conditional_writes.core.prepared import Request


class Pause(NamedTuple):
    """The call goes on after so many seconds."""

    seconds: float

    def take(self) -> None:
        time.sleep(self.seconds)


type Step = Request | Pause
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
