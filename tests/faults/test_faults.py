"""Tests of the faults: if a fault were never injected, all other tests here would pass."""

import itertools
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, ReadTimeoutError

from conditional_writes import Deadline
from tests.support.faults import OUTAGES, Fault, Faults, Killed, Outage
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


def test_each_fault_is_tested() -> None:
    assert EFFECTS.keys() == {*Fault}


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
