"""The process killer: sends SIGKILL to function processes at random moments, mostly to one, sometimes to all.

The moments are counted in messages, not in seconds. If starting a function takes long, kills by the clock would end
each process before it did anything.

A killed process of ministack corresponds to a lost execution environment on AWS: its invocation fails, and its batch is
redelivered after the visibility timeout, with one delivery used up. Unlike AWS, ministack pauses an event source
mapping for a second after each failure. It unpacks the code and the layers again to replace a process, which takes
seconds. A kill in that time fails a batch, too.
"""

import random
import time
from dataclasses import dataclass, field

from tests.support.deployed import Bank

ALL_AT_ONCE_SHARE = 0.03


@dataclass
class ProcessKiller:
    """`killed_at` has the time of each kill, in seconds since the epoch."""

    bank: Bank
    choose: random.Random
    mean_messages_between_kills: float
    killed_at: list[float] = field(default_factory=list)
    next_kill: float = 0.0

    def progressed(self, messages_done: int) -> None:
        """Kills if the number of messages for the next kill is done."""
        if messages_done >= self.next_kill:
            self.next_kill = messages_done + self.choose.expovariate(1 / self.mean_messages_between_kills)
            self._kill()

    def _kill(self) -> None:
        processes = self.bank.function_processes()
        if processes and self.choose.random() >= ALL_AT_ONCE_SHARE:
            processes = [self.choose.choice(processes)]
        self.bank.kill(processes)
        self.killed_at += [time.time()] * len(processes)
