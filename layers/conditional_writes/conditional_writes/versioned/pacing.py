"""Pacing: a thread that changes one item again and again leaves the item's other writers the time to change it, too.

An item's writers read and write it one after the other, whatever they do. Without pacing most of their requests come
between another's read and write, and are refused: docs/decisions/back-off.md.
"""

import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from conditional_writes.core.items import Key
from conditional_writes.core.steps import Deadline, Pause, Steps, blocking

ROUND_TRIPS = 1.25
"""The time that each other writer is left: a round trip for its write, and a quarter more, because no two requests
take equally long."""
LONGEST_WAIT_SECONDS = 1.0
MAXIMUM_ITEMS = 100
"""The items that a thread remembers: those that others changed, too, when it changed them last."""


class _LastWrite(NamedTuple):
    """The version that a thread made of an item, when, and when the thread begins its next change."""

    version: int
    made_at: float
    next_at: float


class Pace(threading.local):
    """The pace of each thread at each item. Threads share nothing: to each other they are other writers."""

    def __init__(self) -> None:
        self._last: OrderedDict[Key, _LastWrite] = OrderedDict()

    @blocking
    def wait(self, key: Key, deadline: Deadline) -> Steps[bool]:
        """Waits until others had their time, but for half of the remaining time at most. Returns whether there are any.

        Called before the item is read, so that what was read doesn't age.
        """
        last = self._last.get(key)
        if last is None:
            return False
        seconds = min(last.next_at - time.monotonic(), deadline.remaining_seconds / 2)
        if seconds > 0:
            yield Pause(seconds)
        return True

    def note(self, key: Key, version: int, conflicts: int, request_seconds: float) -> None:
        """Notes that the thread made this version of the item, after so many conflicts.

        Versions have no gaps, so they tell how many others have written since the thread's last write. All others have
        as long as that takes, before the thread's next.
        """
        now, last = time.monotonic(), self._last.pop(key, None)
        if last is not None and now - last.made_at < 2 * LONGEST_WAIT_SECONDS:
            others = version - last.version - 1
        else:
            others = conflicts
        if others > 0:
            wait_seconds = min(ROUND_TRIPS * others * request_seconds, LONGEST_WAIT_SECONDS)
            self._last[key] = _LastWrite(version, now, now + wait_seconds)
        if len(self._last) > MAXIMUM_ITEMS:
            self._last.popitem(last=False)
