"""A flood of messages that wait takes all places in flight: how late are others? docs/decisions/slow-lane.md"""

import json
import random

import pytest

from conditional_writes.testing import Engine
from tests.support import event_source, sqs
from tests.support.bodies import payment
from tests.support.event_source import EventSource
from tests.support.faults import no_logs
from tests.support.in_process import Aws, answered_by
from tests.support.ledger import Ledger
from tests.support.reporting import Say
from workers import redelivery

BATCH_SECONDS = 0.3
SENT_AFTER_SECONDS = (1, 60, 800)
LATEST_SECONDS = 60


@pytest.mark.parametrize(
    "any_order", [pytest.param(False, marks=pytest.mark.exhaustive), True], ids=["in order", "in any order"]
)
def test_a_payment_is_late_by_a_minute_at_most_when_waiting_messages_have_all_places_in_flight(
    monkeypatch: pytest.MonkeyPatch, soaking: bool, any_order: bool, say: Say
) -> None:
    """All is a thousandth: 120,000 places, a file of as many messages, 10 batches of 100 at once. With --soak a
    hundredth."""
    places, batch = (1_200, 10) if soaking else (120, 1)
    monkeypatch.setattr(sqs, "MAXIMUM_IN_FLIGHT", places)
    monkeypatch.setattr(sqs, "MAXIMUM_BATCH", batch)
    monkeypatch.setattr(event_source, "BATCH", batch)
    monkeypatch.setattr(redelivery, "FLOOD", max(1, batch // 2))
    services = Aws(Engine())
    if any_order:
        chance = random.Random(1)
        services.sqs.order = lambda message: chance.random()
    with answered_by(services) as aws, services.engine.simulated_time() as clock, no_logs():
        ledger = Ledger(aws, POWERTOOLS_LOG_LEVEL="CRITICAL", MAXIMUM_WAITS="30")
        ledger.open("alice")
        queue = EventSource(services.sqs, clock, ledger.worker, BATCH_SECONDS)
        flood = clock.time()
        queue.send(*(json.dumps(payment(f"early-{n}", account_id=f"missing-{n}")) for n in range(places)))
        late = {}
        for after in SENT_AFTER_SECONDS:
            queue.run(flood + after - clock.time())
            queue.send(*(json.dumps(payment(f"{after}-{n}")) for n in range(batch)))
            queue.run(3600, left=places)
            late[after] = round(clock.time() - flood - after)
    say(f"{places:,} waiting: {batch:,} sent after these seconds are posted so many later: {late}")
    assert max(late.values()) <= LATEST_SECONDS
