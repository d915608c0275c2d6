"""Locks for jobs that must not run at the same time, or not twice for one window: a lease, in one item of a table."""

from conditional_writes.locks.errors import LockLost, LockTaken, LockUnreadable, WindowDone, WindowForgotten
from conditional_writes.locks.lock import CALL_SECONDS, Lock, Locks

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
