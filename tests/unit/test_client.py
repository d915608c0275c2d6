"""An invocation's deadline. The start-up benchmark and the integration tests cover the clients."""

from typing import Any

import pytest

from tools.local_aws.functions import Context
from workers.invocation import RESERVED_SECONDS, deadline_of


def test_the_deadline_leaves_time_for_the_last_answer() -> None:
    context: Any = Context(timeout_seconds=30)
    assert deadline_of(context).remaining_seconds == pytest.approx(30 - RESERVED_SECONDS, abs=1)
