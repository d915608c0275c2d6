"""Reversals through the function that posts, with one worker and with many. Other systems' bugs have their tests."""

from decimal import Decimal
from typing import Any

import pytest

from tests.support.bodies import Body, payment, reverse, transfer
from tests.support.ledger import Ledger
from tools.local_aws.functions import again, invoke, record
from tools.local_aws.server import Endpoint


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    """Alice has 100, Bob nothing."""
    ledger = Ledger(aws, dynamodb)
    ledger.open("alice", "bob")
    ledger.post(payment("credit", 100))
    return ledger


def reversing(
    transaction_id: str,
    of_transaction_id: str = "t-1",
    account_id: str = "alice",
    amount: object = None,
    home: str = "alice",
) -> Body:
    """Of a transaction of this home."""
    return reverse(transaction_id, amount, account_id, of_transaction_id, of_account_id=home)


def balances(ledger: Ledger) -> tuple[Decimal, Decimal]:
    accounts = ledger.books.accounts
    return accounts["alice"].balance, accounts["bob"].balance


def reversed_items(ledger: Ledger) -> dict[tuple[str, str], dict[str, Any]]:
    items = ledger.items(ledger.tables.reversals)
    return {(item["account_id"], item["transaction_id"]): item for item in items}


def test_both_sides_of_a_transfer_are_reversed_whichever_is_named(ledger: Ledger) -> None:
    ledger.post(transfer("t-1", 30), transfer("t-2", 20))
    ledger.post(reversing("r-1", "t-1", amount=10), reversing("r-2", "t-1", "bob"), reversing("r-3", "t-2", "bob"))
    assert (
        ledger.results("r-1", "r-2", "r-3") == ledger.results("r-1", "r-2", "r-3", account_id="bob") == ["POSTED"] * 3
    )
    assert balances(ledger) == (100, 0)
    assert reversed_items(ledger).keys() == {("alice", "t-1"), ("alice", "t-2")}
    [alices, bobs] = (ledger.outcomes(name)["r-2"].reversal for name in ("alice", "bob"))
    assert alices
    assert bobs
    assert (alices.number, alices.reversed_after, alices.other_account_ids) == (2, 30, ("bob",))
    assert (bobs.number, bobs.reversed_after, bobs.other_account_ids) == (2, 30, ("alice",))


def test_a_reversal_can_be_reversed_through_either_side(ledger: Ledger) -> None:
    ledger.post(transfer("t-1", 30), reversing("r-1", "t-1", "bob"), reversing("rr-1", "r-1", home="bob"))
    assert balances(ledger) == (70, 30)
    ledger.post(reversing("rrr-1", "rr-1", "bob"), reversing("rr-2", "r-1", "bob", home="bob"), reversing("r-2", "t-1"))
    assert [*ledger.results("rrr-1", "rr-2", account_id="bob"), *ledger.results("r-2")] == [
        "POSTED",
        "ALREADY_REVERSED",
        "ALREADY_REVERSED",
    ]
    assert balances(ledger) == (100, 0)


def test_a_transfer_and_its_reversals_in_one_batch_are_decided_in_their_order(ledger: Ledger) -> None:
    ledger.post(
        reversing("r-0", "t-1"),
        transfer("t-1", 30),
        reversing("r-1", "t-1", amount=10),
        reversing("r-2", "t-1", "bob", amount=5),
        reversing("r-3", "t-1", amount=16),
    )
    # The first one came before its transfer. It waited, and took what the others had left.
    assert ledger.results("r-0", "r-1", "r-2", "r-3") == ["POSTED", "POSTED", "POSTED", "REVERSAL_EXCEEDED"]
    assert ledger.outcomes()["r-0"].amount == 15
    assert balances(ledger) == (100, 0)


@pytest.mark.parametrize("account_id", ["alice", "bob"])
@pytest.mark.parametrize("amount", [10, 31, None], ids=["in part", "rejected", "all"])
def test_a_reversal_that_is_repeated_is_replayed(ledger: Ledger, account_id: str, amount: int | None) -> None:
    reversal = reversing("r-1", "t-1", account_id, amount=amount)
    ledger.post(transfer("t-1", 30), reversal)
    before, items = ledger.books, reversed_items(ledger)
    worker = ledger.another_worker()
    for batch in ([reversal], [reversal, reversal], [transfer("t-1", 30), reversal]):
        sent = list(map(record, batch))
        assert not invoke(worker, sent), "sent again"
        assert not invoke(worker, map(again, sent)), "delivered again"
    assert (ledger.books, reversed_items(ledger)) == (before, items)


def test_ids_are_unique_on_each_home_so_no_other_accounts_ids_matter(ledger: Ledger) -> None:
    """Two merchants refund one customer under one id, who has used it, too, for a payment and its reversal."""
    ledger.open("carol")
    ledger.post(transfer("t-1", 30), payment("credit", 100, "carol"), transfer("t-1", 40, "carol", "bob"))
    ledger.post(
        transfer("refund", 5, "alice", "bob"), transfer("refund", 7, "carol", "bob"), payment("refund", 1, "bob")
    )
    ledger.post(reversing("back", "refund", "bob", home="alice"), reversing("back", "refund", "carol", home="carol"))
    assert ledger.dead_letters() == []
    assert balances(ledger) == (70, 71)
    assert ledger.books.accounts["carol"].balance == 60


@pytest.mark.parametrize("amount", ["-50", "0", "31", "1E+125"])
def test_a_damaged_count_decides_nothing_and_its_messages_come_again(ledger: Ledger, amount: str) -> None:
    ledger.post(transfer("t-1", 30), reversing("r-1", amount=10), payment("more", 100, "bob"))
    [key] = reversed_items(ledger)
    key_of_item = dict(zip(("account_id", "transaction_id"), key, strict=True))
    ledger.change(ledger.tables.reversals, key_of_item, amount=Decimal(amount))
    reversals = [record(reversing("r-2", amount=60)), record(reversing("r-3", account_id="bob", amount=1))]
    assert invoke(ledger.worker, reversals) == {each["messageId"] for each in reversals}
    ledger.change(ledger.tables.reversals, key_of_item, amount=Decimal(10))  # so that the books can be read
    assert balances(ledger) == (80, 120)
