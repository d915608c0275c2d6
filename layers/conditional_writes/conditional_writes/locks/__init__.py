"""Locks for jobs that must not run at the same time, or not twice for one window: a lease, in one item of a table."""

from conditional_writes.locks.lock import (
    CALL_SECONDS,
    Lock,
    LockLost,
    Locks,
    LockTaken,
    LockUnreadable,
    WindowDone,
    WindowForgotten,
)

__all__ = [
    "CALL_SECONDS",
    "Lock",
    "LockLost",
    "LockTaken",
    "LockUnreadable",
    "Locks",
    "WindowDone",
    "WindowForgotten",
]
