"""Outages at each AWS call of each function: all calls fail for 60 deliveries, and in a sample for 15.

Afterwards all is as without them. And a brownout, in which most calls fail.
"""

import itertools
import json
import random
from collections.abc import Callable

import pytest

from conditional_writes.testing import Engine
from tests.checkers.books import violations as violations_of_books
from tests.faults.every_call import violations
from tests.faults.scenarios import Scenario
from tests.faults.scenarios.small import FUNCTIONS, posting_with_a_killer
from tests.support.bodies import opening, payment
from tests.support.event_source import EventSource
from tests.support.faults import OUTAGES, Fault, Faults, FaultsAt, Outage, no_logs, scenario_after_scenario
from tests.support.in_process import Aws, answered_by
from tests.support.ledger import Ledger
from tests.support.reporting import Say
from tools.local_aws.functions import Queue, record
from tools.local_aws.server import Endpoint

DELIVERIES, SAMPLED_DELIVERIES = 60, 15
OF_SERVICES = [("dynamodb", "sqs", "events"), ("dynamodb",), ("sqs",), ("events",)]
FAILING_SHARE = 0.7
ALL_EVERY, SAMPLED_EVERY = 3, 97
ALL_EVERY_OF_MANY, SAMPLED_EVERY_OF_MANY = 13, 401
"""No multiples of the number of services or of kinds: each of them is in the sample. `--soak` has every outage."""
MANY_CALLS = 20
"""With so many calls the samples are smaller: they would take many minutes."""


@pytest.mark.parametrize("function", [*FUNCTIONS, posting_with_a_killer])
def test_a_long_outage_leaves_what_no_fault_leaves(
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
            every = ALL_EVERY_OF_MANY if every_case else SAMPLED_EVERY_OF_MANY
        chosen = cases if soaking else cases[::every]
        for at, services, kind in chosen:
            outage = Outage(DELIVERIES if every_case else SAMPLED_DELIVERIES, services)
            found += [f"{outage}: {each}" for each in violations(scenario, {at: kind}, expected, outage)]
    say(f"{len(chosen)} outages of {len(cases)}, {len(calls)} calls: {len(found)} violations")
    assert not found, "\n".join(found)


HOUR = 3600


@pytest.mark.parametrize(
    ("hours", "reason_code"), [(165, None), (168, "RETRIES_EXHAUSTED")], ids=["almost seven days", "seven days"]
)
def test_after_an_outage_of_almost_seven_days_all_is_posted_and_after_a_longer_one_it_is_in_dead_letters(
    hours: int, reason_code: str | None
) -> None:
    """Each delivery by SQS's own times, on a clock that nothing waits for: some 680 of them."""
    services = Aws(Engine())
    with answered_by(services) as aws, services.engine.simulated_time() as clock, no_logs():
        ledger = Ledger(aws, LONGEST_REDELIVERY_SECONDS="900", POWERTOOLS_LOG_LEVEL="CRITICAL")
        ledger.open("alice")
        queue = EventSource(services.sqs, clock, ledger.worker)
        queue.send(body := json.dumps(payment()))
        with Faults(Fault.OUTAGE_REFUSED, at=1, outage=Outage(100_000, ("dynamodb",))).on(ledger.worker.dynamodb):
            queue.run(hours * HOUR)
        queue.run(HOUR)
        assert not queue.messages
        assert queue.deliveries > 600
        letters = {letter.body: letter.attributes["reason_code"] for letter in ledger.dead_letters()}
        assert letters == ({body: reason_code} if reason_code else {})
        assert not violations_of_books(ledger.books)
        assert ledger.account().balance == (0 if reason_code else 1)


class MostCallsFail(Faults):
    """A brownout: a call fails with this probability, whatever the SDK retries."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def _choose(self, operation: str) -> Fault | None:
        return Fault.ALL_THROTTLED if self._random.random() < FAILING_SHARE else None


def test_while_most_calls_of_dynamodb_fail_no_healthy_message_is_taken_for_a_killer(aws: Endpoint) -> None:
    ledger = Ledger(aws, POWERTOOLS_LOG_LEVEL="CRITICAL")
    with scenario_after_scenario():
        for batch in range(1):
            queue = Queue([record(opening(f"{batch}-{number}")) for number in range(10)])
            with MostCallsFail(batch).on(ledger.worker.dynamodb):
                while queue.records:
                    queue.deliver(ledger.worker)
    assert not ledger.dead_letters()
