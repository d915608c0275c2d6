"""What an invocation's remaining time allows: a deadline for its requests, and a lease that outlives it.

`context` is what Lambda hands the handler.
"""

from typing import Any

from conditional_writes import Deadline
from conditional_writes.client import SLOWEST_CALL_SECONDS

RESERVED_SECONDS = SLOWEST_CALL_SECONDS + 1
"""Kept from an invocation's time: a request that starts at the deadline may take this long to be answered."""
OVERRUN_SECONDS = 2.0
"""A margin for a timed-out invocation, and for its last request in flight."""


def deadline_of(context: Any) -> Deadline:
    """Until when the invocation may send requests."""
    return Deadline.after(_remaining_seconds(context) - RESERVED_SECONDS)


def lease_seconds_of(context: Any) -> float:
    """A lease that the invocation can't outlive: the platform ends a holder before its lease ends, so that no thread
    needs to keep the lease alive."""
    return _remaining_seconds(context) + OVERRUN_SECONDS


def _remaining_seconds(context: Any) -> float:
    remaining_milliseconds: int = context.get_remaining_time_in_millis()
    return remaining_milliseconds / 1000
