"""Holds through the function that posts, with one worker and with many. Each bug of another system has its test."""

import itertools
from decimal import Decimal
from typing import Any

import pytest

from tests.support.racing import WORKERS, RacingBank, message
from tools.local_aws.functions import Queue, again, invoke, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables

EXPIRES_AT = "2026-03-01T12:00:00+01:00"


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint, tables: Tables) -> RacingBank:
    """Alice has 100, Bob nothing."""
    bank = RacingBank(ministack, dynamodb, tables)
    bank.open("alice", "bob")
    bank.post(message("transaction", "credit", amount=100))
    return bank


def hold(transaction_id: str = "h-1", amount: object = 60, **fields: Any) -> dict[str, Any]:
    return message("hold", transaction_id, amount=amount, **fields)


def posting(transaction_id: str = "p-1", hold_id: str = "h-1", **fields: Any) -> dict[str, Any]:
    return message("post_hold", transaction_id, hold_id=hold_id, **fields)


def voiding(transaction_id: str = "v-1", hold_id: str = "h-1") -> dict[str, Any]:
    return message("void_hold", transaction_id, hold_id=hold_id)


def expiring(transaction_id: str = "x-1", hold_id: str = "h-1", as_of: str = EXPIRES_AT) -> dict[str, Any]:
    return message("expire_hold", transaction_id, hold_id=hold_id, as_of=as_of)


def money(bank: RacingBank, account_id: str = "alice") -> tuple[Decimal, Decimal]:
    """The account's balance, and what is held of it."""
    account = bank.account(account_id)
    assert account.held == sum(each.remaining for each in account.open_holds.values())
    return account.balance, account.held


def test_held_money_stays_in_the_balance_and_cannot_be_spent(bank: RacingBank) -> None:
    bank.post(hold(), message("transaction", "t-1", amount=-41), message("transaction", "t-2", amount=-40))
    assert bank.results("h-1", "t-1", "t-2") == ["POSTED", "OVERDRAFT_LIMIT", "POSTED"]
    assert money(bank) == (60, 60)


def test_a_hold_is_posted_in_parts_to_another_account_and_its_rest_is_released_at_the_end(bank: RacingBank) -> None:
    bank.post(hold(), posting("p-1", amount="10.25", final=False, to_account_id="bob"))
    assert (money(bank), money(bank, "bob")) == ((Decimal("89.75"), Decimal("49.75")), (Decimal("10.25"), 0))
    bank.post(posting("p-2", amount="0.75"))
    assert money(bank) == (89, 0)
    assert bank.account().holds == {}


def test_two_postings_of_a_hold_at_once_apply_once(bank: RacingBank) -> None:
    """Midaz #1519: two commits of one pending transaction, sent at once, both applied."""
    for number in range(5):
        bank.post(message("transaction", f"c-{number}", amount=60), hold(f"h-{number}"))
        before = money(bank)
        ids = [f"p-{number}-{worker}" for worker in range(2 * WORKERS)]
        bank.race([posting(each, f"h-{number}") for each in ids])
        assert sorted(bank.results(*ids)) == ["HOLD_NOT_OPEN"] * (len(ids) - 1) + ["POSTED"]
        assert money(bank) == (before[0] - 60, before[1] - 60)


def test_a_hold_that_is_voided_twice_is_released_once(bank: RacingBank) -> None:
    """Blnk #41: a void of a voided hold was accepted, and released the money again."""
    bank.post(hold("h-0", 30), hold(), voiding("v-1"), voiding("v-2"))
    assert bank.results("v-1", "v-2") == ["POSTED", "HOLD_NOT_OPEN"]
    assert money(bank) == (100, 30)


def test_a_rejected_hold_is_never_posted_later(bank: RacingBank) -> None:
    """Blnk #182: a hold that had been rejected for want of funds was applied when money came in."""
    bank.post(hold(amount="100.01"), message("transaction", "t-1", amount=500), posting(), voiding(), expiring())
    assert bank.results("h-1", "p-1", "v-1", "x-1") == ["OVERDRAFT_LIMIT", *["HOLD_NOT_OPEN"] * 3]
    assert money(bank) == (600, 0)


def test_a_void_of_a_hold_on_an_overdraft_restores_what_was_available(bank: RacingBank) -> None:
    """Midaz PR #2317: a cancelled hold on overdrawn money left another balance than there was before."""
    bank.post(message("set_overdraft_limit", "limit", overdraft_limit=-50), message("transaction", "t-1", amount=-120))
    before = bank.account()
    bank.post(hold(amount=30), hold("h-2", "0.01"), voiding())
    assert bank.results("h-1", "h-2", "v-1") == ["POSTED", "OVERDRAFT_LIMIT", "POSTED"]
    after = bank.account()
    assert (after.balance, after.held, after.available) == (before.balance, 0, before.available) == (-20, 0, 30)


def test_no_more_is_posted_than_is_held(bank: RacingBank) -> None:
    """Blnk #62: a commit of more than the hold's amount was applied."""
    bank.post(hold(), posting("p-1", amount="60.01"), posting("p-2", amount=50, final=False), posting("p-3", amount=11))
    assert bank.results("p-1", "p-2", "p-3") == ["HOLD_EXCEEDED", "POSTED", "HOLD_EXCEEDED"]
    assert money(bank) == (50, 10)


