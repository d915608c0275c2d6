"""The time of an invocation: its parts, and a lease that outlives it.

`context` is Lambda's context object, the second argument of a handler.
"""

from typing import Any

from conditional_writes import Deadline
from conditional_writes.core.client import SLOWEST_CALL_SECONDS

RESERVED_SECONDS = SLOWEST_CALL_SECONDS + 1
"""The end of an invocation, in which no request starts: one that starts before may take this long."""
SETTLING_SECONDS = SLOWEST_CALL_SECONDS
"""Before that, the time in which a queue worker only sends dead letters, delays redeliveries and ends attempts."""
OVERRUN_SECONDS = 2.0
"""A margin for a timed-out invocation, and for its last request in flight."""


def deadline_of(context: Any) -> Deadline:
    """The point in time after which the invocation may send no request."""
    return Deadline.of_invocation(context, RESERVED_SECONDS)


def lease_seconds_of(context: Any) -> float:
    """A lease that outlives the invocation: Lambda ends the holder first, so no thread needs to prolong the lease."""
    remaining_milliseconds: int = context.get_remaining_time_in_millis()
    return remaining_milliseconds / 1000 + OVERRUN_SECONDS
