"""Calls in parallel threads, no more than a client has connections."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from conditional_writes.core.client import CONNECTIONS


def in_parallel[Argument, Result](
    call: Callable[[Argument], Result], arguments: Sequence[Argument], most: int = CONNECTIONS
) -> list[Result]:
    """The results of the calls, in the order of their arguments. Raises the error of the first call that failed."""
    with ThreadPoolExecutor(min(len(arguments), most) or 1) as pool:
        return list(pool.map(call, arguments))
