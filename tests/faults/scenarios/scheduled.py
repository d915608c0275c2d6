"""A scheduled job, run until it is done. After a failure it is run again when the failed run's lease has expired.

It is also run again if it invoked itself: after a kill it does so.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

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
    with faults.on(*clients), mock.patch("workers.scheduled_jobs._invoke_again"):
        for _ in range(10 + faults.outage.invocations):
            faults.revive()
            try:
                outcome: str = function.lambda_handler(event, Context(LEASE_SECONDS - 10))["outcome"]
            except (Killed, Exception):  # noqa: BLE001 (Lambda retries after any error)
                clock.seconds += LEASE_SECONDS
            else:
                if outcome != "Continued":
                    return outcome, clock
                clock.seconds += 0.001
            between()
    return "", clock
