"""Counts what a night of `reconcile_accounts` costs, by the accounts' history and the entries of the day.

Beside it: a night that replays everything.
"""

import contextlib
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple
from unittest import mock

from rich.console import Console
from rich.table import Table

from benchmarks.engine import new_ministack
from benchmarks.filled import Ledger
from ledger.checkpoints import CYCLE_DAYS, Checkpoint
from ledger.core.totals import HashTree
from ledger.core.transaction_types import OpenAccount
from tools import prices
from tools.local_aws import functions
from tools.local_aws.meter import READS, WRITES, Meter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table, create_tables

HISTORIES = (30, 60, 120, 240)
"""Entries of each account."""
ENTRIES_OF_THE_DAY = (0, 1, 10)
"""Of each account in a tenth of them."""
DUE = 10
"""Accounts whose whole journals are due in a night: a thirtieth of all."""
ACTIVE = 3 * DUE
FIRST_DAY = date(2026, 1, 1)
INDEX, TABLE, CHECKPOINTS = "Query by_version", "Query", "Query checkpoints"
"""The meter's names for queries of the index, of the tables, which only whole replays make, and of the checkpoints.

A whole replay makes one of the journal, and one of the account's items in the Reversals table: it has none here, and an
empty page costs a unit.
"""

console = Console(highlight=False)


def names_by_day() -> Iterator[str]:
    """Names of accounts: `DUE` are due on the first day, `DUE` others on the second, and so on for a cycle."""
    days = [FIRST_DAY + timedelta(days=number) for number in range(CYCLE_DAYS)]
    found: dict[date, list[str]] = {day: [] for day in days}
    while min(map(len, found.values())) < DUE:
        name = f"account-{sum(map(len, found.values())):06}"
        opened = OpenAccount(transaction_id="open", account_id=name, currency="EUR").opened_account(2)
        [due] = [day for day in days if Checkpoint(opened, day - timedelta(days=1), HashTree()).is_whole_due(day)]
        found[due].append(name)
    return itertools.chain.from_iterable(names[:DUE] for names in found.values())


NAMES = list(names_by_day())


class Night(NamedTuple):
    """The requests and units of a night, by operation. It replays everything if `entries_of_the_day` is None."""

    history: int
    entries_of_the_day: int | None
    requests: Mapping[str, int]
    units: Mapping[str, float]

    def units_of(self, *operations: str) -> float:
        return sum(self.units.get(operation, 0) for operation in operations)

    @property
    def read_units(self) -> float:
        return self.units_of(*READS, INDEX, CHECKPOINTS)

    @property
    def days_part(self) -> list[dict[str, float]]:
        """The requests and units of all but the whole replays.

        The requests that save checkpoints are left out: there is one for each page of the scan with a due account. And
        the units of the queries of checkpoints: each has a hash more for each 1 in the binary digits of its version.
        """
        return [{**self.requests, TABLE: 0, "BatchWriteItem": 0}, {**self.units, TABLE: 0, CHECKPOINTS: 0}]

    @property
    def dollars(self) -> float:
        """For a million accounts: the prices are those of a million units."""
        return (
            self.read_units * prices.READ_UNITS.dollars + self.units_of(*WRITES) * prices.WRITE_UNITS.dollars
        ) / len(NAMES)


def count_nights(endpoint: Endpoint, ledger: Ledger, histories: Sequence[int] = HISTORIES) -> Iterator[Night]:
    """For each history a night that replays everything, and then one for each number of entries of the day."""
    days = (FIRST_DAY + timedelta(days=number) for number in range(CYCLE_DAYS - ACTIVE // DUE))
    for history in histories:
        console.print(f"Counting nights of {len(NAMES)} accounts with {history} entries each")
        for name in NAMES:
            ledger.grow(name, history)
        # The lock's record grows with each night that is done. So each history has one of its own.
        locks_table = create_locks_table(endpoint, f"{ledger.tables.accounts}-{history}")
        function = functions.reconcile_accounts(endpoint, ledger.tables, locks_table, POWERTOOLS_LOG_LEVEL="ERROR")
        meter = Meter(function.client)
        for entries in (None, *ENTRIES_OF_THE_DAY):
            for name in NAMES[-ACTIVE:]:
                ledger.grow(name, ledger.accounts[name].version + (entries or 0))
            event = {"job": "reconcile_accounts", "scheduled_time": f"{next(days)}T02:00:00Z", "force": True}
            event |= {"whole": entries is None}
            meter.reset()
            with (
                contextlib.redirect_stdout(io.StringIO()) as log,
                mock.patch("ledger.nightly.STEP_SECONDS", 60),  # so that the steps don't depend on this machine
            ):
                outcome = functions.run_job(function, event, functions.Context(timeout_seconds=170))
            assert outcome == "Done", outcome
            assert '"ERROR"' not in log.getvalue(), log.getvalue()
            yield Night(history, entries, dict(meter.answered), dict(meter.units))


def check(nights: list[Night]) -> None:
    """Asserts what the documentation says: the history costs nothing but the whole replays of a thirtieth."""
    for night in nights:
        like_it = [each for each in nights if each.entries_of_the_day == night.entries_of_the_day]
        assert night.days_part == like_it[0].days_part, f"all but whole replays depends on the history: {night}"
        [everything] = [each for each in nights if (each.history, each.entries_of_the_day) == (night.history, None)]
        if night != everything:
            assert night.requests[TABLE] == 2 * DUE, night
            assert night.requests.get(INDEX, 0) == (ACTIVE if night.entries_of_the_day else 0), night
            assert night.units[TABLE] * CYCLE_DAYS == everything.units[TABLE], night


def night_table(nights: list[Night]) -> Table:
    """Without lines, for terminals of 80 columns."""
    title = f"A night of {len(NAMES)} accounts, a tenth of them with entries of the day"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1), pad_edge=False)
    operations = {
        "read:\naccounts": ["Scan"],
        "check-\npoints": ["BatchGetItem", "GetItem", CHECKPOINTS],
        "of the\nday": [INDEX],
        "whole\nreplays": [TABLE],
        "in\nall": [*READS, INDEX, CHECKPOINTS],
        "writ-\nten": WRITES,
    }
    for name in ("his-\ntory", "of the\nday", "re-\nquests", *operations, "dollars a\nmillion"):
        table.add_column(name, justify="right")
    for night in nights:
        is_whole = night.entries_of_the_day is None
        day = "whole" if is_whole else str(night.entries_of_the_day)
        figures = [f"{night.units_of(*each):g}" for each in operations.values()]
        requests = str(sum(night.requests.values()))
        table.add_row(str(night.history), day, requests, *figures, f"{night.dollars:.2f}", style="dim" * is_whole)
    return table


def main() -> None:
    with new_ministack() as endpoint:
        nights = list(count_nights(endpoint, Ledger(endpoint, create_tables(endpoint, "night"))))
    console.print()
    console.print(night_table(nights))
    console.print(FOOTNOTE)
    check(nights)
    console.print("[green]The history costs nothing but the whole replays of a thirtieth.[/]")


FOOTNOTE = f"""\
[dim]Units read are those of the scan, of the checkpoints, of the index (entries of the day) and of the tables (whole \
replays of {DUE} accounts). Units written are the checkpoints and the lock's record. "Whole" is a night \
that replays everything.

Dollars are those of a million such accounts, at the prices of benchmarks/prices.py.[/]
"""
