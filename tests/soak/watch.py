"""Watches the number of waiting messages over time, until the queues are empty."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.deployed import Bank
from tools.local_aws.queues import waiting_messages

PAUSE_SECONDS = 0.25


class Sample(NamedTuple):
    """The number of messages on each queue, in flight ones included, and of those that were sent and are done.

    `at` is in seconds since the epoch.
    """

    at: float
    transactions: int
    updates: int
    done: int


class StillWaiting(Exception):
    """The queues aren't empty at the deadline."""


@dataclass
class Watch:
    """The queues must be empty by `deadline`, in seconds since the epoch."""

    bank: Bank
    deadline: float
    samples: list[Sample] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)

    def counting(self, queue: str, bodies: Iterable[str]) -> Iterator[str]:
        """The same bodies, counted as they are sent."""
        for body in bodies:
            self.sent[queue] += 1
            yield body

    def until_drained(self, show: Callable[[Sample], None], still_sending: Callable[[], bool] = lambda: False) -> None:
        """Waits until the queues are empty, and shows each sample. Raises StillWaiting at the deadline."""
        while True:
            all_sent = not still_sending()
            sample = self._sample()
            show(sample)
            if all_sent and sample.transactions == sample.updates == 0:
                return
            if sample.at > self.deadline:
                waiting = f"{sample.transactions} transactions and {sample.updates} updates"
                raise StillWaiting(f"at the deadline {waiting} messages are still on the queues")
            time.sleep(PAUSE_SECONDS)

    def _sample(self) -> Sample:
        queues = (self.bank.transactions, self.bank.profiles)
        waiting = [waiting_messages(queue.sqs, queue.queue_url) for queue in queues]
        sample = Sample(time.time(), *waiting, done=self.sent.total() - sum(waiting))
        self.samples.append(sample)
        return sample
