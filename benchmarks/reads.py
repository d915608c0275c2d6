"""Counts the requests and read units of `read_accounts`, by the number of an account's entries."""

import contextlib
import io
from collections.abc import Iterator
from math import ceil, log2
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.engine import new_ministack
from benchmarks.filled import Ledger
from tools.local_aws import functions
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_tables

JOURNALS = (100, 1_000, 10_000)
"""Entries of the account. Of 100,000, ministack takes more seconds for a query than a client waits."""
LAST = 50

console = Console(highlight=False)


class Count(NamedTuple):
    read: str
    entries: int
    requests: int
    read_units: float


def count_reads(endpoint: Endpoint, ledger: Ledger) -> Iterator[Count]:
    function = functions.read_accounts(endpoint, ledger.tables, POWERTOOLS_LOG_LEVEL="ERROR")
    meter = Meter(function.reader.client)
    for entries in JOURNALS:
        console.print(f"Counting reads of a journal of {entries:,} entries")
        ledger.grow("read", entries)
        reads = {
            "account": {"read": "account"},
            f"the last {LAST}": {"read": "statement", "last": LAST},
            "balance at a time": {"read": "balance", "at": ledger.time_of(entries // 3)},
            "transaction": {"read": "transaction", "transaction_id": ledger.transaction_id(entries // 2)},
        }
        for name, request in reads.items():
            meter.reset()
            with contextlib.redirect_stdout(io.StringIO()):
                answer = function.lambda_handler({"account_id": "read", **request}, functions.Context())
            assert "error" not in answer, answer
            assert answer.get("complete", True), answer
            yield Count(name, entries, meter.requests.total(), meter.read_units)


def check(counts: list[Count]) -> None:
    """Asserts what the documentation says: a balance at a time takes a binary search, and else the history is free."""
    for count in counts:
        first = next(each for each in counts if each.read == count.read)
        if count.read == "balance at a time":
            assert count.requests <= 1 + ceil(log2(count.entries)), count
            assert count.read_units == 1 + (count.requests - 1) / 2, count
        else:
            assert (count.requests, count.read_units) == (first.requests, first.read_units), count


def report(counts: list[Count]) -> Table:
    table = Table(title="Requests, and read units", title_justify="left", title_style="bold")
    for name in ("entries", *dict.fromkeys(count.read for count in counts)):
        table.add_column(name, justify="right")
    for entries in JOURNALS:
        figures = [f"{count.requests}, {count.read_units:g}" for count in counts if count.entries == entries]
        table.add_row(f"{entries:,}", *figures)
    return table


def main() -> None:
    with new_ministack() as endpoint:
        counts = list(count_reads(endpoint, Ledger(endpoint, create_tables(endpoint, "reads"))))
    console.print()
    console.print(report(counts))
    check(counts)


if __name__ == "__main__":
    main()
