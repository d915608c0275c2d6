"""A scheduled job, run until it is done. After a failure it is run again when the failed run's lease has expired."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.support.clock import Clock
from tests.support.faults import Faults, Killed
from tools.local_aws.functions import Context, run_job

LEASE_SECONDS = 100
"""Longer than the lease of an invocation, in which a slow step leaves time enough for the next one."""
MOST_INVOCATIONS = 40


def run_until_done(
    function: ModuleType, event: Any, faults: Faults, *clients: Any, between: Callable[[], None] = lambda: None
) -> tuple[str, Clock]:
    """Returns the outcome of the run, empty if it didn't end, and the clock's time at the end."""
    clock = function.job.locks.now = Clock()
    with faults.on(*clients):
        for _ in range(MOST_INVOCATIONS + faults.outage.invocations):
            faults.revive()
            try:
                outcome = run_job(function, event, Context(LEASE_SECONDS - 10))
            except (Killed, Exception):  # noqa: BLE001 (the message comes again after any error)
                outcome = "InProgress"
            if outcome in {"Done", "DoneBefore"}:
                return outcome, clock
            clock.seconds += LEASE_SECONDS if outcome == "InProgress" else 0.001
            between()
    return "", clock
