"""Payments while accounts are imported, in virtual time: how long they take, and without the import.

The batch poster is the product's, DynamoDB is the library's engine, and only the answers take time. So this shows what
import and payments have in common on AWS: items. Each queue has invocations of its own. A table's throughput has no
limit here: the import's write units are to be compared with it.
"""

import itertools
import json
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median, quantiles
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.mesh import FAST, TABLES, WORK_SECONDS, Requests, VirtualTime
from conditional_writes import Deadline
from ledger.batch_poster import BatchPoster
from ledger.core.transaction_types import decode_from
from ledger.core.transaction_types.base import Door
from ledger.lines import Lines
from workers.queue_messages import Done, QueueMessage

SECONDS, PAYMENTS_A_SECOND, ACCOUNTS, SHARDS = 10, 100, 1_000, 64
PAYING, IMPORTING, BATCH = 10, 2, 100
"""Invocations at once, and messages of each at most, by the template."""
POLL_SECONDS = 0.02


class Result(NamedTuple):
    median_seconds: float
    slowest_hundredth_seconds: float
    imports_a_second: float
    write_units_a_second: float


class Run:
    """`source` is the account from which balances come: none, a pool, or one of those that are paid into."""

    def __init__(self, importing: int, source: str = "") -> None:
        self._time, self._source, self._imported = VirtualTime(), source, 0
        self._seconds: list[float] = []
        with self._time.everywhere(seed=1) as chance:
            requests = Requests(self._time, chance, FAST, conflict_part=0.5)
            self._poster = BatchPoster(requests.client, TABLES, Lines(requests.client, "locks"))
            opening = {"transaction_id": "open", "currency": "EUR", "overdraft_limit": "-1000000000"}
            bodies = [opening | {"type": "open_account", "account_id": f"a{each}"} for each in range(ACCOUNTS)]
            bodies += [
                opening | {"type": "open_account", "account_id": "pool", "overdraft_limit": "0", "shards": SHARDS}
            ]
            self._time.in_parallel(lambda _: self._post(bodies), [None])
            self._until, began = self._time.now + SECONDS, requests.write_units
            gaps = (chance.expovariate(PAYMENTS_A_SECOND) for _ in itertools.count())
            sent = itertools.takewhile(lambda at: at < self._until, itertools.accumulate(gaps, initial=self._time.now))
            self._queue = deque(
                (at, {"type": "transaction", "transaction_id": f"t{number}", "account_id": account, "amount": "1"})
                for number, at in enumerate(sent)
                for account in [f"a{chance.randrange(ACCOUNTS)}"]
            )
            imports = self._imports()
            work = [self._pay] * PAYING + [lambda: self._import(imports)] * importing
            self._time.in_parallel(lambda each: each(), work, len(work))
        self.result = Result(
            median(self._seconds),
            quantiles(self._seconds, n=100)[98],
            self._imported / SECONDS,
            (requests.write_units - began) / SECONDS,
        )

    def _pay(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(BATCH) if self._queue and self._queue[0][0] <= self._time.now]
            if not batch:
                self._time.sleep(POLL_SECONDS)
                continue
            self._post([body for _, body in batch])
            self._seconds += (self._time.now - sent_at for sent_at, _ in batch)

    def _import(self, imports: Iterator[dict[str, Any]]) -> None:
        while self._time.now < self._until:
            self._post(list(itertools.islice(imports, BATCH)))
            self._imported += BATCH

    def _imports(self) -> Iterator[dict[str, Any]]:
        source = {"from_account_id": self._source} if self._source else {}
        for number in itertools.count():
            fields = {"account_id": f"moved-{number}", "balance": "5", "currency": "EUR", "source_reference": "1"}
            yield (
                {"type": "import_account", "transaction_id": "import", "as_of": "2026-01-31T00:00:00Z"}
                | fields
                | source
            )

    def _post(self, bodies: list[dict[str, Any]]) -> None:
        """Messages that are returned are posted again at once."""
        messages = [_message(body) for body in bodies]
        while messages:
            self._poster.post(messages, Deadline.after(WORK_SECONDS * (1 + len(messages) // BATCH)))
            messages = [_message(json.loads(each.body)) for each in messages if not isinstance(each.disposition, Done)]


def _message(body: dict[str, Any]) -> QueueMessage[Any]:
    text = json.dumps(body)
    door = Door.TRANSACTIONS if body["type"] == "transaction" else Door.ADMINISTRATION
    content = decode_from(door, text)
    return QueueMessage(content.transaction_id, "", text, 1, datetime(2026, 1, 31, tzinfo=UTC), {}, content=content)


RUNS = (
    ("no import", 0, ""),
    ("balances from outside", IMPORTING, ""),
    (f"from a pool of {SHARDS} shards", IMPORTING, "pool"),
    ("from an account that is paid into", IMPORTING, "a0"),
)


def main() -> None:
    title = f"{PAYMENTS_A_SECOND} payments a second beside an import"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1), pad_edge=False)
    table.add_column("import")
    for name in ("median\nms", "p99\nms", "imports\na second", "write units\na second"):
        table.add_column(name, justify="right")
    for name, importing, source in RUNS:
        result = Run(importing, source).result
        table.add_row(
            name,
            f"{result.median_seconds * 1000:,.0f}",
            f"{result.slowest_hundredth_seconds * 1000:,.0f}",
            f"{result.imports_a_second:,.0f}",
            f"{result.write_units_a_second:,.0f}",
        )
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
