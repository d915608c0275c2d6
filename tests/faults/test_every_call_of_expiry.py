"""Every fault injected at every AWS call of a night that expires holds: each expired hold is released once."""

import pytest

from tests.faults.every_call import inject_every_fault
from tests.faults.scenarios.expiry import Expiring
from tests.support.in_process import IN_PROCESS
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint


@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("between", ["posted at the end", "posted before it is run again"])
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, between: str, segments: int, say: Say, every_case: bool
) -> None:
    in_between = between == "posted before it is run again"
    scenario = Expiring(ministack, dynamodb, segments=segments, posted_in_between=in_between)
    left = inject_every_fault(scenario, say, every_case=every_case, second_engine=dynamodb != IN_PROCESS)
    assert left == {"anna": (10, 6), "ben": (0, 1), "cleo": (1, 4), "dora": (1, 2), "emil": (0, 3)}
