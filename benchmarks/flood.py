"""How late payments are behind a flood of messages that wait: SQS's places in flight and Lambda's batches, simulated.

120,000 payments are for accounts that aren't opened. At 24 times within two hours 1,000 for open accounts are sent. The
times of invocations are assumed: docs/decisions/slow-lane.md.
"""

import heapq
import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from workers.redelivery import FLOOD, SKIPPED_BY_A_FLOOD, growing_delay_seconds

PLACES = 120_000
BATCH, INVOCATIONS, WINDOW_SECONDS = 100, 10, 1.0
"""The template's defaults of BatchSize, MaximumConcurrency and BatchWindowSeconds."""
INVOCATION_SECONDS, WAITING_SECONDS, POSTED_SECONDS = 0.1, 0.002, 0.010
"""Of an invocation, and more for each message in it."""
LONGEST_SECONDS, MAXIMUM_WAITS = 900, 30
SENT_SECONDS = (1, 10, 30, 60, 90, 120, 180, 240, 300, 420, 540, 660, 780, 900, 1020, 1200, 1500, 1800, 2400, 3000)
SENT_LATER_SECONDS = (3600, 4800, 6000, 7200)
SENT = 1_000

console = Console(highlight=False)


class Flood(NamedTuple):
    """In `any_order` SQS draws the next message among all visible ones, else it is the one visible for longest.

    Invocations take `slower` times as long as assumed. Waiting messages of a flood skip so many delays.
    """

    title: str
    any_order: bool = False
    slower: float = 1
    waiting: int = PLACES
    skipped: int = SKIPPED_BY_A_FLOOD


FLOODS = (
    Flood("in the order in which they become visible"),
    Flood("in any order", any_order=True),
    Flood("invocations three times as long", slower=3),
    Flood("… and in any order", any_order=True, slower=3),
    Flood("twice as many waiting as places", waiting=2 * PLACES),
)


def main() -> None:
    table = Table(title=f"Seconds until the last of {SENT:,} is posted", title_justify="left", title_style="bold")
    for name in ("", "sent after 1 s", "after 60 s", "later, at worst", "no delay skipped: at worst"):
        table.add_column(name, justify="right" if name else "left")
    for flood in FLOODS:
        late, before = late_seconds(flood), late_seconds(flood._replace(skipped=0))
        later = max(seconds for sent, seconds in late.items() if sent > 60)
        table.add_row(flood.title, *(f"{each:,.0f}" for each in (late[1], late[60], later, max(before.values()))))
    console.print(table)


def late_seconds(flood: Flood) -> dict[int, float]:
    """Until the last of the messages sent after so many seconds is posted."""
    sent = [seconds for seconds in SENT_SECONDS + SENT_LATER_SECONDS for _ in range(SENT)]
    late: dict[int, float] = {}
    random.seed(1)
    for seconds, after in zip(sent, Simulation(flood, sent).run(), strict=True):
        late[seconds] = max(after, late.get(seconds, 0))
    return late


class Simulation:
    """A queue, and the batches of its function. A message is a number; those below `waiting` find no account.

    The others were sent after so many seconds. `batches` counts invocations, `most_at_once` those at one time.
    """

    def __init__(self, flood: Flood, sent_seconds: Sequence[float]) -> None:
        self._flood, self._random = flood, random.Random(1)
        self._sent = sent_seconds
        self._hidden = [(0.0, number) for number in range(flood.waiting)]
        self._hidden += [(seconds, number) for number, seconds in enumerate(sent_seconds, flood.waiting)]
        heapq.heapify(self._hidden)
        self._visible: list[tuple[float, int]] = []
        self._running: list[tuple[float, list[int]]] = []
        self._receives = [0] * (flood.waiting + len(sent_seconds))
        self._in_flight = 0
        self.batches = self.most_at_once = 0

    def run(self) -> list[float]:
        """The seconds from the sending of each message to its posting."""
        late, now = [0.0] * len(self._sent), 0.0
        left = len(self._sent)
        while left:
            self._show(now)
            while self._may_begin(now):
                self._begin(now)
            now = self._next(now)
            while self._running and self._running[0][0] <= now:
                ended, batch = heapq.heappop(self._running)
                for number in self._end(ended, batch):
                    left -= 1
                    sent = number - self._flood.waiting
                    late[sent] = ended - self._sent[sent]
        return late

    def _show(self, now: float) -> None:
        while self._hidden and self._hidden[0][0] <= now:
            seconds, number = heapq.heappop(self._hidden)
            self._in_flight -= self._receives[number] > 0
            heapq.heappush(self._visible, (seconds, number))
            self._since = seconds if len(self._visible) == 1 else self._since

    def _may_begin(self, now: float) -> bool:
        is_full = len(self._visible) >= BATCH or (self._visible and now >= self._since + WINDOW_SECONDS)
        return bool(is_full) and len(self._running) < INVOCATIONS and self._in_flight < PLACES

    def _begin(self, now: float) -> None:
        taken = min(BATCH, len(self._visible), PLACES - self._in_flight)
        batch = [self._take() for _ in range(taken)]
        self._in_flight += taken
        self._since = now
        waiting = sum(number < self._flood.waiting for number in batch)
        seconds = INVOCATION_SECONDS + WAITING_SECONDS * waiting + POSTED_SECONDS * (taken - waiting)
        heapq.heappush(self._running, (now + seconds * self._flood.slower, batch))
        self.batches += 1
        self.most_at_once = max(self.most_at_once, len(self._running))

    def _take(self) -> int:
        if self._flood.any_order:
            drawn = self._random.randrange(len(self._visible))
            self._visible[drawn], self._visible[-1] = self._visible[-1], self._visible[drawn]
            return self._visible.pop()[1]
        return heapq.heappop(self._visible)[1]

    def _next(self, now: float) -> float:
        times = [self._hidden[0][0]] if self._hidden else []
        times += [self._running[0][0]] if self._running else []
        if self._visible and len(self._running) < INVOCATIONS and self._in_flight < PLACES:
            times.append(self._since + WINDOW_SECONDS)
        return max(now, min(times, default=math.inf))

    def _end(self, now: float, batch: list[int]) -> list[int]:
        """The posted messages. The others are hidden again, or dead."""
        waiting = [number for number in batch if number < self._flood.waiting]
        skipped = self._flood.skipped if len(waiting) >= FLOOD else 0
        for number in waiting:
            self._receives[number] += 1
            if self._receives[number] < MAXIMUM_WAITS:
                delay = growing_delay_seconds(self._receives[number] + skipped, LONGEST_SECONDS)
                heapq.heappush(self._hidden, (now + delay, number))
        posted = [number for number in batch if number >= self._flood.waiting]
        self._in_flight -= len(posted) + sum(self._receives[number] == MAXIMUM_WAITS for number in waiting)
        return posted
