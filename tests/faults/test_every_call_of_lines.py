"""Every fault injected at every AWS call of a batch that waits in line before a contended account."""

import pytest

from tests.faults.every_call import inject_every_fault
from tests.faults.scenarios.lines import CASES, InLine
from tests.support.faults import FaultsAt, scenario_after_scenario
from tests.support.in_process import IN_PROCESS
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

READ, TICKET, LOOK, COMMIT = "BatchGetItem", "UpdateItem", "GetItem", "TransactWriteItems"
MARK = LEAVE = "UpdateItem"
CALLS = {
    "nobody ahead": [READ, TICKET, LOOK, COMMIT],
    "a worker ahead": [READ, TICKET, LOOK, LOOK, COMMIT],
    "a dead worker ahead": [READ, TICKET, *[LOOK] * 4, COMMIT],
    "a turn that is stolen without a ticket": [READ, TICKET, LOOK, COMMIT, LOOK, COMMIT],
    "a turn that the next in line takes": [READ, TICKET, LOOK, COMMIT, TICKET, LOOK, COMMIT],
    "a line begun anew": [READ, TICKET, LOOK, COMMIT],
    "a lost commit": [READ, COMMIT, COMMIT],
    "two lost commits": [READ, COMMIT, COMMIT, MARK, TICKET, LOOK, COMMIT],
    "two lost commits and a dead worker ahead": [READ, COMMIT, COMMIT, MARK, TICKET, *[LOOK] * 6, COMMIT],
    "nothing left to write": [READ, TICKET, LOOK, COMMIT, LEAVE],
}


@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
@pytest.mark.parametrize("case", CASES)
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, case: str, say: Say, every_case: bool
) -> None:
    scenario = InLine(ministack, dynamodb, CASES[case])
    inject_every_fault(scenario, say, every_case=every_case, second_engine=dynamodb != IN_PROCESS)


@pytest.mark.parametrize("case", CALLS)
def test_without_a_fault_a_batch_waits_as_long_as_it_should(ministack: Endpoint, case: str) -> None:
    with scenario_after_scenario():
        faults, _, wrong = InLine(ministack, ministack, CASES[case])(FaultsAt({}))
    assert not wrong
    assert faults.calls == CALLS[case]
