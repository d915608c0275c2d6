"""What a run on AWS costs at most, by the bytes of its requests and answers, and how long it may take."""

import _thread
import contextlib
import math
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tools import prices

LONGEST_SECONDS = 180
MOST_DOLLARS = 0.05
KB = 1024
UNITS_OF_A_KB = 3
"""Write units: two in a transaction, and one in the index."""
UNITS_OF_4_KB = 2
"""Read units, of a read in a transaction."""
DOLLARS = {
    "dynamodb write": prices.WRITE_UNITS.dollars,
    "dynamodb read": prices.READ_UNITS.dollars,
    "sqs": prices.QUEUE_REQUESTS.dollars,
    "events": prices.EVENTS.dollars,
}
"""For a million. What isn't named costs nothing, or less than a cent together."""


class Bill:
    """Counts more than AWS will: each byte of a request to DynamoDB as a written one, of an answer as one read.

    If it is more than `most_dollars`, it interrupts the run, as Ctrl-C does: what was made is removed then.
    """

    def __init__(self, most_dollars: float = MOST_DOLLARS) -> None:
        self.counts: Counter[str] = Counter()
        self._most_dollars = most_dollars

    @property
    def dollars(self) -> float:
        return sum(DOLLARS.get(what, 0) * count / 1e6 for what, count in self.counts.items())

    def counting(self, client: Any) -> Any:
        service = client.meta.service_model.service_name

        def sent(request: Any, **_: Any) -> None:
            body = request.body or b""
            if service == "dynamodb":
                self.counts["dynamodb write"] += UNITS_OF_A_KB * math.ceil(len(body) / KB)
            else:  # 64 KB are one request
                self.counts[service] += max(1, math.ceil(len(body) / KB / 64))
            if self.dollars > self._most_dollars:
                self._most_dollars = math.inf  # what is asked from now on is for the removal
                _thread.interrupt_main()

        def answered(http_response: Any, **_: Any) -> None:
            if service == "dynamodb":
                self.counts["dynamodb read"] += UNITS_OF_4_KB * math.ceil(len(http_response.content) / KB / 4)

        client.meta.events.register("before-send", sent)
        client.meta.events.register("after-call", answered)
        return client


@contextlib.contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Interrupts the run, as Ctrl-C does: what it has made is removed then."""
    timer = threading.Timer(seconds, _thread.interrupt_main)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
