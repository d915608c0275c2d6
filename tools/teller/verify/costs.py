"""The costs of a verification, in dollars: counted requests, and an upper bound of the functions' work for it."""

import math
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from tools import prices

MILLION = 10**6
DOLLARS = {
    "DynamoDB write units": prices.WRITE_UNITS.dollars / MILLION,
    "DynamoDB read units": prices.READ_UNITS.dollars / MILLION,
    "SQS requests": prices.QUEUE_REQUESTS.dollars / MILLION,
    "EventBridge events": prices.EVENTS.dollars / MILLION,
    "Lambda invocations": prices.INVOCATIONS.dollars / MILLION,
    "Lambda GB-seconds": prices.GB_SECONDS.dollars,
    "X-Ray traces": prices.TRACES.dollars / MILLION,
    "CloudWatch requests": prices.API_REQUESTS.dollars / 1000,
    "CloudWatch Logs KB": prices.LOG.dollars / 2**20,
}
WRITES_PER_KB = 5
"""Of a journal entry that is alone in its commit: 2 for itself, 1 for the index, 2 for its account."""
WRITES_PER_REVERSAL = READS_PER_REVERSAL = 2
"""Beside its entries: of the count of what was reversed. The reversed entry is read, too."""
WRITES_PER_REFUSAL = 200
"""Of a refused commit with a hundred items."""
SQS_REQUESTS_PER_MESSAGE = 3
LOG_KB_PER_MESSAGE = 1.2
"""At LogLevel INFO, of a message that is alone in its batch: docs/operations.md."""


class Requests:
    """Counts the command's own requests, by service and operation, and the units that its reads took."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.read_units = 0.0
        self._lock = threading.Lock()

    def counted(self, client: Any) -> Any:
        """The client. Each of its calls counts from now on."""
        service = client.meta.service_model.service_name

        def count(model: Any, **_: Any) -> None:
            self.add(service, model.name)

        client.meta.events.register("before-call", count)
        return client

    def add(self, service: str, operation: str) -> None:
        with self._lock:
            self.counts[service, operation] += 1

    def add_read(self, consumed: Any) -> None:
        """`consumed` is the `ConsumedCapacity` of an answer, if there is one."""
        with self._lock:
            self.read_units += (consumed or {}).get("CapacityUnits", 0)

    def of(self, service: str) -> int:
        return sum(count for (name, _), count in self.counts.items() if name == service)


class Cost(NamedTuple):
    what: str
    number: float
    dollars: float


class Usage(NamedTuple):
    """The functions' work for the run. `entry_bytes` has the size of each journal entry."""

    entry_bytes: Sequence[int]
    reversals: int
    messages: int
    dead_letters: int
    dead_letter_bytes: int
    refused_commits: int
    invocations: int
    gb_seconds: float
    scanned_bytes: int


def costs(requests: Requests, usage: Usage) -> list[Cost]:
    """The costs by what is paid for. Numbers of the functions' own work are upper bounds."""
    entry_kb = sum(math.ceil(size / 1024) for size in usage.entry_bytes)
    refused_kb = 2 * math.ceil(usage.dead_letter_bytes / 1024) * max(1, math.ceil(math.log2(usage.dead_letters + 1)))
    numbers = {
        "DynamoDB write units": WRITES_PER_KB * entry_kb
        + WRITES_PER_REVERSAL * usage.reversals
        + WRITES_PER_REFUSAL * usage.refused_commits
        + refused_kb,
        "DynamoDB read units": requests.read_units
        + entry_kb
        + READS_PER_REVERSAL * usage.reversals
        + usage.scanned_bytes / 4096,
        "SQS requests": requests.of("sqs") + SQS_REQUESTS_PER_MESSAGE * usage.messages,
        "EventBridge events": len(usage.entry_bytes) + usage.dead_letters,
        "Lambda invocations": usage.invocations,
        "Lambda GB-seconds": usage.gb_seconds,
        "X-Ray traces": usage.invocations,
        "CloudWatch requests": requests.of("cloudwatch"),
        "CloudWatch Logs KB": LOG_KB_PER_MESSAGE * usage.messages,
    }
    return [Cost(what, number, number * DOLLARS[what]) for what, number in numbers.items()]
