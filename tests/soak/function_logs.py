"""The functions' logs: the number of invocations, and the metrics of those that ended.

A killed invocation logs no metrics, so its conflicts and postings aren't counted.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.deployed import log_events, metrics
from tools.local_aws.stack import Stack

SLICE = timedelta(seconds=1)


@dataclass(frozen=True)
class FunctionLog:
    invocations: int
    lines: list[dict[str, Any]]

    @property
    def metrics(self) -> Counter[str]:
        return Counter({name: round(total) for name, total in metrics(self.lines).items()})

    def conflicts(self) -> Iterator[tuple[float, int]]:
        """The time, in seconds since the epoch, and the number of conflicts of each invocation that had some."""
        for line in self.lines:
            if "Conflicts" in line:
                yield line["_aws"]["Timestamp"] / 1000, int(sum(line["Conflicts"]))


def read_log(stack: Stack, function_name: str, start: float, end: float) -> FunctionLog:
    """Reads a function's log between two times, in seconds since the epoch."""
    invocations, lines = 0, []
    for event in _events(stack, function_name, datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)):
        invocations += event.startswith("START ")
        if event.startswith("{") and event.endswith("}"):  # The last line of a killed process may be cut off.
            lines.append(json.loads(event))
    return FunctionLog(invocations, lines)


def _events(stack: Stack, function_name: str, start: datetime, end: datetime) -> Iterator[str]:
    while start < end:
        yield from log_events(stack, function_name, start, start + SLICE)
        start += SLICE
