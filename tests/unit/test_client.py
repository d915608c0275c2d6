"""An invocation's deadline and lease. The start-up benchmark and the integration tests cover the clients."""

import pytest

from conditional_writes import Deadline
from tools.local_aws.functions import Context
from workers.invocation import RESERVED_SECONDS
from workers.scheduled_jobs import OVERRUN_SECONDS, lease_seconds_of


def test_the_deadline_leaves_time_for_the_last_answer() -> None:
    deadline = Deadline.of_invocation(Context(timeout_seconds=30), RESERVED_SECONDS)
    assert deadline.remaining_seconds == pytest.approx(30 - RESERVED_SECONDS, abs=1)


def test_no_time_left_is_no_time_and_not_forever() -> None:
    """aws-lambda-powertools-python #4759: a remaining time of 0 was read as None."""
    assert lease_seconds_of(Context(timeout_seconds=0)) == OVERRUN_SECONDS
    assert 30 <= lease_seconds_of(Context(timeout_seconds=30)) <= 30 + OVERRUN_SECONDS
