"""The costs of a million transactions, by service, from counted requests, units and bytes and from the prices."""

import contextlib
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.engine import new_ministack
from conditional_writes.core.items import from_dynamodb, item_bytes
from tools import prices
from tools.local_aws import functions
from tools.local_aws.functions import record, stream_record
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_tables, scan

SIZES = (1, 10, 99)
"""Transactions of one account in a batch: n."""
POSTING_SECONDS = {1: 0.03, 10: 0.035, 99: 0.11}
PUBLISHING_SECONDS = {1: 0.02, 10: 0.02, 99: 0.06}
"""Of an invocation with n. Assumed, for nothing was run on AWS: the processor time that `counted_batches` takes on a
machine of 2025, on 0.58 of a processor, and AWS's answers."""
LAMBDAS_LINES_BYTES = 700
"""Of an invocation's lines START and REPORT, as JSON. Assumed."""
RECEIVED_TOGETHER = 10
"""Messages that Lambda receives and deletes in one request, at most."""
MEMORY_GB = 1
GB = 2**30
POLLING_REQUESTS = 5 * 3 * 60 * 24 * 30
"""A month's receives of an idle queue: Lambda keeps five open, for 20 s each."""
TRACED_SECONDS = 30 * 24 * 3600
"""A month's traces of a function that is busy all the time: one a second, beside 5 % of what is above that."""

console = Console(highlight=False)


class Batch(NamedTuple):
    """The counts of a batch with `size` transactions of one account, and of the publication of its outcomes."""

    size: int
    write_units: float
    read_units: float
    log_bytes: int
    publishing_log_bytes: int
    entry_bytes: float

    @property
    def dollars(self) -> Mapping[str, float]:
        """For a million transactions, by service. Each message is sent in a request of its own."""
        logs = self.log_bytes + self.publishing_log_bytes + 2 * LAMBDAS_LINES_BYTES
        requests = 1 + 2 / min(self.size, RECEIVED_TOGETHER)
        return {
            "DynamoDB, writes": self.write_units / self.size * prices.WRITE_UNITS.dollars,
            "DynamoDB, reads": self.read_units / self.size * prices.READ_UNITS.dollars,
            "SQS": requests * prices.QUEUE_REQUESTS.dollars,
            "Lambda, posting": _invocations(POSTING_SECONDS[self.size], self.size),
            "Lambda, publishing": _invocations(PUBLISHING_SECONDS[self.size], self.size),
            "EventBridge": prices.EVENTS.dollars,
            "CloudWatch, logs": logs / self.size * 1e6 / GB * prices.LOG.dollars,
        }

    @property
    def storage_dollars(self) -> float:
        """A month's, for a million entries: in the journal with its backup, and in the index."""
        a_gigabyte = 2 * prices.TABLE_STORAGE.dollars + prices.RECOVERY_STORAGE.dollars
        return self.entry_bytes * 1e6 / GB * a_gigabyte


def _invocations(seconds: float, size: int) -> float:
    """Dollars for the invocations of a million transactions, with so many of them in each."""
    each = prices.INVOCATIONS.dollars + seconds * 1e6 * MEMORY_GB * prices.GB_SECONDS.dollars
    return each / size


def fixed_dollars(alarm_metrics: int, custom_metrics: int) -> Mapping[str, float]:
    """A month's, of a stack that does nothing; traces and metrics if it is busy in each hour."""
    return {
        "alarms": alarm_metrics * prices.ALARM_METRICS.dollars,
        "metrics": custom_metrics * prices.CUSTOM_METRICS.dollars,
        "polling of six queues": 6 * POLLING_REQUESTS / 1e6 * prices.QUEUE_REQUESTS.dollars,
        "traces, a function": TRACED_SECONDS / 1e6 * prices.TRACES.dollars,
        "dashboard": prices.DASHBOARDS.dollars,
    }


def counted_batches(endpoint: Endpoint, sizes: Sequence[int] = SIZES) -> Iterator[Batch]:
    """Posts a batch of each size, and publishes its outcomes, by the functions in this process."""
    tables = create_tables(endpoint, "costs")
    posting = functions.process_transactions(endpoint, tables, POWERTOOLS_LOG_LEVEL="INFO")
    publishing = functions.publish_outcomes(endpoint, POWERTOOLS_LOG_LEVEL="INFO")
    meter = Meter(posting.poster.client, posting.worker.queue.client)
    for size in sizes:
        name = f"account-{size}"
        opening = {"type": "open_account", "transaction_id": "open", "account_id": name, "currency": "EUR"}
        payment = {"account_id": name, "amount": "12.34", "currency": "EUR", "description": "Card payment"}
        _logged_bytes(posting, [record(opening)])
        meter.reset()
        payments = [record(payment | {"transaction_id": f"t-{size}-{number:06}"}) for number in range(size)]
        log_bytes = _logged_bytes(posting, payments)
        items = [item for item in scan(endpoint, tables.journal) if item["account_id"]["S"] == name]
        entries = [item for item in items if item["transaction_id"]["S"] != "open"]
        publishing_log_bytes = _logged_bytes(publishing, list(map(stream_record, entries)))
        entry_bytes = sum(item_bytes(from_dynamodb(item)) for item in entries) / size
        yield Batch(size, meter.write_units, meter.read_units, log_bytes, publishing_log_bytes, entry_bytes)


def _logged_bytes(function: ModuleType, records: list[dict[str, Any]]) -> int:
    """The bytes that the function logs for the records: its lines, and its metrics."""
    [handler] = logging.getLogger("teller").handlers
    assert isinstance(handler, logging.StreamHandler)
    with contextlib.redirect_stdout(io.StringIO()) as log:
        before, handler.stream = handler.stream, log  # setStream would flush the other one, which may be closed
        try:
            assert not functions.invoke(function, records)
        finally:
            handler.stream = before
    return len(log.getvalue().encode())


def cents(dollars: float) -> str:
    """With two decimals, half a cent up."""
    return f"{dollars + 1e-9:.2f}"


def cost_table(batches: Sequence[Batch]) -> Table:
    title = f"Dollars for a million transactions, {prices.REGION}, {prices.AS_OF}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("n of one account in a batch")
    for batch in batches:
        table.add_column(str(batch.size), justify="right")
    for service in batches[0].dollars:
        table.add_row(service, *(cents(batch.dollars[service]) for batch in batches))
    table.add_row("in all", *(cents(sum(batch.dollars.values())) for batch in batches), style="bold")
    table.add_row("storage, each month", *(cents(batch.storage_dollars) for batch in batches), style="dim")
    return table


def main() -> None:
    with new_ministack() as endpoint:
        batches = list(counted_batches(endpoint))
    console.print(cost_table(batches))
    console.print(FOOTNOTE)


FOOTNOTE = f"""\
[dim]Units, bytes and requests are counted. Invocations take {min(POSTING_SECONDS.values()) * 1000:.0f} to \
{max(POSTING_SECONDS.values()) * 1000:.0f} ms to post and {min(PUBLISHING_SECONDS.values()) * 1000:.0f} to \
{max(PUBLISHING_SECONDS.values()) * 1000:.0f} ms to publish: assumed, for nothing was run on AWS. Each message is sent \
in a request of its own; a producer that sends tens pays 0.36 dollars less. The prices are in benchmarks/prices.py.[/]
"""
