"""The cost of a versioned item with this library, PynamoDB and boto3: requests, units, the client's CPU and goodput.

All use the same item and one engine in one run. Only the counts are exact, and only ours are asserted.
"""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import goodput
from benchmarks.engine import new_ministack
from benchmarks.writers import (
    Client,
    Ours,
    PuttingResource,
    Pydynox,
    PynamoDB,
    QuickClient,
    Resource,
    Writer,
    create_table,
)
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint

COUNTED = {"ours": Ours, "PynamoDB": PynamoDB, "boto3": Resource}
EXPECTED = {
    "create": (1, 0, 1),
    "read-modify-write": (2, 1, 1),
    "with a conflict": (3, 1, 2),
    "delete": (1, 0, 1),
}
"""Our expected requests, read units and write units."""

BASE = "boto3 resource, update_item"
TIMED = {
    "ours": Ours,
    "PynamoDB": PynamoDB,
    "pydynox": Pydynox,
    BASE: Resource,
    "boto3 resource, put_item": PuttingResource,
    "botocore client": Client,
    "botocore client, settings as ours": QuickClient,
}
WARM_UPS = 50
ROUNDS = 15
EACH_ROUND = 20
PAGES, PAGE_ITEMS = 15, 1000

console = Console(highlight=False)


def main() -> None:
    with new_ministack() as endpoint:
        counts = count_all(endpoint, "counted")
        console.print(count_report(counts))
        check(counts)
        console.print("[green]Our counts are exactly as expected.[/]\n")
        console.print(f"Timing {WARM_UPS} and {ROUNDS * EACH_ROUND} read-modify-writes by each")
        console.print(cpu_report("a read-modify-write", cpu_milliseconds(endpoint, "timed")))
        console.print(f"\nTiming {PAGES} reads of {PAGE_ITEMS} items by each")
        console.print(cpu_report(f"a scan of {PAGE_ITEMS} items", page_milliseconds(endpoint, "scanned")))
        console.print()
        console.print(f"Timing {goodput.WRITERS} writers on one item, {goodput.ROUNDS} rounds each")
        console.print(goodput.report(goodput.measure(endpoint, "contended")))
    console.print(FOOTNOTE)


FOOTNOTE = f"""\
[dim]The item has some 280 bytes: key, version, strings, decimals, a map and a list. Ours has a cw:version_id, too. \
Each read-modify-write adds 1 to its count. In a conflict another writer writes between the read and the write.

Units are those of ReturnConsumedCapacity. The engine doesn't report those of refused writes and of BatchGetItem: they \
are computed by DynamoDB's published rules.

CPU is this process's, without the server's: medians of {ROUNDS} rounds of {EACH_ROUND}, with the writers in turn, \
each on its own item. PynamoDB turns botocore's parameter validation off.

Goodput: {goodput.WRITERS} processes make {goodput.INCREMENTS} increments together, with \
{goodput.ADDED_SECONDS * 1000:.0f} ms added to each request; medians of the rounds. The final count shows that no \
update was lost.[/]
"""


@dataclass(frozen=True)
class Count:
    """The requests and units of one operation."""

    operation: str
    writer: str
    requests: Counter[str]
    read_units: float
    write_units: float

    @property
    def figures(self) -> tuple[float, float, float]:
        return self.requests.total(), self.read_units, self.write_units


def count_all(endpoint: Endpoint, table: str) -> list[Count]:
    create_table(endpoint, table)
    return [count for name in COUNTED for count in count_writer(endpoint, table, name)]


