"""Exactly-once functions, by a client whose calls are awaited."""

import functools
from typing import Any, cast

from conditional_writes.asyncio.driver import awaitable
from conditional_writes.core.steps import Deadline
from conditional_writes.exactly_once import ExactlyOnce, Ran


class AsyncExactlyOnce[Request, Result]:
    """An `ExactlyOnce` whose calls are awaited: `await pay(payment)`. Its records have a client of that kind.

    Over the decorator: `pay = AsyncExactlyOnce(exactly_once(records, key=…)(pay))`. The function itself is a plain one:
    it plans writes, and waits for nothing. Raises TypeError if it isn't `exactly_once`.
    """

    def __init__(self, function: ExactlyOnce[Request, Result]) -> None:
        if not isinstance(function, ExactlyOnce):
            raise TypeError(f"{function!r} isn't exactly_once: AsyncExactlyOnce goes over that decorator")
        functools.update_wrapper(cast("Any", self), cast("Any", function), updated=())
        self._function, self.plan = function, function.plan
        self.__signature__ = function.__signature__

    def __repr__(self) -> str:
        return repr(self._function)

    async def __call__(self, request: Request, *, deadline: Deadline | None = None) -> Result:
        """As `ExactlyOnce`."""
        return (await self.run(request, deadline=deadline)).result

    async def run(self, request: Request, *, deadline: Deadline | None = None) -> Ran[Result]:
        """As `ExactlyOnce.run`."""
        ran: Ran[Result] = await _run(self._function, request, deadline=deadline)
        return ran


_run: Any = awaitable(ExactlyOnce.run)
