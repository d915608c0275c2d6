"""An outage of days by SQS's own times, and a brownout, in which most calls fail: on a clock that nothing waits for.

Short outages of all functions: `machine.py`.
"""

import json
import random
from collections.abc import Iterator

import pytest

from conditional_writes.testing import Engine
from tests.checkers.books import violations
from tests.support.bodies import opening, payment
from tests.support.event_source import EventSource
from tests.support.faults import Fault, Faults, Outage, no_logs, unlimited_retries
from tests.support.in_process import Aws, answered_by
from tests.support.ledger import Ledger
from tools.local_aws.functions import Queue, record

FAILING_SHARE = 0.7
HOUR = 3600

type Bank = tuple[Ledger, EventSource]


@pytest.fixture
def bank() -> Iterator[Bank]:
    """A ledger, and the queue of its function."""
    services = Aws(Engine())
    with (
        answered_by(services) as aws,
        services.engine.simulated_time() as clock,
        no_logs(),
        unlimited_retries(),
    ):
        ledger = Ledger(aws, LONGEST_REDELIVERY_SECONDS="900", POWERTOOLS_LOG_LEVEL="CRITICAL")
        ledger.open("alice")
        yield ledger, EventSource(services.sqs, clock, ledger.worker)


@pytest.mark.parametrize(
    ("hours", "reason_code"), [(165, None), (168, "RETRIES_EXHAUSTED")], ids=["almost seven days", "seven days"]
)
def test_after_an_outage_of_almost_seven_days_all_is_posted_and_after_a_longer_one_it_is_in_dead_letters(
    bank: Bank, hours: int, reason_code: str | None
) -> None:
    ledger, queue = bank
    queue.send(body := json.dumps(payment()))
    with Faults(Fault.OUTAGE_REFUSED, at=1, outage=Outage(100_000, ("dynamodb",))).on(ledger.worker.dynamodb):
        queue.run(hours * HOUR)
    queue.run(HOUR)
    assert not queue.messages
    assert queue.deliveries > 600
    letters = {letter.body: letter.attributes["reason_code"] for letter in ledger.dead_letters()}
    assert letters == ({body: reason_code} if reason_code else {})
    assert not violations(ledger.books)
    assert ledger.account().balance == (0 if reason_code else 1)


class MostCallsFail(Faults):
    """A brownout: a call fails with this probability, whatever the SDK retries."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def _choose(self, operation: str) -> Fault | None:
        return Fault.ALL_THROTTLED if self._random.random() < FAILING_SHARE else None


def test_while_most_calls_of_dynamodb_fail_no_healthy_message_is_taken_for_a_killer(bank: Bank) -> None:
    """The messages come again at once, which is more often than by SQS's times."""
    ledger, _ = bank
    queue = Queue([record(opening(f"a-{number}")) for number in range(10)])
    with MostCallsFail(seed=0).on(ledger.worker.dynamodb):
        while queue.records:
            queue.deliver(ledger.worker)
    assert not ledger.dead_letters()