def test_nothing_is_posted_after_a_void(bank: RacingBank) -> None:
    """Blnk #42: a hold could be committed after it had been voided."""
    bank.post(hold(), voiding(), posting())
    assert bank.results("v-1", "p-1") == ["POSTED", "HOLD_NOT_OPEN"]
    assert money(bank) == (100, 0)


RESOLUTIONS = [posting(), voiding(), expiring()]


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(RESOLUTIONS, 2)))
def test_of_an_expiry_a_void_and_a_posting_at_one_instant_the_first_one_counts(
    bank: RacingBank, first: dict[str, Any], second: dict[str, Any]
) -> None:
    bank.post(hold(expires_at="2026-03-01T11:00:00Z"), first, second)
    assert bank.results(first["transaction_id"], second["transaction_id"]) == ["POSTED", "HOLD_NOT_OPEN"]
    assert money(bank) == ((40 if first["type"] == "post_hold" else 100), 0)


def test_a_hold_that_has_expired_can_be_posted_until_its_expiry_is_committed(bank: RacingBank) -> None:
    bank.post(hold(expires_at="2020-01-01T00:00:00Z"), expiring("x-1", as_of="2019-12-31T23:59:59.999999Z"), posting())
    assert bank.results("x-1", "p-1") == ["HOLD_NOT_EXPIRED", "POSTED"]


def test_workers_that_resolve_many_holds_at_once_resolve_each_of_them_once(bank: RacingBank) -> None:
    bank.post(message("transaction", "more", amount=500))
    names = [f"h-{number}" for number in range(20)]
    bank.post(*(hold(name, 10, expires_at=EXPIRES_AT) for name in names))
    messages = [
        resolution(f"{kind}-{name}", name)
        for kind, resolution in (("p", posting), ("v", voiding), ("x", expiring))
        for name in names
    ]
    bank.race([*messages[::2], *messages[1::2]], batch=5)
    posted = 0
    for name in names:
        results = bank.results(*(f"{kind}-{name}" for kind in "pvx"))
        assert sorted(results) == ["HOLD_NOT_OPEN", "HOLD_NOT_OPEN", "POSTED"]
        posted += results[0] == "POSTED"
    assert money(bank) == (600 - 10 * posted, 0)


def test_postings_in_part_at_once_take_no_more_than_is_held(bank: RacingBank) -> None:
    bank.post(hold())
    ids = [f"p-{number}" for number in range(24)]
    bank.race([posting(each, amount=7, final=False, to_account_id="bob") for each in ids])
    results = bank.results(*ids)
    assert sorted(results) == ["HOLD_EXCEEDED"] * 16 + ["POSTED"] * 8
    assert (money(bank), money(bank, "bob")) == ((44, 4), (56, 0))


def test_holds_and_debits_at_once_never_promise_money_twice(bank: RacingBank) -> None:
    bank.race([each for n in range(16) for each in (hold(f"h-{n}", 15), message("transaction", f"t-{n}", amount=-15))])
    balance, held = money(bank)
    assert balance - held == 10
    assert set(bank.books.counts()) == {"POSTED", "OVERDRAFT_LIMIT"}


def test_a_resolution_that_comes_before_its_hold_waits_for_it(bank: RacingBank) -> None:
    queue = Queue([record(posting())])
    queue.deliver(bank.workers[0])
    assert queue.records
    assert "p-1" not in bank.outcomes()
    bank.post(hold())
    queue.deliver(bank.workers[0])
    assert not queue.records
    assert money(bank) == (40, 0)


@pytest.mark.parametrize("delivery", [record, lambda body: again(record(body))], ids=["sent again", "delivered again"])
@pytest.mark.parametrize("resolution", RESOLUTIONS, ids=lambda each: each["type"])
def test_a_resolution_that_is_repeated_is_replayed(bank: RacingBank, resolution: dict[str, Any], delivery: Any) -> None:
    bank.post(hold("h-0", 20), hold(expires_at=EXPIRES_AT), resolution)
    before, outcomes = bank.account(), bank.outcomes()
    assert not invoke(bank.workers[1], [delivery(resolution)])
    assert not invoke(bank.workers[1], [delivery(hold(expires_at=EXPIRES_AT)), delivery(resolution)])
    assert (bank.account(), bank.outcomes()) == (before, outcomes)


def test_a_holds_id_may_be_any_text_that_can_be_seen(bank: RacingBank) -> None:
    ids = ["\U0001f3e6" * 128, "cw:version_id", "a.b[0] #:", "S", "'\"\\", "remaining"]
    bank.post(*(hold(each, "0.5") for each in ids))
    assert set(bank.account().open_holds) == set(ids)
    bank.post(*(posting(f"p-{number}", each) for number, each in enumerate(ids)))
    assert money(bank) == (Decimal(100) - len(ids) * Decimal("0.5"), 0)


def test_an_account_has_room_for_twenty_holds_and_closes_without_any(bank: RacingBank) -> None:
    bank.post(*(hold(f"h-{number}", 5) for number in range(21)))
    assert bank.results("h-19", "h-20") == ["POSTED", "TOO_MANY_HOLDS"]
    bank.post(message("set_overdraft_limit", "limit", overdraft_limit=-100), message("transaction", "all", amount=-100))
    bank.post(message("close_account", "c-1"), *(voiding(f"v-{number}", f"h-{number}") for number in range(20)))
    bank.post(message("close_account", "c-2"), hold("h-21"))
    assert bank.results("c-1", "c-2", "h-21") == ["HOLDS_OPEN", "POSTED", "ACCOUNT_CLOSED"]
