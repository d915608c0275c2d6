"""An outage at each AWS call of each function: all calls fail for 60 deliveries. Afterwards all is as without it."""

import itertools
from collections.abc import Callable

import pytest

from tests.faults.every_call import violations
from tests.faults.scenarios import Scenario
from tests.faults.scenarios.small import FUNCTIONS, posting_with_a_killer
from tests.support.faults import OUTAGES, FaultsAt, Outage, scenario_after_scenario
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

DELIVERIES = 60
OF_SERVICES = [("dynamodb", "sqs"), ("dynamodb",), ("sqs",)]
SAMPLED_EVERY = 7
MANY_CALLS = 20
"""With so many calls `--all` has no more than the sample: it would take many minutes."""


@pytest.mark.filterwarnings("ignore:No application metrics")  # A failed handler has no metrics.
@pytest.mark.parametrize("function", [*FUNCTIONS, posting_with_a_killer])
def test_an_outage_of_sixty_deliveries_leaves_what_no_fault_leaves(
    ministack: Endpoint, function: Callable[[Endpoint], Scenario], say: Say, every_case: bool
) -> None:
    with scenario_after_scenario():
        scenario = function(ministack)
        faultless, expected, wrong = scenario(FaultsAt({}))
        assert not wrong
        calls = range(1, len(faultless.calls) + 1)
        cases = [*itertools.product(calls, OF_SERVICES, sorted(OUTAGES, key=lambda outage: outage.name))]
        found: list[str] = []
        chosen = cases if every_case and len(calls) < MANY_CALLS else cases[::SAMPLED_EVERY]
        for at, services, kind in chosen:
            outage = Outage(DELIVERIES, services)
            found += [f"{outage}: {each}" for each in violations(scenario, {at: kind}, expected, outage)]
    say(f"{len(chosen)} outages of {len(cases)}, {len(calls)} calls: {len(found)} violations")
    assert not found, "\n".join(found)
