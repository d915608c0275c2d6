"""Several workers on one account, with Teller and with stock Powertools. Sharing must not slow a hot account down.

docs/pictures/contention.png shows the medians.
"""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from benchmarks import stock_contention
from benchmarks.plot import Point, draw, medians
from benchmarks.workers import Batches, work_together
from conditional_writes import Deadline, dynamodb_client
from ledger.batch_poster import BatchPoster
from ledger.core.transaction_types import OpenAccount, Transaction
from ledger.core.transaction_types.base import TransactionMessage
from ledger.tables import LedgerTables
from tests.checkers.books import read_books, violations
from tools.local_aws.server import PROJECT, Endpoint, free_port, ministack, running
from tools.local_aws.tables import Tables, create_tables
from workers.queue_messages import Done, QueueMessage

BATCH = 10
ADDED_SECONDS = 0.005
TRANSACTIONS = 4_000
ROUNDS = 3
WORKERS = (1, 2, 4, 8)
PICTURE = PROJECT / "docs" / "pictures" / "contention.png"


def _poster(tables: Tables) -> BatchPoster:
    return BatchPoster(dynamodb_client(), LedgerTables(tables.accounts, tables.journal))


def _message(transaction: TransactionMessage) -> QueueMessage[TransactionMessage]:
    """The message of the transaction's first delivery."""
    return QueueMessage(transaction.transaction_id, "", "", 1, datetime.now(UTC), {}, content=transaction)


def _work(batches: Batches, endpoint: Endpoint, tables: Tables) -> int:
    """Posts batches until none is left. Returns the number of conflicts."""
    os.environ.update(endpoint.environment)
    poster = _poster(tables)
    poster.client.meta.events.register("before-send.dynamodb", lambda **_: time.sleep(ADDED_SECONDS))
    poster.client.describe_table(TableName=tables.accounts)
    conflicts = 0
    for batch in batches:
        messages = [
            _message(Transaction(transaction_id=f"{batch}-{index}", account_id="hot", amount=Decimal(1)))
            for index in range(BATCH)
        ]
        measured = {one.metric: one.value for one in poster.post(messages, Deadline.after(60))}
        assert all(isinstance(message.disposition, Done) for message in messages), messages
        conflicts += round(measured["Conflicts"])
    return conflicts


def run(endpoint: Endpoint, prefix: str, workers: int) -> Point:
    """Posts the transactions. Each attempt costs 2 write units per item, even if its commit is refused."""
    os.environ.update(endpoint.environment)
    tables = create_tables(endpoint, prefix)
    opening = OpenAccount(transaction_id="open", account_id="hot", currency="EUR")
    _poster(tables).post([_message(opening)], Deadline.after(60))
    commits = TRANSACTIONS // BATCH
    worked = work_together(_work, (endpoint, tables), commits, workers)
    found = violations(read_books(endpoint, tables))
    assert not found, found
    attempts = commits + sum(worked.results)
    return Point(workers, TRANSACTIONS / worked.seconds, attempts * 2 * (BATCH + 1) / TRANSACTIONS)


def run_stock(endpoint: Endpoint, prefix: str, workers: int) -> Point:
    return stock_contention.run(endpoint, prefix, workers, BATCH, ADDED_SECONDS)


SIDES: dict[str, Callable[[Endpoint, str, int], Point]] = {"Teller": run, "stock Powertools": run_stock}


def main() -> None:
    console = Console(highlight=False)
    title = f"One hot account, batches of {BATCH}, {ADDED_SECONDS * 1000:.0f} ms added to each request"
    table = Table(title=f"{title}: medians of {ROUNDS} rounds", title_justify="left")
    table.add_column("by")
    for name in ("workers", "posted per second", "the rounds'", "write units each"):
        table.add_column(name, justify="right")
    points: dict[str, list[Point]] = {name: [] for name in SIDES}
    with (
        TemporaryDirectory(prefix="teller-") as folder,
        running(ministack(free_port(), Path(folder) / "ministack.log")) as endpoint,
    ):
        for number in range(ROUNDS):
            for workers in WORKERS:
                for name, measure in SIDES.items():
                    points[name].append(measure(endpoint, f"{name.split()[0]}-{number}-{workers}", workers))
    series = {name: medians(each) for name, each in points.items()}
    for name, each in series.items():
        for point in each:
            rounds = " ".join(f"{one.per_second:.0f}" for one in points[name] if one.workers == point.workers)
            table.add_row(name, str(point.workers), f"{point.per_second:.0f}", rounds, f"{point.write_units:.1f}")
    console.print(table)
    ours = {point.workers: point.per_second for point in series["Teller"]}
    console.print(
        f"Eight workers post {ours[8] / ours[1]:.2f} times as many per second as one worker. The goal is at least 1."
    )
    draw(series, title, PICTURE)
    console.print(f"Drawn in {PICTURE.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
