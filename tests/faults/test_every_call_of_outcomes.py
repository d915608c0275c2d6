"""Every fault injected at every AWS call on an outcome's way to the bus: each is heard of, whatever else can't be."""

from decimal import Decimal
from typing import Any

import pytest

from tests.faults.conftest import Inject
from tests.faults.scenarios.outcomes import Publishing, PublishingAgain, PublishingAllAgain
from tests.support.bodies import closing, opening, payment, set_limit, transfer
from tools.local_aws.server import Endpoint

MESSAGES = [
    opening("alice", transaction_id="open alice"),
    opening("bob", -9, transaction_id="open bob"),
    *(payment(f"pay {number}", number) for number in range(1, 13)),
    transfer("transfer", "6.50"),
    transfer("rejected transfer", "1000"),
    set_limit("limit", -5, "bob"),
    payment("spend", "-71.50"),
    payment("😀 " + "x" * 120, 1, "bob", description="ü\x01\u2028" * 100),
    closing("close"),
]
DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "pay 2": ({"seal": None}, "NOT_AN_ENTRY"),
    "pay 3": ({"status": "HELD"}, "NOT_AN_ENTRY"),
    "pay 5": ({"request": {"type": "of the future"}}, "NOT_AN_ENTRY"),
    "pay 7": ({"request": {"type": "transaction", "description": "x" * 380_000}}, "EVENT_REFUSED"),
    "pay 8": ({"posted_at": "0001-01-01T00:00:00+14:00"}, "NOT_AN_ENTRY"),
    "pay 11": ({"request": {"type": "transaction", "amount": Decimal(11)}}, "NOT_AN_ENTRY"),
}
REFUSED = {"pay 4": "InvalidArgument", "pay 9": "ValidationException"}

WAYS = {"from the stream": Publishing, "again": PublishingAgain}


@pytest.mark.parametrize("way", [*WAYS, "all again"])
def test_each_outcome_is_heard_of(aws: Endpoint, dynamodb: Endpoint, way: str, inject: Inject) -> None:
    scenario = (WAYS | {"all again": PublishingAllAgain})[way](aws, dynamodb, MESSAGES, batch_size=15)
    heard, dead = inject(scenario)
    assert len(heard) == len(MESSAGES) + 2  # A transfer has two entries.
    assert not dead


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_published_is_in_the_dead_letter_queue_alone_whatever_call_fails(
    aws: Endpoint, dynamodb: Endpoint, way: str, inject: Inject
) -> None:
    """The stream alone knows of an entry without a version: no reader finds it. It doesn't know the entry before."""
    damaged = DAMAGED | (
        {"pay 12": ({"account_version": None}, "NOT_AN_ENTRY")}
        if way == "from the stream"
        else {"pay 7": (DAMAGED["pay 7"][0], "BROKEN_SEAL")}
    )
    heard, dead = inject(WAYS[way](aws, dynamodb, MESSAGES, damaged, REFUSED, batch_size=15))
    assert len(dead) == len(damaged) + len(REFUSED)
    assert len(heard) == len(MESSAGES) + 2 - len(dead)
