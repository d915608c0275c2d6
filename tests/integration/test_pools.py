"""A pool grows while several workers post to it, and every reader sees each transaction once."""

import json
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from conditional_writes import Deadline
from conditional_writes.core.items import from_dynamodb
from conditional_writes.testing import Engine
from ledger.core.journal import EntryId
from ledger.core.pools import pool_of, shard_id
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode
from ledger.core.values import format_decimal
from ledger.reconciler import Mismatched, Night, Reconciler, Sound
from ledger.statements import AccountReader
from tests.checkers import seals
from tests.checkers.books import violations
from tests.explore.bank import LAST, NAMES, Bank, Opened
from tests.support.bodies import (
    Body,
    closing,
    freeze,
    hold,
    interest,
    opening,
    reverse,
    set_limit,
    set_shards,
    transfer,
)
from workers.queue_messages import Dead, Done

WORKERS, BATCHES, PAYERS = 3, 6, 12
OPENED = Opened(opening("pool", shards=4), *(opening(f"payer-{number}", -1000) for number in range(PAYERS)))


@pytest.fixture
def bank() -> Bank:
    return OPENED(Engine())


def batch(number: int) -> list[Body]:
    """Each payer pays 3 into the pool, and one of them gets 5 from it. Some make the pool larger."""
    payers = [f"payer-{each}" for each in range(PAYERS)]
    into = [transfer(f"in-{number}-{payer}", 3, payer, "pool") for payer in payers]
    grown = [set_shards(f"more-{number}", 4 << number // 2, "pool")] if number in (2, 4) else []
    return [*into, transfer(f"out-{number}", 5, "pool", payers[number]), *grown]


@pytest.fixture
def loaded(bank: Bank) -> Bank:
    """By workers in turn, each of which has its own shards. Kills and orders: tests/explore/scenarios/pools.py."""
    for number in range(BATCHES):
        delivered = bank.deliver(number % WORKERS, *batch(number))
        assert all(isinstance(each.disposition, Done) for each in delivered)
    return bank


def test_while_a_pool_grows_its_sum_is_exact_and_its_statement_has_each_entry_once(loaded: Bank) -> None:
    assert violations(loaded.books) == []
    ask = partial(_ask, loaded, account_id="pool")
    account = ask(read="account")
    assert Decimal(account["balance"]) == BATCHES * (3 * PAYERS - 5)
    assert account["pool"]["shards"] == 16
    entries, page = list[Any](), {"next": {"from": "2020-01-01T00:00:00Z"}}
    while page["next"]:
        page = ask(read="statement", limit=37, **page["next"])
        assert page["complete"]
        entries += page["entries"]
    of_pool = [entry for entry in loaded.books.entries if "pool" in (entry.account_id, pool_of(entry.account_id))]
    expected = sorted((entry.account_id, entry.outcome.account_version) for entry in of_pool)
    assert sorted((entry["account_id"], entry["account_version"]) for entry in entries) == expected
    assert [entry["posted_at"] for entry in entries] == sorted(entry["posted_at"] for entry in entries)
    assert ask(read="statement", last=25)["entries"] == entries[-25:]
    middle = entries[len(entries) // 2]["posted_at"]
    before = sum(Decimal(entry["amount"]) for entry in entries if entry["posted_at"] < middle)
    earlier = [entry for entry in entries if entry["posted_at"] < middle]
    assert ask(read="balance", at=middle) == {
        "account_id": "pool",
        "at": datetime.fromisoformat(middle).isoformat(),
        "balance": format_decimal(before),
        "held": "0",
        "account_version": len(earlier),
        "posted_at": earlier[-1]["posted_at"],
        "complete": True,
        "final": False,
    }
    nothing = {"balance": None, "held": None, "account_version": 0, "posted_at": None, "complete": True, "final": True}
    long_ago = "2020-01-01T00:00:00+00:00"
    assert ask(read="balance", at=long_ago) == {"account_id": "pool", "at": long_ago} | nothing
    for name, transaction_id in (("payer-3", "in-4-payer-3"), ("pool", "out-5")):
        found = ask(read="transaction", transaction_id=transaction_id, home_account_id=name)
        assert found["entry"] in entries


def test_the_replay_finds_a_pool_and_its_shards_sound_and_an_entry_on_another_shard(
    loaded: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.reconciler.PAUSES_SECONDS", ())
    assert {type(each) for each in _reconciled(loaded)} == {Sound}
    loaded.change_account("pool", pool={"shards": 16, "opened": 16})
    found = {
        mismatch.what for each in _reconciled(loaded) if isinstance(each, Mismatched) for mismatch in each.mismatches
    }
    assert found == {"changed account", "wrong shard"}


REFUSED = [
    *((body, "is a pool, which takes no") for body in (hold("h", 1, "pool"), freeze("f", account_id="pool"))),
    *((body, "is a pool, which takes no") for body in (closing("c", account_id="pool"), set_limit("l", 0, "pool"))),
    *((body, "is a pool, which takes no") for body in (interest("i", account_id="pool"), reverse("r", None, "pool"))),
    (set_shards("s", 4, "pool"), "shards: 4, expected more than the 4 of the pool"),
    (set_shards("s", 8, "payer-1"), "account_id: 'payer-1' is no pool"),
]


@pytest.mark.parametrize(("body", "sentence"), REFUSED, ids=[body["type"] for body, _ in REFUSED])
def test_what_a_pool_cannot_is_dead_with_a_sentence(bank: Bank, body: Body, sentence: str) -> None:
    [delivered] = bank.deliver(0, body)
    assert isinstance(delivered.disposition, Dead)
    assert sentence in delivered.disposition.reason


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (opening("other", -1, shards=4), "overdraft_limit: an account with shards has none"),
        (opening("x" * 112, shards=4), "account_id: expected at most 111 characters with shards"),
        (transfer("t", 1, "payer-1", "teller:shard:1:pool"), "no account of it may be a shard"),
    ],
)
def test_what_no_pool_can_be_is_invalid(body: Body, sentence: str) -> None:
    with pytest.raises(InvalidMessage, match=sentence):
        decode(json.dumps(body))


def test_what_goes_into_a_pool_goes_back_from_the_same_shard(bank: Bank) -> None:
    for delivered in bank.deliver(0, opening("new", shards=2), transfer("first", 1, "payer-1", "new")):
        assert isinstance(delivered.disposition, Done), "in one delivery"
    bank.deliver_until_done(transfer("t", 8, "payer-1", "pool"), transfer("out", 3, "pool", "payer-2"))
    bank.deliver_until_done(reverse("r", 5, "payer-1", "t"))
    [home] = {entry.home_account_id for entry in bank.books.entries if entry.transaction_id == "out"}
    bank.deliver_until_done(reverse("back", 1, "payer-2", "out", of_account_id=home))
    bank.deliver_until_done(set_shards("more", 256), reverse("by-name", None, "payer-2", "out", of_account_id="pool"))
    assert violations(bank.books) == []
    [entry] = [each for each in bank.books.entries if each.entry_id == EntryId("payer-2", "by-name")]
    assert (entry.outcome.amount, entry.account_ids) == (-2, ("payer-2", home))
    assert Decimal(_ask(bank, read="account", account_id="pool")["balance"]) == 3
    assert {type(each) for each in _reconciled(bank)} == {Sound}


@pytest.mark.parametrize("receive_count", [1, 2])
def test_a_worker_that_keeps_to_other_shards_finds_what_another_one_has_posted(bank: Bank, receive_count: int) -> None:
    """The entry on the home decides, whether it is read before or met by the commit."""
    body = transfer("t", 8, "payer-1", "pool")
    [first], [again] = bank.deliver(0, body), bank.deliver(1, body, receive_count=receive_count)
    assert isinstance(first.disposition, Done)
    assert isinstance(again.disposition, Done)
    assert (first.disposition.effect.replayed, again.disposition.effect.replayed) == (False, True)
    bank.deliver(1, transfer("another", 1, "payer-1", "pool"))
    shards = {entry.transaction_id: entry.shards["pool"] for entry in bank.books.entries if entry.shards}
    assert shards["t"] != shards["another"]
    bank.deliver_until_done(reverse("r", None, "payer-1", "t"))
    assert violations(bank.books) == []
    balances = {name: account.balance for name, account in bank.books.accounts.items() if pool_of(name)}
    assert sorted(balances.values()) == [0, 1]


def test_a_transaction_on_two_shards_of_a_pool_is_found_by_the_replay(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forged shard's account, journal and seal are whole for themselves."""
    monkeypatch.setattr("ledger.reconciler.PAUSES_SECONDS", ())
    bank.deliver(0, transfer("t", 8, "payer-1", "pool"))
    [account, entry] = [
        item
        for table in (NAMES.accounts, NAMES.journal)
        for item in map(from_dynamodb, bank.items(table))
        if pool_of(item["account_id"])
    ]
    number = (int(entry["shards"]["pool"]) + 1) % 4
    forged = entry | {"account_id": shard_id("pool", number), "shards": {"pool": number}}
    seal = seals.seal_of("", forged)
    bank.put(NAMES.journal, forged | {"seal": seal})
    bank.put(NAMES.accounts, account | {"account_id": forged["account_id"], "seal": seal})
    found = {
        (mismatch.account_id, mismatch.what)
        for each in _reconciled(bank)
        if isinstance(each, Mismatched)
        for mismatch in each.mismatches
    }
    assert found == {(forged["account_id"], "unlike sides")}


def _reconciled(bank: Bank) -> list[Any]:
    reconciler, night = Reconciler(bank.clients[LAST], NAMES), Night(date(2026, 3, 1), whole=True)
    items = map(from_dynamodb, bank.items(NAMES.accounts))
    return [reconciler.check(item, None, night, Deadline.after(60)) for item in items]


def _ask(bank: Bank, **request: Any) -> Any:
    return AccountReader(bank.clients[LAST], NAMES).answer(request, Deadline.after(60))
