"""Counts the requests and write units of a transaction, with Teller and with stock Powertools, on one engine."""

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import stock
from benchmarks.engine import new_ministack
from tools.local_aws.functions import invoke, process_transactions, record
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, create_tables

console = Console(highlight=False)

type Record = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A batch of `each` transactions for each of `accounts` accounts."""

    name: str
    accounts: int
    each: int
    times_before: int = 0
    receive_count: int = 1

    @property
    def size(self) -> int:
        return self.accounts * self.each


FRESH = [
    Case("1 transaction", accounts=1, each=1),
    Case("10 of one account", accounts=1, each=10),
    Case("99 of one account", accounts=1, each=99),
    Case("100 of 100 accounts", accounts=100, each=1),
]
REDELIVERED = Case("10 redelivered", accounts=1, each=10, times_before=1, receive_count=2)
SENT_TWICE = Case("10 sent twice", accounts=1, each=10, times_before=1)
"""The producer's own duplicates. Their receive count is 1, as that of new messages."""
CASES = [*FRESH, REDELIVERED, SENT_TWICE]


@dataclass(frozen=True)
class Count:
    """The requests and write units of one batch."""

    case: Case
    requests: Counter[str]
    write_units: float

    @property
    def requests_each(self) -> float:
        return self.requests.total() / self.case.size

    @property
    def write_units_each(self) -> float:
        return self.write_units / self.case.size


@dataclass(frozen=True)
class Side:
    """A function to be measured, the opening of its accounts, the meter on its clients, and its tables' names."""

    function: Any
    open_accounts: Callable[[list[str]], None]
    meter: Meter
    tables: list[str]


def main() -> None:
    with new_ministack() as endpoint:
        check_units(endpoint)
        console.print("Counting Teller's requests")
        ours = count_all(teller_side(endpoint, create_tables(endpoint, "counted")), "ours")
        console.print("Counting stock Powertools' requests")
        theirs = count_all(stock_side(endpoint), "stock")
    console.print()
    console.print(report(ours, theirs))
    console.print(FOOTNOTE)
    for count in ours:
        check(count)
    console.print("[green]Teller's counts are exactly as expected.[/]")


def check_units(endpoint: Endpoint) -> None:
    """Asserts that the write units of the engine, or the meter's own ones, follow DynamoDB's rule."""
    client = endpoint.client("dynamodb")
    tables, meter = create_tables(endpoint, "units"), Meter(client)

    def units(*puts: dict[str, Any]) -> float:
        meter.reset()
        if len(puts) == 1:
            client.put_item(**puts[0])
        else:
            client.transact_write_items(TransactItems=[{"Put": put} for put in puts])
        return meter.write_units

    def account(name: str, kilobytes: float) -> dict[str, Any]:
        return _put(tables.accounts, kilobytes, account_id={"S": name})

    def entry(number: int, kilobytes: float) -> dict[str, Any]:
        keys = {"transaction_id": {"S": f"t-{number}"}, "account_version": {"N": str(number)}}
        return _put(tables.journal, kilobytes, account_id={"S": "a"}, **keys)

    said = [
        units(account("big", 2.5)),
        units(account("big", 0.5)),
        units(account("small", 0.5)),
        units(account("new", 0.5), account("newer", 1.5)),
        units(entry(1, 2.5)),
        units(entry(2, 2.5), entry(3, 0.5)),
        units(account("a", 0.5), entry(4, 0.5)),
    ]
    # An entry is in its table and in the index. Only in the table a transaction makes it twice as dear.
    expected = [3, 3, 1, 2 * (1 + 2), 3 + 3, (2 * 3 + 3) + (2 + 1), 2 + (2 + 1)]
    assert said == expected, f"the write units don't follow DynamoDB's rule: {said}, expected {expected}"


def _put(table: str, kilobytes: float, **keys: dict[str, str]) -> dict[str, Any]:
    return {"TableName": table, "Item": {**keys, "text": {"S": "x" * int(kilobytes * 1024 - 80)}}}


