"""Processes that work together. All begin at the same moment."""

import multiprocessing
import queue
import time
import traceback
from collections.abc import Callable
from typing import Any

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["benchmarks.deliveries", "benchmarks.stock", "ledger.batch_poster"])
"""Processes are copies of one that has imported these: 32 of them would import for longer than they work."""


class Team:
    """The state that the processes of a run share."""

    def __init__(self, workers: int) -> None:
        self._barrier = _processes.Barrier(workers)
        self._started, self._taken = _processes.Value("d", 0), _processes.Value("i", 0)

    def start(self) -> float:
        """Waits until all workers are ready. Returns the time of the common start, on the monotonic clock."""
        self._barrier.wait()
        with self._started.get_lock():
            self._started.value = self._started.value or time.monotonic()
            return float(self._started.value)

    def take(self) -> int:
        """The number of the next batch. Each worker that is free takes one."""
        with self._taken.get_lock():
            self._taken.value += 1
            return int(self._taken.value) - 1

    def abort(self) -> None:
        """Ends the other workers' wait, so that they fail, too."""
        self._barrier.abort()


def work_together[Result](work: Callable[..., Result], arguments: tuple[Any, ...], workers: int) -> list[Result]:
    """Runs `work(team, number, *arguments)` in processes numbered from 0. Returns each one's result, in no order.

    Raises RuntimeError if a process fails.
    """
    team, results = Team(workers), _processes.Queue()
    processes = [
        _processes.Process(target=_run, args=(work, (team, number, *arguments), results)) for number in range(workers)
    ]
    for process in processes:
        process.start()
    done: list[tuple[Any, str | None]] = []
    while len(done) < workers:
        try:
            done.append(results.get(timeout=1))
        except queue.Empty:
            if killed := [process.exitcode for process in processes if process.exitcode]:
                raise RuntimeError(f"{len(killed)} of {workers} workers were killed: exit codes {killed}") from None
    for process in processes:
        process.join()
    if failures := [failure for _, failure in done if failure]:
        raise RuntimeError(f"{len(failures)} of {workers} workers failed; the first: {failures[0]}")
    return [result for result, _ in done]


def _run(work: Callable[..., Any], arguments: tuple[Team, Any], results: Any) -> None:
    """Reports a result in any case, so that the parent doesn't wait for ever. A failure is reported as text."""
    result, failure = None, None
    try:
        result = work(*arguments)
    except BaseException:  # noqa: BLE001
        failure = traceback.format_exc()
        arguments[0].abort()
    results.put((result, failure))
