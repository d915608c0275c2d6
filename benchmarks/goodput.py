"""Counts the read-modify-writes per second on one item with many concurrent writers.

PynamoDB and boto3 leave retries to their users, and their guides say to read and try again. These writers do so at
once. One of those with boto3 backs off first, as AWS recommends for failed requests: it is slower, with fewer requests.
"""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.table import Table

from benchmarks.writers import BackingOff, Ours, PynamoDB, Resource, Writer, create_table
from tools.local_aws.server import Endpoint

CONTENDING = {"ours": Ours, "PynamoDB": PynamoDB, "boto3": Resource, "boto3, backing off": BackingOff}
WRITERS = 8
INCREMENTS = 240
ROUNDS = 3
ADDED_SECONDS = 0.010
"""Seconds added to each request. With less, the engine would be the bottleneck of the writers with most requests."""


@dataclass(frozen=True)
class Work:
    """The results of one process, or of all together. Times are those of the monotonic clock, which they share."""

    started: float
    ended: float
    requests: int
    slowest_seconds: float

    @property
    def per_second(self) -> float:
        return INCREMENTS / (self.ended - self.started)


def measure(endpoint: Endpoint, table: str) -> dict[str, list[Work]]:
    """Runs all rounds, with each kind of writer in turn. Raises AssertionError if an update was lost."""
    create_table(endpoint, table)
    rounds: dict[str, list[Work]] = {name: [] for name in CONTENDING}
    spawn = multiprocessing.get_context("spawn")
    left, barrier = spawn.Value("i", 0), spawn.Barrier(WRITERS)
    with ProcessPoolExecutor(WRITERS, spawn, _share, (left, barrier)) as processes:
        for number in range(ROUNDS):
            for name, make in CONTENDING.items():
                order_id = f"{name}-{number}"
                Resource(endpoint, table).create(order_id)
                left.value = INCREMENTS
                running = [processes.submit(_work, make, endpoint, table, order_id) for _ in range(WRITERS)]
                rounds[name].append(_together([each.result() for each in running]))
                lost = INCREMENTS - Resource(endpoint, table).load(order_id)["count"]
                assert lost == 0, f"{name}: {lost} updates were lost"
    return rounds


def _together(works: list[Work]) -> Work:
    return Work(
        min(work.started for work in works),
        max(work.ended for work in works),
        sum(work.requests for work in works),
        max(work.slowest_seconds for work in works),
    )


def _share(*shared: Any) -> None:
    """Sets a new process's shared objects, which only its parent can pass on."""
    global _left, _barrier
    _left, _barrier = shared


def _work(make: type[Writer], endpoint: Endpoint, table: str, order_id: str) -> Work:
    requests, slowest_seconds = 0, 0.0

    def delay(**_: Any) -> None:
        nonlocal requests
        requests += 1
        time.sleep(ADDED_SECONDS)

    writer = make(endpoint, table)
    writer.load(order_id)  # Connects.
    writer.client.meta.events.register("before-send.dynamodb", delay)
    _barrier.wait()
    started = ended = time.monotonic()
    while _take_one():
        began = time.monotonic()
        writer.add_one(order_id)
        ended = time.monotonic()
        slowest_seconds = max(slowest_seconds, ended - began)
    return Work(started, ended, requests, slowest_seconds)


def _take_one() -> bool:
    """Whether an increment was left. Each free process takes the next one."""
    with _left.get_lock():
        _left.value -= 1
        return bool(_left.value >= 0)


def report(rounds: dict[str, list[Work]]) -> Table:
    table = Table(title=f"{WRITERS} writers on one item", title_justify="left", title_style="bold")
    table.add_column("by")
    for name in ("increments\nper second", "the rounds'", "requests\neach", "the slowest\nms"):
        table.add_column(name, justify="right")
    for name, works in rounds.items():
        rates = [work.per_second for work in works]
        table.add_row(
            name,
            f"{median(rates):.0f}",
            " ".join(f"{rate:.0f}" for rate in rates),
            f"{median(work.requests for work in works) / INCREMENTS:.1f}",
            f"{median(work.slowest_seconds for work in works) * 1000:.0f}",
            style="bold" if name == "ours" else "",
        )
    return table
