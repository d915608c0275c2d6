"""Every fault injected at every AWS call of a day's interest, run until it is done: each account is charged once."""

import pytest

from tests.faults.every_call import inject_every_fault
from tests.faults.scenarios.interest import Charging
from tests.support.in_process import IN_PROCESS
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

BALANCES = {"anna": -100, "ben": -200, "cleo": 50, "dora": -300, "emil": -400, "finn": -500, "gina": 75}


@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("between", ["posted at the end", "posted before it is run again"])
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, between: str, segments: int, say: Say, every_case: bool
) -> None:
    in_between = between == "posted before it is run again"
    scenario = Charging(
        ministack, dynamodb, BALANCES, accounts_per_step=3, segments=segments, posted_in_between=in_between
    )
    balances = inject_every_fault(scenario, say, every_case=every_case, second_engine=dynamodb != IN_PROCESS)
    thousandths = {name: -balance for name, balance in BALANCES.items() if balance < 0}
    assert {name: 1000 * (BALANCES[name] - balance) for name, balance in balances.items()} == {
        name: thousandths.get(name, 0) for name in BALANCES
    }
