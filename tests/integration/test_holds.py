"""Holds through the function that posts, with one worker and with many. Each bug of another system has its test."""

import itertools
from decimal import Decimal
from typing import Any

import pytest

from tests.support.bodies import (
    Body,
    closing,
    expire_hold,
    hold,
    payment,
    post_hold,
    set_limit,
    void_hold,
)
from tests.support.ledger import WORKERS, Ledger
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


def test_held_money_stays_in_the_balance_and_cannot_be_spent(ledger: Ledger) -> None:
    ledger.post(hold("h-1", 60), payment("t-1", -41), payment("t-2", -40))
    assert ledger.results("h-1", "t-1", "t-2") == ["POSTED", "OVERDRAFT_LIMIT", "POSTED"]
    assert money(ledger) == (60, 60)


def test_a_hold_is_posted_in_parts_to_another_account_and_its_rest_is_released_at_the_end(ledger: Ledger) -> None:
    ledger.post(hold("h-1", 60), post_hold("p-1", "10.25", final=False, to_account_id="bob"))
    assert (money(ledger), money(ledger, "bob")) == ((Decimal("89.75"), Decimal("49.75")), (Decimal("10.25"), 0))
    ledger.post(post_hold("p-2", "0.75"))
    assert money(ledger) == (89, 0)
    assert ledger.account().holds == {}


def test_two_postings_of_a_hold_at_once_apply_once(ledger: Ledger) -> None:
    """Midaz #1519: two commits of one pending transaction, sent at once, both applied."""
    for number in range(2):
        ledger.post(payment(f"c-{number}", 60), hold(f"h-{number}", 60))
        before = money(ledger)
        ids = [f"p-{number}-{worker}" for worker in range(2 * WORKERS)]
        ledger.race([post_hold(each, hold_id=f"h-{number}") for each in ids])
        assert sorted(ledger.results(*ids)) == ["HOLD_NOT_OPEN"] * (len(ids) - 1) + ["POSTED"]
        assert money(ledger) == (before[0] - 60, before[1] - 60)


# By the bug of another system: the messages, the results of those in question, and the balance and what is held.
BUGS: dict[str, tuple[list[Body], dict[str, str], tuple[Decimal | int, int]]] = {
    "a void of a voided hold was accepted, and released the money again: Blnk #41": (
        [hold("h-0", 30), hold("h-1", 60), void_hold("v-1"), void_hold("v-2")],
        {"v-1": "POSTED", "v-2": "HOLD_NOT_OPEN"},
        (100, 30),
    ),
    "a hold that had been rejected for want of funds was applied when money came in: Blnk #182": (
        [hold("h-1", "100.01"), payment("t-1", 500), *RESOLUTIONS],
        {"h-1": "OVERDRAFT_LIMIT", "p-1": "HOLD_NOT_OPEN", "v-1": "HOLD_NOT_OPEN", "x-1": "HOLD_NOT_OPEN"},
        (600, 0),
    ),
    "a cancelled hold on overdrawn money left another balance than there was before: Midaz PR #2317": (
        [set_limit("limit", -50), payment("t-1", -120), hold("h-1", 30), hold("h-2", "0.01"), void_hold()],
        {"h-1": "POSTED", "h-2": "OVERDRAFT_LIMIT", "v-1": "POSTED"},
        (-20, 0),
    ),
    "a commit of more than the hold's amount was applied: Blnk #62": (
        [hold("h-1", 60), post_hold("p-1", "60.01"), post_hold("p-2", 50, final=False), post_hold("p-3", 11)],
        {"p-1": "HOLD_EXCEEDED", "p-2": "POSTED", "p-3": "HOLD_EXCEEDED"},
        (50, 10),
    ),
    "a hold could be committed after it had been voided: Blnk #42": (
        [hold("h-1", 60), void_hold(), post_hold()],
        {"v-1": "POSTED", "p-1": "HOLD_NOT_OPEN"},
        (100, 0),
    ),
}


