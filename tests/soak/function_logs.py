"""The functions' logs: invocations, and the metrics of those that ended.

A killed invocation logged no metrics: its conflicts and what it posted are in none.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.deployed import log_events, metrics
from tools.local_aws.stack import Stack

SLICE = timedelta(seconds=15)


@dataclass(frozen=True)
class FunctionLog:
    invocations: int
    lines: list[dict[str, Any]]

    @property
    def metrics(self) -> Counter[str]:
        return Counter({name: round(total) for name, total in metrics(self.lines).items()})

    def conflicts(self) -> Iterator[tuple[float, int]]:
        """How many, and when: in seconds since the epoch."""
        for line in self.lines:
            if "Conflicts" in line:
                yield line["_aws"]["Timestamp"] / 1000, int(sum(line["Conflicts"]))


def read_log(stack: Stack, function_name: str, start: float, end: float) -> FunctionLog:
    """Between two times, in seconds since the epoch."""
    invocations, lines = 0, []
    for event in _events(stack, function_name, datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)):
        invocations += event.startswith("START ")
        if event.startswith("{") and event.endswith("}"):  # the last line of what was killed may be cut off
            lines.append(json.loads(event))
    return FunctionLog(invocations, lines)


def _events(stack: Stack, function_name: str, start: datetime, end: datetime) -> Iterator[str]:
    while start < end:
        yield from log_events(stack, function_name, start, start + SLICE)
        start += SLICE
