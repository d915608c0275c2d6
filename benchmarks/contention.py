"""Several workers on one account, with Teller and with stock Powertools. Sharing must not slow a hot account down.

docs/pictures/contention.png shows the medians.
"""

import itertools
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rich.console import Console

from benchmarks.deliveries import Cost, Deliveries
from benchmarks.workers import Team, work_together
from tests.checkers.books import read_books, violations
from tools.local_aws.functions import process_transactions, record
from tools.local_aws.server import Endpoint, free_port, ministack, running
from tools.local_aws.tables import Tables, create_attempts_table, create_locks_table, create_tables


class Point(NamedTuple):
    """The result of a run. Units, requests and conflicts are for each transaction, the time is that of one message."""

    workers: int
    transactions: int
    per_second: float
    write_units: float
    read_units: float
    requests: float
    conflicts: float
    slowest_seconds: float


class Work(NamedTuple):
    """A worker's result. The rate is that of its own time, until the last call returned that it began in time."""

    per_second: float
    seconds: list[float]
    cost: Cost


class Ledger(NamedTuple):
    """The tables of a run, which all its workers share."""

    prefix: str
    tables: Tables
    locks_table: str


def create_ledger(endpoint: Endpoint, prefix: str, account_ids: list[str]) -> Ledger:
    """Creates the tables, and opens the accounts."""
    ledger = Ledger(prefix, create_tables(endpoint, prefix), create_locks_table(endpoint, prefix))
    function = load(endpoint, ledger, "opening")
    openings = [
        record({"type": "open_account", "transaction_id": "open", "account_id": account_id, "currency": "EUR"})
        for account_id in account_ids
    ]
    Deliveries(function).deliver(openings)
    return ledger


def load(endpoint: Endpoint, ledger: Ledger, worker: object) -> Any:
    """A worker's function, with queues and an attempts table of its own."""
    name = f"{ledger.prefix}-{worker}"
    sqs = endpoint.client("sqs")
    return process_transactions(
        endpoint,
        ledger.tables,
        QUEUE_URL=sqs.create_queue(QueueName=f"{name}-alive")["QueueUrl"],
        DEAD_LETTER_QUEUE_URL=sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"],
        ATTEMPTS_TABLE=create_attempts_table(endpoint, name),
        LOCKS_TABLE=ledger.locks_table,
        POWERTOOLS_LOG_LEVEL="CRITICAL",
    )


def run(endpoint: Endpoint, prefix: str, workers: int, batch: int, seconds: float) -> Point:
    """Posts transactions to one account for so many seconds. Raises AssertionError if one is lost or posted twice."""
    ledger = create_ledger(endpoint, prefix, ["hot"])
    point = summed(workers, work_together(_work, (endpoint, ledger, batch, seconds), workers))
    books = read_books(endpoint, ledger.tables)
    found = violations(books)
    assert not found, found
    balance = books.accounts["hot"].balance
    assert balance == point.transactions, f"after {point.transactions} transactions of 1 the balance is {balance}"
    return point


def _work(team: Team, number: int, endpoint: Endpoint, ledger: Ledger, batch: int, seconds: float) -> Work:
    function = load(endpoint, ledger, number)
    function.poster.client.describe_table(TableName=ledger.tables.accounts)  # Connects.
    deliveries = Deliveries(function, function.poster.client, function.worker.queue.client)
    return post(deliveries, team, number, batch, seconds)


def post(deliveries: Deliveries, team: Team, worker: int, batch: int, seconds: float) -> Work:
    """Posts a batch after another. A message that the function returned goes into the first batch after it is due."""
    started = team.start()
    for number in itertools.count():
        if time.monotonic() >= started + seconds:
            break
        records = deliveries.due(batch)
        records += [
            record({"transaction_id": f"{worker}-{number}-{index}", "account_id": "hot", "amount": "1"})
            for index in range(batch - len(records))
        ]
        deliveries.deliver(records)
    per_second = len(deliveries.seconds) / (time.monotonic() - started)
    deliveries.drain(batch)
    return Work(per_second, list(deliveries.seconds.values()), deliveries.cost)


def summed(workers: int, works: list[Work]) -> Point:
    transactions = sum(len(work.seconds) for work in works)
    return Point(
        workers,
        transactions,
        sum(work.per_second for work in works),
        sum(work.cost.write_units for work in works) / transactions,
        sum(work.cost.read_units for work in works) / transactions,
        sum(work.cost.requests for work in works) / transactions,
        sum(work.cost.conflicts for work in works) / transactions,
        max(max(work.seconds, default=0) for work in works),
    )


def main() -> None:
    console = Console(highlight=False)
    with (
        TemporaryDirectory(prefix="teller-") as folder,
        running(ministack(free_port(), Path(folder) / "ministack.log")) as endpoint,
    ):
        for batch in (10, 100):
            for workers in (1, 2, 4, 8, 16, 32):
                console.print(batch, run(endpoint, f"hot-{batch}-{workers}", workers, batch, 6))


if __name__ == "__main__":
    main()
