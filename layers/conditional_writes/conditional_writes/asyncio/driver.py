"""Takes the steps of the library's calls by a client whose calls are awaited."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate

from conditional_writes.core.steps import Pause, Request, Step, current, prepare, steps


def awaitable[First, **Parameters, Result](
    function: Callable[Concatenate[First, Parameters], Result],
) -> Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]]:
    """A `blocking` function, to be awaited: its first parameter has, or is, a client whose calls are awaited.

    If `First` were Any, pyright would take a table's model for Any, too.
    """
    steps_of = steps(function)

    @functools.wraps(function)
    async def call(first: Any, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        taken = steps_of(first, *arguments, **named)
        try:
            step = next(taken)
            while True:
                try:
                    answer = await _take(step)
                except BaseException as error:  # noqa: BLE001 (the steps raise it, unless it is an answer to them)
                    step = taken.throw(error)
                else:
                    step = taken.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result

    return call


async def _take(step: Step) -> Any:
    match step:
        case Pause(seconds):
            return await asyncio.sleep(seconds)
        case Request(client=client, method=method, parameters=parameters):
            prepare(client, is_awaited=True)
            step.is_awaited = True
            before = current.set(step)
            try:
                called: Any = getattr(client, method)(**parameters)
                return await called
            finally:
                current.reset(before)
