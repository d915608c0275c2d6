"""Processes that share the batches of a run. They start together, and each free one takes the next batch."""

import multiprocessing
import queue
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_spawn = multiprocessing.get_context("spawn")


class Batches:
    """The numbers of the remaining batches, shared by the processes. Iteration begins when all workers are ready."""

    def __init__(self, count: int, workers: int) -> None:
        self._left, self._barrier = _spawn.Value("i", count), _spawn.Barrier(workers)
        self.started = 0.0

    def __iter__(self) -> Iterator[int]:
        self._barrier.wait()
        self.started = time.monotonic()
        while (number := self._take()) is not None:
            yield number

    def abort(self) -> None:
        """Ends the other workers' wait, so that they fail, too."""
        self._barrier.abort()

    def _take(self) -> int | None:
        with self._left.get_lock():
            if self._left.value == 0:
                return None
            self._left.value -= 1
            return self._left.value


class Worked(NamedTuple):
    """The seconds from the first worker's start to the last one's end, and each worker's result."""

    seconds: float
    results: list[Any]


def work_together(work: Callable[..., Any], arguments: tuple[Any, ...], batches: int, workers: int) -> Worked:
    """Runs `work(batches, *arguments)` in `workers` processes. Raises RuntimeError if a process fails."""
    shared, spans = Batches(batches, workers), _spawn.Queue()
    processes = [_spawn.Process(target=_run, args=(work, arguments, shared, spans)) for _ in range(workers)]
    for process in processes:
        process.start()
    done: list[tuple[float, float, Any, str | None]] = []
    while len(done) < workers:
        try:
            done.append(spans.get(timeout=1))
        except queue.Empty:
            if killed := [process.exitcode for process in processes if process.exitcode]:
                raise RuntimeError(f"{len(killed)} of {workers} workers were killed: exit codes {killed}") from None
    for process in processes:
        process.join()
    if failures := [failure for *_, failure in done if failure]:
        raise RuntimeError(f"{len(failures)} of {workers} workers failed; the first: {failures[0]}")
    seconds = max(ended for _, ended, *_ in done) - min(started for started, *_ in done)
    return Worked(seconds, [result for _, _, result, _ in done])


def _run(work: Callable[..., Any], arguments: tuple[Any, ...], batches: Batches, spans: Any) -> None:
    """Reports a result in any case, so that the parent doesn't wait for ever. A failure is reported as text."""
    result, failure = None, None
    try:
        result = work(batches, *arguments)
    except BaseException:  # noqa: BLE001
        failure = traceback.format_exc()
        batches.abort()
    spans.put((batches.started, time.monotonic(), result, failure))
