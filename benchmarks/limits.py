"""The CPU time that five limits of an account take in the fold, per transaction: the same plans without them, in turn.

A plan is of one transaction or of a hundred, as the batch poster makes it: from the items that were read to the writes.
"""

import statistics
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from conditional_writes import Key
from conditional_writes.core.items import Item, from_dynamodb, to_dynamodb
from ledger.core.accounts import account_item
from ledger.core.limits import Limit, Of, Per, set_limits
from ledger.core.transaction_types import Transaction
from ledger.fold import Commit, QueuedTransaction
from tests.support.folding import AT, TABLES, message_of
from tests.support.samples import ALICE, NOW

PLANS = 4_000
MESSAGES = (1, 98)
LIMITS = [
    Limit(name="day", of=Of.DEBITS, per=Per.DAY, time_zone="Europe/Paris", amount=Decimal(500)),
    Limit(name="often", of=Of.DEBITS, per=Per.DAY, time_zone="Europe/Paris", number=Decimal(2_000)),
    Limit(name="single", of=Of.DEBITS, per=Per.TRANSACTION, amount=Decimal(200)),
    Limit(name="salary", of=Of.CREDITS, per=Per.MONTH, time_zone="Europe/Paris", amount=Decimal(8_000)),
    Limit(name="ceiling", of=Of.BALANCE, amount=Decimal(10_000)),
]

console = Console(highlight=False)


def main() -> None:
    table = Table("microseconds a transaction", *(f"{number} in a batch" for number in MESSAGES))
    rows = {"without limits": (), "with five": (), "more": ()}
    for number in MESSAGES:
        without, limited = measured(number)
        for name, value in zip(rows, (without, limited, limited - without), strict=True):
            rows[name] += (f"{value:.1f}",)
    for name, values in rows.items():
        table.add_row(name, *values)
    console.print(table)


def measured(number: int) -> tuple[float, float]:
    """Microseconds per transaction of plans of so many debits, without limits and with five: the quickest tenth, which
    other work of the machine delays least."""
    debits = [
        message_of(Transaction(transaction_id=f"t-{n}", account_id="alice", amount=Decimal("-1.25")))
        for n in range(number)
    ]
    account = replace(ALICE, balance=Decimal(1000), posted_at=NOW, seal="s" * 43)
    items = [
        to_dynamodb(account_item(each)) for each in (account, replace(account, limits=set_limits(LIMITS, (), NOW)))
    ]
    taken: list[list[float]] = [[], []]
    for turn in range(1, PLANS // number + 20):
        now = AT + timedelta(seconds=turn)
        for times, item in zip(taken, items, strict=True):
            observed = {TABLES.account_key("alice"): from_dynamodb(item)}
            times.append(_microseconds(debits, observed, now) / number)
    without, limited = (statistics.quantiles(times, n=10)[0] for times in taken)
    return without, limited


def _microseconds(debits: Sequence[QueuedTransaction], observed: dict[Key, Item | None], now: datetime) -> float:
    started = time.process_time_ns()
    plan = Commit(TABLES, True, debits, {}, now).plan(observed)
    taken = (time.process_time_ns() - started) / 1000
    assert len(plan.result.dispositions) == len(debits)
    return taken


if __name__ == "__main__":
    main()
