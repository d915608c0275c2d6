"""The CPU time that seals take in the replay of a whole journal: the same replay without them, in turn.

An entry had a hash of its request before it had a seal. The goal is a tenth more than the replay with that hash.
"""

import hashlib
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.filled import Ledger
from conditional_writes.core.items import from_dynamodb
from conditional_writes.testing import Engine
from ledger.core import replay
from ledger.core.accounts import Account
from ledger.core.journal import JournalEntry, entry_from_item, seal_of
from tests.support.in_process import Aws, answered_by
from tests.support.replaying import Alone
from tools.local_aws.tables import create_tables, scan

ENTRIES = 1_000
TURNS = 60

console = Console(highlight=False)


def main() -> None:
    with answered_by(Aws(Engine())) as endpoint:
        ledger = Ledger(endpoint, create_tables(endpoint, "seals"))
        ledger.grow("alice", ENTRIES)
        items = list(scan(endpoint, ledger.tables.journal))
    console.print(f"An entry of a replay from the items as they are read, the quickest tenth of {TURNS} turns")
    measured = microseconds(ledger.accounts["alice"], items)
    table = Table("microseconds of CPU an entry", "", "of the replay with a request's hash")
    for name, value in measured.items():
        table.add_row(name, f"{value:.1f}", f"{value / measured['with a hash of the request']:.3f}")
    console.print(table)


def microseconds(account: Account, items: Sequence[dict[str, Any]]) -> dict[str, float]:
    encoder = msgspec.json.Encoder(order="sorted")

    def hashed(_: str, entry: JournalEntry) -> str:
        hashlib.sha256(encoder.encode(entry.request)).digest()
        return entry.seal

    ways: dict[str, Callable[[str, JournalEntry], str]] = {
        "without": lambda _, entry: entry.seal,
        "with a hash of the request": hashed,
        "with seals": seal_of,
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, way in ways.items():
            with mock.patch.object(replay, "seal_of", way):
                taken[name].append(_replayed(account, items) / len(items))
    return {name: statistics.quantiles(times, n=10)[0] for name, times in taken.items()}


def _replayed(account: Account, items: Sequence[dict[str, Any]]) -> float:
    started, now = time.process_time_ns(), datetime.now(UTC)
    entries = [entry_from_item(from_dynamodb(item)) for item in items]
    entries.sort(key=lambda entry: entry.outcome.account_version)
    assert list(replay.Replay(account).mismatches(entries, account.version, Alone(), now)) == []
    return (time.process_time_ns() - started) / 1000


if __name__ == "__main__":
    main()
