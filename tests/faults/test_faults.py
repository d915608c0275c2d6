"""Tests of the faults: if a fault were never injected, all other tests here would pass."""

import itertools
import json
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, ReadTimeoutError

from conditional_writes import Deadline
from tests.faults.every_call import FEWEST, MOST, NotInjected, injections, sampled, violations
from tests.faults.scenarios import ScenarioResult
from tests.support.every_event import SeenEvents
from tests.support.faults import CODES_OF_EVENTS, OUTAGES, Fault, Faults, FaultsAt, Killed, Outage
from tools.local_aws.consumers import new_consumer
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_tables

_numbers = itertools.count(1)

# The error that the caller gets (None: success), the number of attempts, and whether the call took effect.
EFFECTS: dict[Fault, tuple[type[BaseException] | None, int, bool]] = {
    Fault.KILLED_BEFORE: (Killed, 1, False),
    Fault.KILLED_AFTER: (Killed, 1, True),
    Fault.RESPONSE_LOST: (None, 2, True),
    Fault.ALL_RESPONSES_LOST: (ReadTimeoutError, 5, True),
    Fault.THROTTLED: (None, 2, True),
    Fault.ALL_THROTTLED: (ClientError, 5, False),
    Fault.SERVER_ERROR: (None, 2, True),
    Fault.SERVER_ERROR_AFTER: (None, 2, True),
    Fault.ALL_SERVER_ERRORS_AFTER: (ClientError, 5, True),
    Fault.CANCELLED_BY_CONFLICT: (ClientError, 1, False),
    Fault.CANCELLED_BY_THROTTLE: (ClientError, 1, False),
    Fault.IN_PROGRESS: (None, 2, True),
    Fault.ALL_IN_PROGRESS: (ClientError, 5, True),
    Fault.OUTAGE_REFUSED: (EndpointConnectionError, 5, False),
    Fault.OUTAGE_SERVER_ERROR: (ClientError, 5, False),
    Fault.OUTAGE_ACCESS_DENIED: (ClientError, 1, False),
    Fault.OUTAGE_HANGING: (ReadTimeoutError, 5, False),
}


@pytest.mark.parametrize("fault", EFFECTS)
def test_a_fault_does_what_its_name_says(aws: Endpoint, fault: Fault) -> None:
    table = create_tables(aws, f"faults-{next(_numbers)}").accounts
    client = aws.client("dynamodb")  # It makes five attempts.
    sent: list[Any] = []
    error, attempts, effect = EFFECTS[fault]
    put = {"Put": {"TableName": table, "Item": {"account_id": {"S": "a"}}}}
    client.meta.events.register_first("before-send", lambda **event: sent.append(event))
    with Faults(fault, at=1).on(client) as faults:
        if error is None:
            client.transact_write_items(TransactItems=[put])
        else:
            with pytest.raises(error):
                client.transact_write_items(TransactItems=[put])
        faults.revive()
        found = client.get_item(TableName=table, Key={"account_id": {"S": "a"}}, ConsistentRead=True)
    assert len(sent) == attempts + 1
    assert ("Item" in found) == effect
    assert faults.injected.keys() == {fault}


@pytest.mark.parametrize("fault", CODES_OF_EVENTS)
def test_a_fault_of_events_leaves_out_each_second_one_or_all(
    aws: Endpoint, fault: Fault, seen_events: SeenEvents
) -> None:
    name = f"faults-{next(_numbers)}"
    client = aws.client("events")
    client.create_event_bus(Name=name)
    consumer = new_consumer(aws, name, name)
    event = {"Source": "teller", "DetailType": "x", "EventBusName": name}
    with Faults(fault, at=2).on(client) as faults:
        for first in (0, 10):
            entries = [event | {"Detail": json.dumps({"number": first + number})} for number in range(5)]
            response = client.put_events(Entries=entries)
    taken = set() if fault is Fault.ALL_EVENTS_FAILED else {1, 3}
    results = response["Entries"]
    assert {number for number, result in enumerate(results) if result.get("EventId")} == taken
    assert {result["ErrorCode"] for result in results if "ErrorCode" in result} == {CODES_OF_EVENTS[fault]}
    assert response["FailedEntryCount"] == 5 - len(taken)
    heard = [event["detail"]["number"] for event in consumer.take()]
    assert sorted(heard) == [*range(5), *sorted(10 + number for number in taken)]
    assert faults.injected == {fault: 1}
    seen_events.problems.clear()  # These events are none of Teller's.


def test_each_fault_is_tested() -> None:
    assert {*EFFECTS, *CODES_OF_EVENTS} == {*Fault}


@pytest.mark.parametrize("outage", sorted(OUTAGES, key=lambda outage: outage.name))
def test_an_outage_is_of_all_calls_of_all_services_and_lasts_so_many_invocations(aws: Endpoint, outage: Fault) -> None:
    dynamodb, sqs = aws.client("dynamodb"), aws.client("sqs")
    with Faults(outage, at=2, outage=Outage(invocations=3)).on(dynamodb, sqs) as faults:
        dynamodb.list_tables()
        deadline = Deadline.after(60)
        for _ in range(3):
            for call in (dynamodb.list_tables, sqs.list_queues):
                with pytest.raises((BotoCoreError, ClientError)):
                    call()
            faults.revive()
        assert (deadline.remaining_seconds < 2) == (outage is Fault.OUTAGE_HANGING)
        sqs.list_queues()
    assert faults.injected == {outage: 1}
    assert faults.calls == ["ListTables", "ListTables", "ListQueues"]


def test_a_fault_that_is_never_injected_is_an_error() -> None:
    """Otherwise tests that inject faults would pass without any."""

    def deaf(faults: FaultsAt) -> ScenarioResult:
        faults.calls.append("PutItem")
        return ScenarioResult(faults, {}, [])

    for plan, sentence in (({1: Fault.THROTTLED}, "injected"), ({2: Fault.THROTTLED}, "there was no call 2")):
        with pytest.raises(NotInjected, match=sentence):
            list(violations(deaf, plan, {}))


def test_a_sample_has_some_fault_at_every_call_and_all_samples_together_have_every_fault_at_each_kind_of_call() -> None:
    calls = ["BatchGetItem", "TransactWriteItems", "SendMessageBatch", "UpdateItem", "PutEvents"] * 3
    cases = injections(calls)
    chosen = sampled(cases)
    assert chosen == sampled(cases)
    assert set(chosen) < set(cases)
    assert [at for at, _ in chosen] == [*range(1, len(calls) + 1)]
    assert len({fault for _, fault in chosen}) == len(calls)
    assert len(sampled(injections(calls[:2]))) == FEWEST
    assert len({at for at, _ in sampled(injections(calls * 9))}) == MOST
    together = {(calls[at - 1], fault) for seed in range(100) for at, fault in sampled(cases, seed)}
    assert together == {(calls[at - 1], fault) for at, fault in cases}
