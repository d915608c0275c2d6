"""The watch: how many messages wait on the queues, over time, until none does."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.deployed import Bank
from tools.local_aws.queues import waiting_messages

PAUSE_SECONDS = 0.25


class Sample(NamedTuple):
    """Messages on each queue, those being worked on included; and how many were sent so far, and aren't there any more.

    `at` in seconds since the epoch.
    """

    at: float
    transactions: int
    updates: int
    done: int


class StillWaiting(Exception):
    """The time is over, and the queues aren't empty."""


@dataclass
class Watch:
    """`deadline`: until when the queues must be empty for good, in seconds since the epoch."""

    bank: Bank
    deadline: float
    samples: list[Sample] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)

    def counting(self, queue: str, bodies: Iterable[str]) -> Iterator[str]:
        """The same; counts them as they're sent."""
        for body in bodies:
            self.sent[queue] += 1
            yield body

    def until_drained(self, show: Callable[[Sample], None], still_sending: Callable[[], bool] = lambda: False) -> None:
        """Shows each sample. Raises StillWaiting at the deadline."""
        while True:
            all_sent = not still_sending()
            sample = self._sample()
            show(sample)
            if all_sent and sample.transactions == sample.updates == 0:
                return
            if sample.at > self.deadline:
                waiting = f"{sample.transactions} transactions and {sample.updates} updates"
                raise StillWaiting(f"the time is over, and {waiting} are still on their queues")
            time.sleep(PAUSE_SECONDS)

    def _sample(self) -> Sample:
        lines = (self.bank.transactions, self.bank.profiles)
        waiting = [waiting_messages(line.sqs, line.queue_url) for line in lines]
        sample = Sample(time.time(), *waiting, done=self.sent.total() - sum(waiting))
        self.samples.append(sample)
        return sample
