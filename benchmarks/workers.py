"""Processes that share the batches of one run: they start together, and a free one takes the next batch."""

import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_spawn = multiprocessing.get_context("spawn")


class Batches:
    """The numbers of the batches that are left, shared by the processes. Iterating waits for all workers first."""

    def __init__(self, count: int, workers: int) -> None:
        self._left, self._barrier = _spawn.Value("i", count), _spawn.Barrier(workers)
        self.started = 0.0

    def __iter__(self) -> Iterator[int]:
        self._barrier.wait()
        self.started = time.monotonic()
        while (number := self._take()) is not None:
            yield number

    def abort(self) -> None:
        """Ends the wait of the others: they fail, too."""
        self._barrier.abort()

    def _take(self) -> int | None:
        with self._left.get_lock():
            if self._left.value == 0:
                return None
            self._left.value -= 1
            return self._left.value


class Worked(NamedTuple):
    """Seconds from the first worker's start to the last one's end, and the result of each worker."""

    seconds: float
    results: list[Any]


def work_together(work: Callable[..., Any], arguments: tuple[Any, ...], batches: int, workers: int) -> Worked:
    """Runs `work(batches, *arguments)` in each of so many processes. Raises RuntimeError if a process fails."""
    shared, spans = Batches(batches, workers), _spawn.Queue()
    processes = [_spawn.Process(target=_run, args=(work, arguments, shared, spans)) for _ in range(workers)]
    for process in processes:
        process.start()
    done = [spans.get() for _ in processes]
    for process in processes:
        process.join()
    if failures := [failure for *_, failure in done if failure]:
        raise RuntimeError(f"{len(failures)} of {workers} workers failed; the first: {failures[0]}")
    seconds = max(ended for _, ended, *_ in done) - min(started for started, *_ in done)
    return Worked(seconds, [result for _, _, result, _ in done])


def _run(work: Callable[..., Any], arguments: tuple[Any, ...], batches: Batches, spans: Any) -> None:
    """Answers in any case, or the parent would wait for ever; a failure as text, which any process can read."""
    result, failure = None, None
    try:
        result = work(batches, *arguments)
    except BaseException:  # noqa: BLE001
        failure = traceback.format_exc()
        batches.abort()
    spans.put((batches.started, time.monotonic(), result, failure))
