"""A scheduled job, run until it is done. After a failure it is run again when the failed run's lease has expired.

It is also run for each event with which it invoked itself: for its segments, and after a kill.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

from tests.support.clock import Clock
from tests.support.faults import Faults, Killed
from tools.local_aws.functions import Context

LEASE_SECONDS = 100
"""Longer than the lease of an invocation, in which a slow step leaves time enough for the next one."""
MOST_INVOCATIONS = 40


def run_until_done(
    function: ModuleType,
    event: Any,
    faults: Faults,
    *clients: Any,
    between: Callable[[], None] = lambda: None,
) -> tuple[str, Clock]:
    """Returns the outcome of the run, empty if it didn't end, and the clock's time at the end."""
    clock = function.job.locks.now = Clock()
    waiting, outcomes = [event], list[str]()

    def invoke(event: Any, context: Any) -> None:
        waiting.append(event)

    with faults.on(*clients), mock.patch("workers.scheduled_jobs._invoke_again", invoke):
        for _ in range(MOST_INVOCATIONS + faults.outage.invocations):
            faults.revive()
            event = waiting.pop(0)
            try:
                outcomes.append(function.lambda_handler(event, Context(LEASE_SECONDS - 10))["outcome"])
            except (Killed, Exception):  # noqa: BLE001 (Lambda retries after any error)
                waiting.append(event)
                clock.seconds += LEASE_SECONDS
            else:
                if not waiting:
                    return "Done" if "Done" in outcomes else outcomes[-1], clock
                clock.seconds += 0.001
            between()
    return "", clock