@pytest.mark.parametrize(("messages", "results", "left"), BUGS.values(), ids=BUGS)
def test_a_bug_of_another_system_is_none_here(
    ledger: Ledger, messages: list[Body], results: dict[str, str], left: tuple[Decimal | int, int]
) -> None:
    ledger.post(*messages)
    assert ledger.results(*results) == [*results.values()]
    assert money(ledger) == left


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(RESOLUTIONS, 2)))
def test_of_an_expiry_a_void_and_a_posting_at_one_instant_the_first_one_counts(
    ledger: Ledger, first: Body, second: Body
) -> None:
    ledger.post(hold("h-1", 60, expires_at="2026-03-01T11:00:00Z"), first, second)
    assert ledger.results(first["transaction_id"], second["transaction_id"]) == ["POSTED", "HOLD_NOT_OPEN"]
    assert money(ledger) == ((40 if first["type"] == "post_hold" else 100), 0)


def test_a_hold_that_has_expired_can_be_posted_until_its_expiry_is_committed(ledger: Ledger) -> None:
    early = expire_hold(as_of="2019-12-31T23:59:59.999999Z")
    ledger.post(hold(expires_at="2020-01-01T00:00:00Z"), early, post_hold())
    assert ledger.results("x-1", "p-1") == ["HOLD_NOT_EXPIRED", "POSTED"]


def test_workers_that_resolve_many_holds_at_once_resolve_each_of_them_once(ledger: Ledger) -> None:
    names = [f"h-{number}" for number in range(10)]
    ledger.post(*(hold(name, 10, expires_at=EXPIRES_AT) for name in names))
    messages = [
        resolution | {"transaction_id": f"{resolution['transaction_id']}-{name}", "hold_id": name}
        for resolution in RESOLUTIONS
        for name in names
    ]
    ledger.race([*messages[::2], *messages[1::2]], batch=5)
    posted = 0
    for name in names:
        results = ledger.results(*(f"{each['transaction_id']}-{name}" for each in RESOLUTIONS))
        assert sorted(results) == ["HOLD_NOT_OPEN", "HOLD_NOT_OPEN", "POSTED"]
        posted += results[0] == "POSTED"
    assert money(ledger) == (100 - 10 * posted, 0)


def test_postings_in_part_at_once_take_no_more_than_is_held(ledger: Ledger) -> None:
    ledger.post(hold("h-1", 60))
    ids = [f"p-{number}" for number in range(24)]
    ledger.race([post_hold(each, 7, final=False, to_account_id="bob") for each in ids])
    assert sorted(ledger.results(*ids)) == ["HOLD_EXCEEDED"] * 16 + ["POSTED"] * 8
    assert (money(ledger), money(ledger, "bob")) == ((44, 4), (56, 0))


def test_holds_and_debits_at_once_never_promise_money_twice(ledger: Ledger) -> None:
    ledger.race([each for n in range(16) for each in (hold(f"h-{n}", 15), payment(f"t-{n}", -15))])
    balance, held = money(ledger)
    assert balance - held == 10
    assert set(ledger.books.counts()) == {"POSTED", "OVERDRAFT_LIMIT"}


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


def test_an_account_has_room_for_twenty_holds_and_closes_without_any(ledger: Ledger) -> None:
    ledger.post(*(hold(f"h-{number}", 5) for number in range(21)))
    assert ledger.results("h-19", "h-20") == ["POSTED", "TOO_MANY_HOLDS"]
    ledger.post(set_limit("limit", -100), payment("all", -100))
    ledger.post(closing("c-1"), *(void_hold(f"v-{number}", hold_id=f"h-{number}") for number in range(20)))
    ledger.post(closing("c-2"), hold("h-21"))
    assert ledger.results("c-1", "c-2", "h-21") == ["HOLDS_OPEN", "POSTED", "ACCOUNT_CLOSED"]
