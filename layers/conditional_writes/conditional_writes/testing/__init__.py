"""DynamoDB in the process, for tests: a strict engine on a simulated clock, and every order of concurrent workers.

Tests import this package. Nothing else of the library does, and it isn't deployed to Lambda.
"""

from conditional_writes.testing.clock import Clock
from conditional_writes.testing.engine import Engine
from conditional_writes.testing.exploring import Explored, Violation, explore, replay
from conditional_writes.testing.schedule import Fault, Killed, Outcome, Stuck
from conditional_writes.testing.wire import Call

__all__ = [
    "Call",
    "Clock",
    "Engine",
    "Explored",
    "Fault",
    "Killed",
    "Outcome",
    "Stuck",
    "Violation",
    "explore",
    "replay",
]
