"""Holds through the function that posts, with one worker and with many. Each bug of another system has its test."""

from decimal import Decimal
from typing import Any

import pytest

from tests.support.bodies import (
    Body,
    expire_hold,
    hold,
    payment,
    post_hold,
    void_hold,
)
from tests.support.ledger import Ledger
from tools.local_aws.functions import Queue, again, invoke, record
from tools.local_aws.server import Endpoint

EXPIRES_AT = "2026-03-01T12:00:00+01:00"
RESOLUTIONS = [post_hold(), void_hold(), expire_hold(as_of=EXPIRES_AT)]


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    """Alice has 100, Bob nothing."""
    ledger = Ledger(aws, dynamodb)
    ledger.open("alice", "bob")
    ledger.post(payment("credit", 100))
    return ledger


def money(ledger: Ledger, account_id: str = "alice") -> tuple[Decimal, Decimal]:
    """The account's balance, and what is held of it."""
    account = ledger.account(account_id)
    assert account.held == sum(each.remaining for each in account.open_holds.values())
    return account.balance, account.held


def test_a_hold_is_posted_in_parts_to_another_account_and_its_rest_is_released_at_the_end(ledger: Ledger) -> None:
    ledger.post(hold("h-1", 60), post_hold("p-1", "10.25", final=False, to_account_id="bob"))
    assert (money(ledger), money(ledger, "bob")) == ((Decimal("89.75"), Decimal("49.75")), (Decimal("10.25"), 0))
    ledger.post(post_hold("p-2", "0.75"))
    assert money(ledger) == (89, 0)
    assert ledger.account().holds == {}


def test_a_hold_that_has_expired_can_be_posted_until_its_expiry_is_committed(ledger: Ledger) -> None:
    early = expire_hold(as_of="2019-12-31T23:59:59.999999Z")
    ledger.post(hold(expires_at="2020-01-01T00:00:00Z"), early, post_hold())
    assert ledger.results("x-1", "p-1") == ["HOLD_NOT_EXPIRED", "POSTED"]


def test_a_resolution_that_comes_before_its_hold_waits_for_it(ledger: Ledger) -> None:
    queue = Queue([record(post_hold())])
    queue.deliver(ledger.worker)
    assert queue.records
    assert "p-1" not in ledger.outcomes()
    ledger.post(hold("h-1", 60))
    queue.deliver(ledger.worker)
    assert not queue.records
    assert money(ledger) == (40, 0)


@pytest.mark.parametrize("delivery", [record, lambda body: again(record(body))], ids=["sent again", "delivered again"])
@pytest.mark.parametrize("resolution", RESOLUTIONS, ids=lambda each: each["type"])
def test_a_resolution_that_is_repeated_is_replayed(ledger: Ledger, resolution: Body, delivery: Any) -> None:
    held = hold("h-1", 60, expires_at=EXPIRES_AT)
    ledger.post(hold("h-0", 20), held, resolution)
    before, outcomes = ledger.account(), ledger.outcomes()
    for batch in ([resolution], [held, resolution]):
        assert not invoke(ledger.another_worker(), list(map(delivery, batch)))
    assert (ledger.account(), ledger.outcomes()) == (before, outcomes)


def test_a_holds_id_may_be_any_text_that_can_be_seen(ledger: Ledger) -> None:
    ids = ["\U0001f3e6" * 128, "cw:version_id", "a.b[0] #:", "S", "'\"\\", "remaining"]
    ledger.post(*(hold(each, "0.5") for each in ids))
    assert set(ledger.account().open_holds) == set(ids)
    ledger.post(*(post_hold(f"p-{number}", hold_id=each) for number, each in enumerate(ids)))
    assert money(ledger) == (Decimal(100) - len(ids) * Decimal("0.5"), 0)