def count_writer(endpoint: Endpoint, table: str, name: str) -> Iterator[Count]:
    writer: Writer = COUNTED[name](endpoint, table)
    other = Resource(endpoint, table)
    meter = Meter(writer.client)
    tries = itertools.count(1)

    def other_is_first() -> None:
        if next(tries) == 1:
            other.add_one(name)

    def count(operation: str, run: Callable[[], None]) -> Count:
        meter.reset()
        run()
        return Count(operation, name, meter.requests.copy(), meter.read_units, meter.write_units)

    yield count("create", lambda: writer.create(name))
    yield count("read-modify-write", lambda: writer.add_one(name))
    yield count("with a conflict", lambda: writer.add_one(name, between=other_is_first))
    assert other.load(name)["count"] == 3, f"{name}: an update was lost"
    loaded = writer.load(name)
    yield count("delete", lambda: writer.delete(loaded))


def check(counts: Sequence[Count]) -> None:
    """Raises AssertionError if our counts differ from the expected ones."""
    ours = {count.operation: count for count in counts if count.writer == "ours"}
    for operation, expected in EXPECTED.items():
        count = ours[operation]
        assert count.figures == expected, (
            f"{operation}: {count.figures} requests, read units and write units, expected {expected};"
            f" it sent {dict(count.requests)}"
        )


def count_report(counts: Sequence[Count]) -> Table:
    table = Table(title="The cost of a versioned item", title_justify="left", title_style="bold")
    table.add_column("")
    table.add_column("by")
    table.add_column("requests", no_wrap=True)
    for name in ("requests", "read\nunits", "write\nunits"):
        table.add_column(name, justify="right")
    for operation, writer in itertools.product(EXPECTED, COUNTED):
        [count] = [count for count in counts if (count.operation, count.writer) == (operation, writer)]
        table.add_row(
            operation if writer == "ours" else "",
            writer,
            "\n".join(f"{times} {name}" for name, times in sorted(count.requests.items())),
            *(f"{figure:g}" for figure in count.figures),
            style="bold" if writer == "ours" else "",
            end_section=writer == list(COUNTED)[-1],
        )
    return table


def cpu_milliseconds(endpoint: Endpoint, table: str) -> dict[str, float]:
    """The CPU time of one read-modify-write, for each writer."""
    create_table(endpoint, table)
    writers: dict[str, Writer] = {name: make(endpoint, table) for name, make in TIMED.items()}
    for name, writer in writers.items():
        writer.create(name)
        cpu_seconds(writer, name, WARM_UPS)
    rounds = [{name: cpu_seconds(writer, name, EACH_ROUND) for name, writer in writers.items()} for _ in range(ROUNDS)]
    return {name: median(seconds[name] for seconds in rounds) / EACH_ROUND * 1000 for name in writers}


def page_milliseconds(endpoint: Endpoint, table: str) -> dict[str, float]:
    """The CPU time of a scan of one page, for each writer. Those of the same answer aren't timed twice."""
    create_table(endpoint, table)
    writers: dict[str, Any] = {name: make(endpoint, table) for name, make in TIMED.items() if "put_item" not in name}
    for number in range(PAGE_ITEMS):
        writers["ours"].create(f"order-{number}")
    timed: dict[str, list[float]] = {name: [] for name in writers}
    for _ in range(PAGES):
        for name, writer in writers.items():
            started = time.process_time()
            assert len(writer.load_all()) == PAGE_ITEMS, name
            timed[name].append(time.process_time() - started)
    return {name: median(seconds) * 1000 for name, seconds in timed.items()}


def cpu_seconds(writer: Writer, order_id: str, times: int) -> float:
    started = time.process_time()
    for _ in range(times):
        writer.add_one(order_id)
    return time.process_time() - started


def cpu_report(what: str, measured: dict[str, float]) -> Table:
    table = Table(title=f"The client's CPU for {what}", title_justify="left", title_style="bold")
    table.add_column("by")
    for name in ("ms", "of boto3's resource"):
        table.add_column(name, justify="right")
    for name, milliseconds in measured.items():
        ratio = milliseconds / measured[BASE]
        table.add_row(name, f"{milliseconds:.2f}", f"{ratio:.2f}", style="bold" if name == "ours" else "")
    return table


if __name__ == "__main__":
    main()
