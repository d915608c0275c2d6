"""A scheduled job, run until it is done. After a failure it is run again when the failed run's lease has expired."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.support.clock import Clock
from tests.support.faults import Faults, Killed
from tools.local_aws.functions import Context

LEASE_SECONDS = 40


def run_until_done(
    function: ModuleType,
    event: Any,
    faults: Faults,
    *clients: Any,
    between: Callable[[], None] = lambda: None,
) -> tuple[str, Clock]:
    """Returns the last outcome, empty if there was none, and the clock's time at the end."""
    clock = function.job.locks.now = Clock()
    with faults.on(*clients):
        for _ in range(5 + faults.outage.invocations):
            faults.revive()
            try:
                outcome: str = function.lambda_handler(event, Context(LEASE_SECONDS - 10))["outcome"]
            except (Killed, Exception):  # noqa: BLE001 (Lambda retries after any error)
                clock.seconds += LEASE_SECONDS
            else:
                return outcome, clock
            between()
    return "", clock
