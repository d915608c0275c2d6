"""Turns: a thread that changes the same item again and again leaves others, who change it too, the time for theirs.

All writers of an item must read it and write it one after the other. Without turns most of their requests are refused:
docs/decisions/back-off.md.
"""

import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from conditional_writes.deadline import Deadline
from conditional_writes.items import Key

ROUND_TRIPS = 1.15
"""For the turn of another writer: one, and a little more, because no two take equally long."""
LONGEST_WAIT_SECONDS = 1.0
MAXIMUM_ITEMS = 100
"""The items of a thread that are remembered: those that were contended when it wrote them last."""


class _Turn(NamedTuple):
    """A thread's last write of an item: the version that it made, when, and when the thread's next turn begins."""

    version: int
    ended_at: float
    next_at: float


class Turns(threading.local):
    """The turns of each thread, by item."""

    def __init__(self) -> None:
        self._last: OrderedDict[Key, _Turn] = OrderedDict()

    def wait(self, key: Key, deadline: Deadline) -> bool:
        """Waits for the thread's turn, for half of the remaining time at most. Returns whether others want the item."""
        last = self._last.get(key)
        if last is None:
            return False
        seconds = min(last.next_at - time.monotonic(), deadline.remaining_seconds / 2)
        if seconds > 0:
            time.sleep(seconds)
        return True

    def end(self, key: Key, version: int, conflicts: int, request_seconds: float) -> None:
        """Notes that the thread made this version of the item, after so many conflicts.

        Versions have no gaps. So they tell how many others have written since the thread's last turn.
        """
        now, last = time.monotonic(), self._last.pop(key, None)
        is_recent = last is not None and now - last.ended_at < 2 * LONGEST_WAIT_SECONDS
        others = version - last.version - 1 if last and is_recent else conflicts
        if others > 0:
            wait_seconds = min(ROUND_TRIPS * others * request_seconds, LONGEST_WAIT_SECONDS)
            self._last[key] = _Turn(version, now, now + wait_seconds)
        if len(self._last) > MAXIMUM_ITEMS:
            self._last.popitem(last=False)
