"""A day of a million transactions, simulated: how soon each is posted, and at which rate a stack can take no more.

The times of invocations are those of `flood`: assumed. Each transaction of a batch is of another account.
"""

import random
import statistics
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.flood import Flood, Simulation

A_DAY, BUSY_HOUR, FILE = 734_000, 216_000, 50_000
"""Transactions at any time of the day; more within an hour; and in a file that is sent at once, in that hour."""
BUSY_SECONDS, FILE_SECONDS = 9 * 3600, 9 * 3600 + 1800
RATES = (100, 400, 700, 800, 900, 1_000)
RATE_SECONDS = 600
NONE_WAITS = Flood("", waiting=0)

console = Console(highlight=False)


def main() -> None:
    sent = sorted(_times_of_a_day())
    day = Simulation(NONE_WAITS, sent)
    seconds = day.run()
    table = _table(f"A day of {len(sent):,} transactions: {day.batches:,} batches, {day.most_at_once} at once at most")
    busy, file = BUSY_SECONDS + 3600, FILE_SECONDS + 120
    _row(
        table,
        "outside of the busy hour",
        [s for at, s in zip(sent, seconds, strict=True) if not BUSY_SECONDS <= at < busy],
    )
    _row(
        table, "in the busy hour", [s for at, s in zip(sent, seconds, strict=True) if BUSY_SECONDS <= at < FILE_SECONDS]
    )
    _row(
        table,
        f"in the two minutes after a file of {FILE:,}",
        [s for at, s in zip(sent, seconds, strict=True) if FILE_SECONDS < at < file],
    )
    console.print(table)
    table = _table(f"At a rate, for {RATE_SECONDS} s")
    for rate in RATES:
        run = Simulation(NONE_WAITS, sorted(random.uniform(0, RATE_SECONDS) for _ in range(rate * RATE_SECONDS)))
        _row(table, f"{rate:,} a second", run.run())
    console.print(table)


def _times_of_a_day() -> Iterator[float]:
    chance = random.Random(1)
    for _ in range(A_DAY):
        yield chance.uniform(0, 86_400)
    for _ in range(BUSY_HOUR):
        yield chance.uniform(BUSY_SECONDS, BUSY_SECONDS + 3600)
    for _ in range(FILE):
        yield FILE_SECONDS


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("seconds from sending to posting")
    for name in ("median", "99 %", "the last"):
        table.add_column(name, justify="right")
    return table


def _row(table: Table, title: str, seconds: Sequence[float]) -> None:
    percentiles = statistics.quantiles(seconds, n=100)
    table.add_row(title, *(f"{each:,.1f}" for each in (percentiles[49], percentiles[98], max(seconds))))
