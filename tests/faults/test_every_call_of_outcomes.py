"""Every fault injected at every AWS call on an outcome's way to the bus: each is heard of, whatever else can't be."""

from decimal import Decimal
from typing import Any

import pytest

from tests.faults.every_call import inject_every_fault
from tests.faults.scenarios.outcomes import Publishing, PublishingAgain, PublishingAllAgain
from tests.support.in_process import IN_PROCESS
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

OPEN = {"type": "open_account", "currency": "EUR"}
TRANSFER = {"type": "transfer", "from_account_id": "alice", "to_account_id": "bob"}
MESSAGES: list[Any] = [
    OPEN | {"transaction_id": "open alice", "account_id": "alice"},
    OPEN | {"transaction_id": "open bob", "account_id": "bob", "overdraft_limit": -9},
    *({"transaction_id": f"pay {number}", "account_id": "alice", "amount": number} for number in range(1, 13)),
    TRANSFER | {"transaction_id": "transfer", "amount": "6.50"},
    TRANSFER | {"transaction_id": "rejected transfer", "amount": "1000"},
    {"type": "set_overdraft_limit", "transaction_id": "limit", "account_id": "bob", "overdraft_limit": -5},
    {"transaction_id": "spend", "account_id": "alice", "amount": "-71.50"},
    {"transaction_id": "😀 " + "x" * 120, "account_id": "bob", "amount": 1, "description": "ü\x01\u2028" * 100},
    {"type": "close_account", "transaction_id": "close", "account_id": "alice"},
]
DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "pay 2": ({"payload_hash": None}, "NOT_AN_ENTRY"),
    "pay 3": ({"status": "HELD"}, "NOT_AN_ENTRY"),
    "pay 5": ({"request": {"type": "of the future"}}, "NOT_AN_ENTRY"),
    "pay 7": ({"request": {"type": "transaction", "description": "x" * 380_000}}, "EVENT_REFUSED"),
    "pay 8": ({"posted_at": "0001-01-01T00:00:00+14:00"}, "NOT_AN_ENTRY"),
    "pay 11": ({"request": {"type": "transaction", "amount": Decimal(11)}}, "NOT_AN_ENTRY"),
}
REFUSED = {"pay 4": "InvalidArgument", "pay 9": "ValidationException"}

WAYS = {"from the stream": Publishing, "again": PublishingAgain}


@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
@pytest.mark.parametrize("way", [*WAYS, "all again"])
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    aws: Endpoint, dynamodb: Endpoint, way: str, say: Say, every_case: bool
) -> None:
    scenario = (WAYS | {"all again": PublishingAllAgain})[way](aws, dynamodb, MESSAGES, batch_size=15)
    heard, dead = inject_every_fault(scenario, say, every_case=every_case, second_engine=dynamodb != IN_PROCESS)
    assert len(heard) == len(MESSAGES) + 2  # A transfer has two entries.
    assert not dead


@pytest.mark.filterwarnings("ignore:No application metrics")
@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_published_is_in_the_dead_letter_queue_alone_whatever_call_fails(
    aws: Endpoint, dynamodb: Endpoint, way: str, say: Say, every_case: bool
) -> None:
    # The stream alone knows of an entry without a version: no reader finds it.
    damaged = DAMAGED | ({"pay 12": ({"account_version": None}, "NOT_AN_ENTRY")} if way == "from the stream" else {})
    scenario = WAYS[way](aws, dynamodb, MESSAGES, damaged, REFUSED, batch_size=15)
    heard, dead = inject_every_fault(scenario, say, every_case=every_case, second_engine=dynamodb != IN_PROCESS)
    assert len(dead) == len(damaged) + len(REFUSED)
    assert len(heard) == len(MESSAGES) + 2 - len(dead)
