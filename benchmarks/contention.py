"""Eight workers for one account, against one: a hot account must not be slower for being shared."""

import multiprocessing
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from conditional_writes import Deadline, dynamodb_client
from ledger.batch_poster import BatchPoster
from ledger.core.transaction_types import OpenAccount, Transaction
from ledger.core.transaction_types.base import TransactionMessage
from ledger.tables import LedgerTables
from tests.checkers.books import read_books, violations
from tools.local_aws.server import Endpoint, free_port, ministack, running
from tools.local_aws.tables import Tables, create_tables
from workers.queue_messages import Done, QueueMessage

BATCH = 10
ADDED_SECONDS = 0.005
TRANSACTIONS = 6_000
ROUNDS = 3


@dataclass(frozen=True)
class Run:
    workers: int
    seconds: float
    transactions: int
    commits: int
    conflicts: int

    @property
    def per_second(self) -> float:
        return self.transactions / self.seconds

    @property
    def units_per_transaction(self) -> float:
        """2 for each item of each attempt: a refused transaction costs what a written one does."""
        return (self.commits + self.conflicts) * 2 * (BATCH + 1) / self.transactions


def _poster(tables: Tables) -> BatchPoster:
    return BatchPoster(dynamodb_client(), LedgerTables(tables.accounts, tables.journal))


def _message(transaction: TransactionMessage) -> QueueMessage[TransactionMessage]:
    """The transaction as it comes from the queue for the first time."""
    return QueueMessage(transaction.transaction_id, "", "", 1, datetime.now(UTC), {}, content=transaction)


def _work(endpoint: Endpoint, tables: Tables, queue, barrier, results) -> None:
    os.environ.update(endpoint.environment)
    poster = _poster(tables)
    poster.client.meta.events.register("before-send.dynamodb", lambda **_: time.sleep(ADDED_SECONDS))
    poster.client.describe_table(TableName=tables.accounts)
    conflicts = 0
    barrier.wait()
    started = time.monotonic()
    while (batch := _next(queue)) is not None:
        messages = [
            _message(Transaction(transaction_id=f"{batch}-{index}", account_id="hot", amount=Decimal(1)))
            for index in range(BATCH)
        ]
        measured = {one.metric: one.value for one in poster.post(messages, Deadline.after(60))}
        assert all(isinstance(message.disposition, Done) for message in messages), messages
        conflicts += round(measured["Conflicts"])
    results.put((started, time.monotonic(), conflicts))


def _next(queue) -> int | None:
    """The number of the next batch: whichever worker is free takes it, as from a queue."""
    with queue.get_lock():
        if queue.value == 0:
            return None
        queue.value -= 1
        return queue.value


def run(endpoint: Endpoint, prefix: str, workers: int) -> Run:
    os.environ.update(endpoint.environment)
    tables = create_tables(endpoint, prefix)
    opening = OpenAccount(transaction_id="open", account_id="hot", currency="EUR")
    _poster(tables).post([_message(opening)], Deadline.after(60))
    batches = TRANSACTIONS // BATCH
    spawn = multiprocessing.get_context("spawn")
    queue, barrier, results = spawn.Value("i", batches), spawn.Barrier(workers), spawn.Queue()
    processes = [spawn.Process(target=_work, args=(endpoint, tables, queue, barrier, results)) for _ in range(workers)]
    for process in processes:
        process.start()
    spans = [results.get() for _ in processes]
    for process in processes:
        process.join()
    found = violations(read_books(endpoint, tables))
    assert not found, found
    return Run(
        workers,
        max(ended for _, ended, _ in spans) - min(started for started, _, _ in spans),
        batches * BATCH,
        batches,
        sum(conflicts for _, _, conflicts in spans),
    )


def main() -> None:
    console = Console(highlight=False)
    with (
        TemporaryDirectory(prefix="teller-") as folder,
        running(ministack(free_port(), Path(folder) / "ministack.log")) as endpoint,
    ):
        table = Table(title="One hot account, batches of 10, 5 ms added to each request", title_justify="left")
        for name in ("workers", "posted a second", "write units each", "conflicts a commit"):
            table.add_column(name, justify="right")
        runs: dict[int, list[Run]] = {1: [], 8: []}
        for round_number in range(ROUNDS):
            for workers, measured in runs.items():
                measured.append(run(endpoint, f"round-{round_number}-{workers}", workers))
                table.add_row(
                    str(workers),
                    f"{measured[-1].per_second:.0f}",
                    f"{measured[-1].units_per_transaction:.1f}",
                    f"{measured[-1].conflicts / measured[-1].commits:.2f}",
                )
        console.print(table)
        one, eight = (median(each.per_second for each in measured) for measured in runs.values())
        console.print(
            f"Eight workers post {eight / one:.2f} times as many a second as one does: at least 1 is the goal."
        )


if __name__ == "__main__":
    main()
