"""Books in, books out: a check of accounts, a history made of a CSV file, its export as Parquet, each query on that.

A million entries of 20,000 accounts, or as many as TELLER_BOOKS_ENTRIES says. The export reads them from the files for
DynamoDB's import, in place of the tables.
"""

import csv
import gzip
import os
import random
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from ledger.core.currencies import MINOR_UNITS
from tools.teller import history
from tools.teller.account_files import checked
from tools.teller.exporting import QUERIES, SEGMENTS, State, answer_of, export_to

ENTRIES = int(os.environ.get("TELLER_BOOKS_ENTRIES", "1000000"))
ACCOUNTS = 20_000
FIRST, LAST, SECONDS = datetime(2023, 1, 1, tzinfo=UTC), "2025-12-31", 3 * 365 * 86_400
ALL = {"from": f"{FIRST:%Y-%m-%d}", "to": LAST}
ONE = f"account-{0:06}"
PARAMETERS: dict[str, dict[str, str]] = {
    "trial_balance": {"day": LAST},
    "above": ALL | {"amount": "499", "currency": "EUR"},
    "by_metadata": {"key": "branch", "value": "7"},
    "largest_movers": ALL | {"currency": "EUR"},
    "year_of_account": {"account_id": ONE, "year": "2024"},
    "reconciliation": ALL | {"account_id": ONE},
    **dict.fromkeys(("turnover", "rejections", "interest"), ALL),
}


class MadeItems(NamedTuple):
    """The entries of a history's files, as items of the Journal table."""

    journal: Path

    def __call__(self, table: str, segment: int) -> Iterator[bytes]:
        for path in sorted(self.journal.iterdir())[segment::SEGMENTS] if table == "Journal" else ():
            with gzip.open(path) as file:
                yield from (bytes(_decode(line)["Item"]) for line in file)


_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def write_files(directory: Path) -> None:
    """Files of the accounts, and of their transactions."""
    chance, cents = random.Random(1), [0] * ACCOUNTS
    with (directory / "history.csv").open("w") as file:
        file.write("account_id,transaction_id,amount,posted_at,description,metadata\n")
        for number in range(ENTRIES):
            account, amount = chance.randrange(ACCOUNTS), chance.randrange(-50_000, 50_000)
            cents[account] += amount
            at = (FIRST + timedelta(seconds=number * SECONDS // ENTRIES)).isoformat()
            metadata = f'"{{""branch"": ""{account % 50}""}}"'
            file.write(
                f"account-{account:06},core-{number:08},{amount / 100:.2f},{at},Card payment at a shop,{metadata}\n"
            )
    with (directory / "accounts.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["account_id", "currency", "balance", "source_reference", "as_of"])
        for number, balance in enumerate(cents):
            currency, amount = ("EUR", "USD", "CHF")[number % 3], Decimal(balance).scaleb(-2)
            rows.writerow([f"account-{number:06}", currency, amount, f"core/{number}", "2025-12-31T23:00:00Z"])


def cpu_seconds() -> float:
    """Of this process and of those that have ended, in the system's calls, too."""
    used = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    table = Table(title=f"{ENTRIES:,} entries of {ACCOUNTS:,} accounts", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for name in ("CPU\nseconds", "seconds", "a CPU\nsecond", "MB, the\nlargest process"):
        table.add_column(name, justify="right")

    def timed(name: str, work: Callable[[], Any], number: int = 0) -> None:
        began, cpu = time.monotonic(), cpu_seconds()
        work()
        seconds, cpu = time.monotonic() - began, cpu_seconds() - cpu
        largest = max(resource.getrusage(each).ru_maxrss for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        rate = f"{number / cpu:,.0f}" if number else ""
        table.add_row(name, f"{cpu:.1f}", f"{seconds:.1f}", rate, f"{largest / 1024:.0f}")

    with TemporaryDirectory(prefix="teller-") as folder:
        directory = Path(folder)
        write_files(directory)
        accounts, transactions, made, books = (directory / n for n in ("accounts.csv", "history.csv", "made", "books"))
        timed("accounts, checked", lambda: checked(accounts, MINOR_UNITS.get), ACCOUNTS)
        timed("history", lambda: _in_two(lambda two: history.make(accounts, transactions, made, executor=two)), ENTRIES)
        state, items = State("a stack", "2027"), MadeItems(made / "journal")
        timed("export", lambda: _in_two(lambda two: export_to(books, state, items, executor=two)), ENTRIES)
        bank = directory / "bank.csv"
        bank.write_text("reference,amount\ncore-00000001,5\n")
        for path in sorted(QUERIES.glob("*.sql")):
            given = PARAMETERS.get(path.stem, {}), bank if path.stem == "reconciliation" else None
            timed(path.stem, lambda name=path.stem, given=given: answer_of(name, books, *given))
    Console(highlight=False).print(table)


def _in_two(work: Callable[[ProcessPoolExecutor], Any]) -> Any:
    """With two processes, as the command does on two CPUs."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as two:
        return work(two)


if __name__ == "__main__":
    main()