def teller_side(aws: Endpoint, tables: Tables, dynamodb: Endpoint | None = None) -> Side:
    """Teller's function. The tables are on `dynamodb` if that is given, else on `aws`."""
    function = process_transactions(aws, tables, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")

    def open_accounts(names: list[str]) -> None:
        deliver(function, [record(opening(name)) for name in names])

    meter = Meter(function.poster.client, function.worker.queue.client)
    return Side(function, open_accounts, meter, [tables.accounts, tables.journal])


def opening(account_id: str) -> dict[str, str]:
    return {"type": "open_account", "transaction_id": "open", "account_id": account_id, "currency": "EUR"}


def stock_side(endpoint: Endpoint) -> Side:
    tables = stock.create_tables(endpoint, "counted")
    function = stock.StockFunction(endpoint, tables)

    def open_accounts(names: list[str]) -> None:
        with function.accounts.batch_writer() as batch:
            for name in names:
                batch.put_item(
                    Item={
                        "account_id": name,
                        "balance": Decimal(0),
                        "overdraft_limit": Decimal(0),
                        "currency": "EUR",
                        "status": "OPEN",
                        "version": 1,
                    }
                )

    return Side(function, open_accounts, Meter(*function.clients), [tables.accounts, tables.idempotency])


def count_all(side: Side, prefix: str) -> list[Count]:
    return [count_one(side, case, f"{prefix}-{number}") for number, case in enumerate(CASES)]


def count_one(side: Side, case: Case, prefix: str) -> Count:
    """Opens the case's accounts, and counts the requests and units of its batch."""
    names = [f"{prefix}-account-{number}" for number in range(case.accounts)]
    messages = [
        {"transaction_id": f"{prefix}-transaction-{number}", "account_id": name, "amount": "12.34"}
        for number, name in enumerate(names * case.each)
    ]
    side.open_accounts(names)
    for _ in range(case.times_before):
        deliver(side.function, [record(message) for message in messages])
    side.meter.reset()
    deliver(side.function, [record(message, case.receive_count) for message in messages])
    return Count(case, side.meter.requests.copy(), side.meter.write_units)


def deliver(function: Any, records: Iterable[Record]) -> None:
    """Delivers the records. The function's logs and metrics aren't printed."""
    with contextlib.redirect_stdout(io.StringIO()):
        returned = invoke(function, records)
    assert not returned, f"{len(returned)} records returned to the queue, so the counts are wrong"


def report(ours: list[Count], theirs: list[Count]) -> Table:
    table = Table(title="The cost of a transaction", title_justify="left", title_style="bold")
    table.add_column("batch")
    table.add_column("by")
    table.add_column("requests", no_wrap=True)
    table.add_column("requests\neach", justify="right")
    table.add_column("units\neach", justify="right")
    table.add_column("must be", justify="right")
    for our, their in zip(ours, theirs, strict=True):
        table.add_row(our.case.name, "Teller", *figures(our), units_expected(our.case), style="bold")
        table.add_row("", "stock", *figures(their), "", end_section=True)
    return table


def figures(count: Count) -> tuple[str, str, str]:
    requests = [f"{times:3} {operation}" for operation, times in sorted(count.requests.items())]
    return "\n".join(requests), f"{count.requests_each:.2f}", f"{count.write_units_each:.2f}"


def units_expected(case: Case) -> str:
    if case in FRESH:
        return f"3 + 2/{case.each}\n= {3 + 2 / case.each:.2f}"
    return "0.00" if case == REDELIVERED else ""


FOOTNOTE = """\
[dim]Teller makes one commit per account and batch, and one read per 100 accounts. An entry takes \
2 units in the journal and 1 in its index.

Write units are those of ReturnConsumedCapacity. DynamoDB doesn't report those of refused writes: they are computed by \
its published rule, one unit per started kB, and twice that in a transaction. A cancelled one is counted in full.

"Redelivered" messages have a receive count above 1, so Teller reads their attempts and their entries. A producer's \
own duplicates ("sent twice") aren't recognized until the commit is refused.

Stock Powertools writes no journal, and posts twice if a function dies in between. Teller's units pay for both.[/]
"""


def check(count: Count) -> None:
    """Raises AssertionError if Teller's counts differ from the expected ones."""
    case = count.case
    commits = count.requests["TransactWriteItems"]
    reads = count.requests["BatchGetItem"]
    others = count.requests.total() - commits - reads
    # One commit per account. A read finds redelivered messages, and a refused commit those that were sent twice.
    expected_commits = 0 if case == REDELIVERED else case.accounts
    assert commits == expected_commits, f"{case.name}: {commits} commits, expected {expected_commits}"
    expected_reads = 2 if case == REDELIVERED else 1
    assert reads == expected_reads, f"{case.name}: {reads} batch reads, expected {expected_reads}"
    assert others == 0, f"{case.name}: expected reads and commits alone, got {dict(count.requests)}"
    if case in FRESH:
        expected_units = 3 * case.size + 2 * case.accounts  # 3 + 2/n for each of an account's n transactions.
        assert count.write_units == expected_units, (
            f"{case.name}: {count.write_units:g} write units, expected {expected_units}: 3 + 2/{case.each} each"
        )
