"""The process killer: SIGKILL to function processes at random moments of the work, mostly one, now and then all.

The moments are counted in messages, not in seconds: where starting a function anew takes long, kills by the clock
would end each before it did anything.

A killed worker of ministack's is what a lost execution environment is on AWS: its invocation fails, its batch stays
invisible for the queue's visibility timeout and comes back, a delivery used up. What is ministack's own: it lets an
event source mapping rest for a second after each failure; in place of what was killed it unpacks the code and the
layers and starts a process, which takes seconds; and what is killed in the midst of that fails a batch, too.
"""

import random
import time
from dataclasses import dataclass, field

from tests.support.deployed import Bank

ALL_AT_ONCE_SHARE = 0.03


@dataclass
class ProcessKiller:
    """`killed_at`: a time for each process that was, in seconds since the epoch."""

    bank: Bank
    choose: random.Random
    mean_messages_between_kills: float
    killed_at: list[float] = field(default_factory=list)
    next_kill: float = 0.0

    def progressed(self, messages_done: int) -> None:
        """Kills if as many messages are done as had to be."""
        if messages_done >= self.next_kill:
            self.next_kill = messages_done + self.choose.expovariate(1 / self.mean_messages_between_kills)
            self._kill()

    def _kill(self) -> None:
        processes = self.bank.function_processes()
        if processes and self.choose.random() >= ALL_AT_ONCE_SHARE:
            processes = [self.choose.choice(processes)]
        self.bank.kill(processes)
        self.killed_at += [time.time()] * len(processes)
