"""Publishers of the same entries, killed and retried: each outcome is on the bus, and nothing else is."""

import functools
import json
import os
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from conditional_writes import Deadline
from conditional_writes.core.items import from_dynamodb
from conditional_writes.testing import Engine, Outcome
from conditional_writes.testing.wire import Call
from ledger.core.outcome_events import SOURCE
from ledger.outcome_publisher import OutcomePublisher
from ledger.republishing import Republisher
from tests.explore.bank import DELIVERY_SECONDS, LAST, NAMES, Bank, Opened, raised_none
from tests.explore.scenario import Scenario
from tests.support.bodies import opening, payment
from tests.support.in_process import IN_PROCESS, Aws
from workers.event_bus import EventBus, events_client
from workers.sending import sqs_client

LETTERS = f"{IN_PROCESS.url}/000000000000/dead"


@functools.cache
def publisher_of(_: int) -> OutcomePublisher:
    with mock.patch.dict(os.environ, IN_PROCESS.environment):
        return OutcomePublisher(EventBus(events_client(read_seconds=10), "outcomes", SOURCE), sqs_client(), LETTERS)


class Stream:
    """A bank, a bus whose events a queue hears, and the journal's entries, the third of which is damaged.

    Of its first request the bus throttles each second event. It never takes the event of `REFUSED`.
    """

    def __init__(self, bank: Bank) -> None:
        self.aws = Aws(bank.engine)
        for name in ("heard", "dead"):
            self.aws.sqs.answer("CreateQueue", {"QueueName": name}, IN_PROCESS.url)
        self.aws.bring(SOURCE, bus="outcomes", queue="heard")
        bank.engine.others |= {"AmazonSQS": self.aws.answer, "AWSEvents": self._take}
        self.bank, self._is_first = bank, True
        for worker in range(LAST + 1):
            publisher = publisher_of(worker)
            bank.engine.attach(publisher.bus.client)
            bank.engine.attach(publisher.queue_client)
        entries = sorted(map(from_dynamodb, bank.items(NAMES.journal)), key=lambda item: item["account_version"])
        self.items = [*entries[:2], {"account_id": "alice", "transaction_id": "damaged"}, *entries[2:]]

    def _take(self, call: Call) -> Any:
        results = []
        for number, event in enumerate(call.request["Entries"]):
            if json.loads(event["Detail"])["transaction_id"] == REFUSED:
                results.append({"ErrorCode": "InvalidArgument", "ErrorMessage": "never"})
            elif self._is_first and number % 2:
                results.append({"ErrorCode": "ThrottlingException", "ErrorMessage": "not now"})
            else:
                results += self.aws.events.answer(call.name, {"Entries": [event]})["Entries"]
        self._is_first = False
        return {"FailedEntryCount": sum("ErrorCode" in result for result in results), "Entries": results}

    def publish_again(self, worker: int) -> None:
        """As a caller asks for it, again and again while some is left. A damaged entry isn't found by its version."""
        republisher = Republisher(self.bank.clients[worker], NAMES, publisher_of(worker))
        requests: list[Any] = [{"republish": {"account_id": "alice"}}]
        while requests:
            answer = republisher.answer(requests.pop(), Deadline.after(DELIVERY_SECONDS))
            assert "error" not in answer, answer
            requests += answer.get("next", [])

    def publish(self, worker: int) -> Sequence[str | None]:
        return publisher_of(worker).publish(self.items, Deadline.after(DELIVERY_SECONDS)).failures

    def queued(self, name: str) -> list[Any]:
        return [json.loads(message.body) for message in self.aws.sqs.queues[name].messages]


REFUSED = "p-3"
OPENED = Opened(opening("alice"), payment("p-1", 20), payment("p-2", -30), payment(REFUSED, 4))


def streamed(engine: Engine) -> Stream:
    return Stream(OPENED(engine))


def publishing(worker: int) -> Callable[[Stream], Any]:
    return lambda stream: stream.publish(worker)


def all_heard(stream: Stream, outcomes: Sequence[Outcome]) -> None:
    for is_final in (False, True):
        if is_final:
            assert set(stream.publish(LAST)) == {None}
        if is_final or any(not each.was_killed and set(raised_none(each)) == {None} for each in outcomes):
            assert_heard(stream, {"damaged", REFUSED})


def all_heard_again(stream: Stream, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.error is None:
            assert_heard(stream, {REFUSED})
    stream.publish_again(LAST)
    assert_heard(stream, {REFUSED})


def assert_heard(stream: Stream, dead: set[str]) -> None:
    heard = {event["detail"]["transaction_id"] for event in stream.queued("heard")}
    assert heard == {"open", "p-1", "p-2"}, heard
    letters = stream.queued("dead")
    assert {letter.get("transaction_id", REFUSED) for letter in letters} == dead, letters


SCENARIOS = [
    Scenario(
        "what a killed publisher left is published again",
        [publishing(0)],
        streamed,
        all_heard,
        most_faults=2,
        budget=15,
    ),
    Scenario(
        "two publishers of one batch tell each outcome",
        [publishing(0), publishing(1)],
        streamed,
        all_heard,
        completes=False,
    ),
    Scenario(
        "outcomes that are published again at request are heard, whatever call fails",
        [lambda stream: stream.publish_again(0)],
        streamed,
        all_heard_again,
        completes=False,
    ),
]
