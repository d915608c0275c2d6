"""The faults do what their names say: a fault that never strikes would make every other test here pass."""

import itertools
from collections import Counter
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.faults.faults import FOR_TRANSACTIONS, Fault, Faults, Killed, RandomFaults
from tests.local_aws.server import Endpoint
from tests.local_aws.tables import create_tables

_numbers = itertools.count(1)

# What the caller sees (None: a success), how often its call was sent, and whether it took effect.
EFFECTS: dict[Fault, tuple[type[BaseException] | None, int, bool]] = {
    Fault.KILLED_BEFORE: (Killed, 1, False),
    Fault.KILLED_AFTER: (Killed, 1, True),
    Fault.RESPONSE_LOST: (None, 2, True),
    Fault.ALL_RESPONSES_LOST: (ReadTimeoutError, 5, True),
    Fault.THROTTLED: (None, 2, True),
    Fault.ALL_THROTTLED: (ClientError, 5, False),
    Fault.SERVER_ERROR: (None, 2, True),
    Fault.CANCELLED_BY_CONFLICT: (ClientError, 1, False),
    Fault.CANCELLED_BY_THROTTLE: (ClientError, 1, False),
}


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_does_what_its_name_says(ministack: Endpoint, fault: Fault) -> None:
    table = create_tables(ministack, f"faults-{next(_numbers)}").accounts
    client = ministack.client("dynamodb")  # it tries five times
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
    assert faults.struck.keys() == {fault}


def test_random_faults_strike_as_often_as_they_should_and_the_same_for_the_same_seed() -> None:
    def chosen(seed: int) -> list[Fault | None]:
        faults = RandomFaults(seed, probability=0.1)
        return [faults._choose(operation) for _ in range(1000) for operation in ("GetItem", "TransactWriteItems")]

    struck = Counter(filter(None, chosen(1)))
    assert 120 < struck.total() < 280
    assert struck.keys() == set(Fault)
    assert not set(filter(None, chosen(1)[::2])) & FOR_TRANSACTIONS
    assert chosen(1) == chosen(1) != chosen(2)
