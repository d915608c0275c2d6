"""The parts of an invocation's time."""

from conditional_writes.core.client import SLOWEST_CALL_SECONDS

RESERVED_SECONDS = SLOWEST_CALL_SECONDS + 1
"""The end of an invocation, in which no request starts: one that starts before may take this long."""
SETTLING_SECONDS = SLOWEST_CALL_SECONDS
"""Before that, the time in which a queue worker only sends dead letters, delays redeliveries and ends attempts."""
