"""Outages at each AWS call of each function: all calls fail for 60 deliveries. Afterwards all is as without them.

And a brownout, in which most calls fail.
"""

import itertools
import random
from collections.abc import Callable

import pytest

from tests.faults.every_call import violations
from tests.faults.scenarios import Scenario
from tests.faults.scenarios.small import FUNCTIONS, posting_with_a_killer
from tests.support.faults import OUTAGES, Fault, Faults, FaultsAt, Outage, scenario_after_scenario
from tests.support.reporting import Say
from tools.local_aws.functions import Queue, process_transactions, record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_tables

DELIVERIES = 60
OF_SERVICES = [("dynamodb", "sqs", "events"), ("dynamodb",), ("sqs",), ("events",)]
FAILING_SHARE = 0.7
ALL_EVERY, SAMPLED_EVERY, SAMPLED_EVERY_OF_MANY = 3, 7, 43
"""No multiples of the number of services or of kinds: each of them is in the sample. `--soak` has every outage."""
MANY_CALLS = 20
"""With so many calls the samples are smaller: they would take many minutes."""


@pytest.mark.parametrize("function", [*FUNCTIONS, posting_with_a_killer])
def test_an_outage_of_sixty_deliveries_leaves_what_no_fault_leaves(
    aws: Endpoint, function: Callable[[Endpoint], Scenario], say: Say, every_case: bool, soaking: bool
) -> None:
    with scenario_after_scenario():
        scenario = function(aws)
        faultless, expected, wrong = scenario(FaultsAt({}))
        assert not wrong
        calls = range(1, len(faultless.calls) + 1)
        cases = [*itertools.product(calls, OF_SERVICES, sorted(OUTAGES, key=lambda outage: outage.name))]
        found: list[str] = []
        every = ALL_EVERY if every_case else SAMPLED_EVERY
        if len(calls) >= MANY_CALLS:
            every = SAMPLED_EVERY if every_case else SAMPLED_EVERY_OF_MANY
        chosen = cases if soaking else cases[::every]
        for at, services, kind in chosen:
            outage = Outage(DELIVERIES, services)
            found += [f"{outage}: {each}" for each in violations(scenario, {at: kind}, expected, outage)]
    say(f"{len(chosen)} outages of {len(cases)}, {len(calls)} calls: {len(found)} violations")
    assert not found, "\n".join(found)


class MostCallsFail(Faults):
    """A brownout: a call fails with this probability, whatever the SDK retries."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def _choose(self, operation: str) -> Fault | None:
        return Fault.ALL_THROTTLED if self._random.random() < FAILING_SHARE else None


def test_while_most_calls_of_dynamodb_fail_no_healthy_message_is_taken_for_a_killer(aws: Endpoint) -> None:
    function = process_transactions(aws, create_tables(aws, "brownout"), POWERTOOLS_LOG_LEVEL="CRITICAL")
    opening = {"type": "open_account", "transaction_id": "open", "currency": "EUR"}
    with scenario_after_scenario():
        for batch in range(3):
            queue = Queue([record(opening | {"account_id": f"{batch}-{number}"}) for number in range(10)])
            with MostCallsFail(batch).on(function.dynamodb):
                while queue.records:
                    queue.deliver(function)
    assert not take_dead_letters(aws, function.worker.queue.dead_letter_url)
