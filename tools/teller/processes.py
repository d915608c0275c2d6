"""The processes of a command, one for each CPU."""

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context


@contextmanager
def processes() -> Iterator[ProcessPoolExecutor]:
    """Ctrl-C comes to these processes, too. They end at once and say nothing, for the command says it."""
    executor = ProcessPoolExecutor(
        mp_context=get_context("spawn"), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL)
    )
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)
