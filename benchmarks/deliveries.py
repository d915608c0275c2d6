"""Delivers messages to a function as its queue would, and measures each message's time and what all of them cost."""

import contextlib
import io
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tools.local_aws.functions import again, invoke
from tools.local_aws.meter import Meter

ADDED_SECONDS = 0.005
"""Seconds added to each request: some 5 ms lie between a function and its tables."""
RETURNED_SECONDS = 2.0
"""The time that a message which the function returned stays on the queue before it is delivered again."""
LONGEST_DRAIN_SECONDS = 120
"""For the last messages that were returned. After that they count as lost."""
REFUSALS = ("ConditionalCheckFailedException", "TransactionCanceledException")

type Record = dict[str, Any]


@dataclass(frozen=True)
class Cost:
    """The requests and units of transactions, and how often another writer was first."""

    write_units: float
    read_units: float
    requests: int
    conflicts: int


class Deliveries:
    """The deliveries of one worker to its function. Returned messages come again, to the same worker."""

    def __init__(self, function: Any, *clients: Any) -> None:
        self.seconds: dict[str, float] = {}
        """For each message that ended, by its body: from its first delivery to the return of the call that ended it."""
        self._function, self._meter, self._conflicts = function, Meter(*clients), 0
        self._first: dict[str, float] = {}
        self._returned: list[tuple[float, Record]] = []
        for client in clients:
            client.meta.events.register("before-send", lambda **_: time.sleep(ADDED_SECONDS))
            client.meta.events.register("after-call", self._count_conflicts)

    @property
    def cost(self) -> Cost:
        meter = self._meter
        return Cost(meter.write_units, meter.read_units, meter.requests.total(), self._conflicts)

    def deliver(self, records: Iterable[Record], first_at: float | None = None) -> None:
        """Calls the handler. Its logs and metrics aren't printed. The messages' times begin now, or at `first_at`."""
        records, first_at = list(records), first_at or time.monotonic()
        for record in records:
            self._first.setdefault(record["messageId"], first_at)
        with contextlib.redirect_stdout(io.StringIO()):
            returned_ids = invoke(self._function, records)
        now = time.monotonic()
        for record in records:
            if record["messageId"] in returned_ids:
                self._returned.append((now + RETURNED_SECONDS, again(record)))
            else:
                self.seconds[record["body"]] = now - self._first[record["messageId"]]

    def due(self, limit: int) -> list[Record]:
        """Takes the returned messages that are to be delivered again by now, no more than `limit`."""
        now = time.monotonic()
        due = [each for each in self._returned if each[0] <= now][:limit]
        self._returned = [each for each in self._returned if each not in due]
        return [record for _, record in due]

    def drain(self, limit: int) -> None:
        """Delivers the returned messages until none is left. Raises AssertionError if that takes too long."""
        give_up_at = time.monotonic() + LONGEST_DRAIN_SECONDS
        while self._returned:
            assert time.monotonic() < give_up_at, f"{len(self._returned)} messages are returned again and again"
            if due := self.due(limit):
                self.deliver(due)
            else:
                time.sleep(0.01)

    def _count_conflicts(self, parsed: dict[str, Any], **_: Any) -> None:
        self._conflicts += parsed.get("Error", {}).get("Code") in REFUSALS
