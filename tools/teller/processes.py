"""The processes of a command, one for each CPU."""

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from tools.teller.failures import Failure


@contextmanager
def processes() -> Iterator[ProcessPoolExecutor]:
    """Ctrl-C comes to these processes, too. They end at once and say nothing, for the command says it.

    Raises Failure if one of them is killed.
    """
    executor = ProcessPoolExecutor(
        mp_context=get_context("spawn"), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL)
    )
    try:
        yield executor
    except BrokenProcessPool:
        raise Failure("a process of the command was killed, perhaps for want of memory. Try again") from None
    finally:
        executor.shutdown(cancel_futures=True)
