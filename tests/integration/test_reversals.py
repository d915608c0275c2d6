"""Reversals through the function that posts, with one worker and with many. Other systems' bugs have their tests."""

import random
from decimal import Decimal
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from tests.support.racing import WORKERS, RacingBank, message, transfer
from tools.local_aws.functions import Queue, again, invoke, record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, scan


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint, tables: Tables) -> RacingBank:
    """Alice has 100, Bob nothing."""
    bank = RacingBank(ministack, dynamodb, tables)
    bank.open("alice", "bob")
    bank.post(message("transaction", "credit", amount=100))
    return bank


def reversing(
    transaction_id: str = "r-1", of_transaction_id: str = "t-1", account_id: str = "alice", **fields: Any
) -> dict[str, Any]:
    return message("reverse", transaction_id, account_id, of_transaction_id=of_transaction_id, **fields)


def balances(bank: RacingBank) -> tuple[Decimal, Decimal]:
    accounts = bank.books.accounts
    return accounts["alice"].balance, accounts["bob"].balance


def reversed_items(bank: RacingBank) -> dict[tuple[str, str], dict[str, Any]]:
    items = map(from_dynamodb, scan(bank.dynamodb, bank.tables.reversals))
    return {(item["account_id"], item["transaction_id"]): item for item in items}


def test_a_refund_is_not_repeatable(bank: RacingBank) -> None:
    """Blnk #152: a transaction could be refunded over and over."""
    bank.post(message("transaction", "t-1", amount=-30), reversing("r-1"), reversing("r-2"), reversing("r-3"))
    assert bank.results("r-1", "r-2", "r-3") == ["POSTED", "ALREADY_REVERSED", "ALREADY_REVERSED"]
    assert balances(bank) == (100, 0)


def test_500_transactions_that_are_each_reversed_twice_at_once_are_each_reversed_once(
    ministack: Endpoint, tables: Tables, dynamodb: Endpoint
) -> None:
    """Formance: of 500 transactions, each reverted twice at once, more than 500 reverts succeeded."""
    bank = RacingBank(ministack, dynamodb, tables)
    names = [f"acc-{number}" for number in range(10)]
    bank.open(*names)
    numbers = range(500)
    bank.post(*(message("transaction", f"t-{n}", names[n % 10], amount=n + 1) for n in numbers), batch=500)
    twice = [reversing(f"{which}-{n}", f"t-{n}", names[n % 10]) for n in numbers for which in ("one", "two")]
    bank.race(twice, batch=25)
    assert bank.books.counts() == {"POSTED": 10 + 500 + 500, "ALREADY_REVERSED": 500}
    assert {account.balance for account in bank.books.accounts.values()} == {0}
    assert {item["version"] for item in reversed_items(bank).values()} == {1}


def test_both_sides_of_a_transfer_are_reversed_whichever_is_named(bank: RacingBank) -> None:
    bank.post(transfer("t-1", 30), transfer("t-2", 20))
    bank.post(reversing("r-1", "t-1", amount=10), reversing("r-2", "t-1", "bob"), reversing("r-3", "t-2", "bob"))
    assert bank.results("r-1", "r-2", "r-3") == bank.results("r-1", "r-2", "r-3", account_id="bob") == ["POSTED"] * 3
    assert balances(bank) == (100, 0)
    assert reversed_items(bank).keys() == {("alice", "t-1"), ("alice", "t-2")}
    [alices, bobs] = (bank.outcomes(name)["r-2"].reversal for name in ("alice", "bob"))
    assert alices
    assert bobs
    assert (alices.number, alices.reversed_after, alices.other_account_id) == (2, 30, "bob")
    assert (bobs.number, bobs.reversed_after, bobs.other_account_id) == (2, 30, "alice")


def test_reversals_in_part_by_many_workers_through_both_sides_never_exceed_the_transfer(bank: RacingBank) -> None:
    bank.post(transfer("t-1", 60))
    amounts = random.Random(18).choices(["1", "4.75", "7", "12.5"], k=40)
    reversals = [
        reversing(f"r-{number}", "t-1", random.Random(number).choice(["alice", "bob"]), amount=amount)
        for number, amount in enumerate(amounts)
    ]
    bank.race(reversals, batch=2)
    posted = [
        outcome for name, outcome in bank.outcomes().items() if name.startswith("r-") and outcome.status == "POSTED"
    ]
    total = sum(outcome.amount for outcome in posted)
    assert 60 - Decimal("12.5") < total <= 60
    assert balances(bank) == (40 + total, 60 - total)
    assert sorted(outcome.reversal.number for outcome in posted if outcome.reversal) == list(range(1, len(posted) + 1))
    [item] = reversed_items(bank).values()
    assert (item["amount"], item["version"]) == (total, len(posted))


def test_one_transfer_that_is_reversed_by_all_workers_at_once_is_reversed_once(bank: RacingBank) -> None:
    for number in range(5):
        bank.post(transfer(f"t-{number}", 10))
        ids = [f"r-{number}-{worker}" for worker in range(2 * WORKERS)]
        bank.race([reversing(each, f"t-{number}", ("alice", "bob")[n % 2]) for n, each in enumerate(ids)])
        assert sorted(bank.results(*ids)) == ["ALREADY_REVERSED"] * (len(ids) - 1) + ["POSTED"]
        assert balances(bank) == (100, 0)


def test_a_reversal_can_be_reversed_through_either_side(bank: RacingBank) -> None:
    bank.post(transfer("t-1", 30), reversing("r-1", "t-1", "bob"), reversing("rr-1", "r-1"))
    assert balances(bank) == (70, 30)
    bank.post(reversing("rrr-1", "rr-1", "bob"), reversing("rr-2", "r-1", "bob"), reversing("r-2", "t-1"))
    assert bank.results("rrr-1", "rr-2", "r-2") == ["POSTED", "ALREADY_REVERSED", "ALREADY_REVERSED"]
    assert balances(bank) == (100, 0)


def test_interest_and_a_posted_hold_are_reversed_as_any_other_transaction(bank: RacingBank) -> None:
    bank.post(message("set_overdraft_limit", "limit", overdraft_limit=-500), message("transaction", "t-0", amount=-465))
    bank.post(message("charge_interest", "i-1", annual_rate="0.5"), reversing("r-1", "i-1"))
    assert bank.outcomes()["r-1"].amount == Decimal("0.5")
    bank.post(message("transaction", "t-2", amount=465), message("hold", "h-1", amount=60))
    bank.post(message("post_hold", "p-1", hold_id="h-1", amount=20, final=False))
    bank.post(message("post_hold", "p-2", hold_id="h-1", to_account_id="bob"))
    assert balances(bank) == (40, 40)
    bank.post(reversing("r-2", "p-1"), reversing("r-3", "p-2", "bob"), reversing("r-4", "h-1"))
    assert bank.results("r-2", "r-3", "r-4") == ["POSTED", "POSTED", "NOT_REVERSIBLE"]
    assert balances(bank) == (100, 0)


def test_a_reversal_obeys_the_limit_and_held_money(bank: RacingBank) -> None:
    bank.post(transfer("t-1", 30), message("hold", "h-1", "bob", amount=20))
    bank.post(reversing("r-1"), reversing("r-2", amount=11), reversing("r-3", amount=10), reversing("r-4", amount=21))
    assert bank.results("r-1", "r-2", "r-3", "r-4") == [
        *("OVERDRAFT_LIMIT", "OVERDRAFT_LIMIT", "POSTED", "REVERSAL_EXCEEDED")
    ]
    assert balances(bank) == (80, 20)


def test_a_transfer_and_its_reversals_in_one_batch_are_decided_in_their_order(bank: RacingBank) -> None:
    bank.post(
        reversing("r-0", "t-1"),
        transfer("t-1", 30),
        reversing("r-1", "t-1", amount=10),
        reversing("r-2", "t-1", "bob", amount=5),
        reversing("r-3", "t-1", amount=16),
    )
    # The first one came before its transfer. It waited, and took what the others had left.
    assert bank.results("r-0", "r-1", "r-2", "r-3") == ["POSTED", "POSTED", "POSTED", "REVERSAL_EXCEEDED"]
    assert bank.outcomes()["r-0"].amount == 15
    assert balances(bank) == (100, 0)


def test_a_batch_of_a_hundred_reversals_is_cut_into_commits(bank: RacingBank) -> None:
    calls: list[str] = []
    bank.post(*(transfer(f"t-{number}", 1) for number in range(60)), batch=60)
    bank.workers[0].poster.client.meta.events.register("before-call", lambda model, **_: calls.append(model.name))
    bank.post(*(reversing(f"r-{n}", f"t-{n}", ("alice", "bob")[n % 2]) for n in range(60)), batch=60)
    # 122 items are read, and then the counts of the 30 that are named on the payee's side.
    assert calls == [*["BatchGetItem"] * 3, *["TransactWriteItems"] * 2]
    assert balances(bank) == (100, 0)


def test_a_reversal_that_comes_before_its_transaction_waits_for_it(bank: RacingBank) -> None:
    queue = Queue([record(reversing("r-1", "t-1", "bob"))])
    queue.deliver(bank.workers[0])
    assert queue.records
    bank.post(transfer("t-1", 30))
    queue.deliver(bank.workers[0])
    assert not queue.records
    assert balances(bank) == (100, 0)


@pytest.mark.parametrize("delivery", [record, lambda body: again(record(body))], ids=["sent again", "delivered again"])
@pytest.mark.parametrize("account_id", ["alice", "bob"])
@pytest.mark.parametrize("amount", [10, 31, None], ids=["in part", "rejected", "all"])
def test_a_reversal_that_is_repeated_is_replayed(
    bank: RacingBank, delivery: Any, account_id: str, amount: int | None
) -> None:
    reversal = reversing("r-1", "t-1", account_id, amount=amount)
    bank.post(transfer("t-1", 30), reversal)
    before, items = bank.books, reversed_items(bank)
    for batch in ([reversal], [reversal, reversal], [transfer("t-1", 30), reversal]):
        assert not invoke(bank.workers[1], list(map(delivery, batch)))
    assert (bank.books, reversed_items(bank)) == (before, items)


def test_a_reversals_id_that_its_other_account_had_used_is_refused(bank: RacingBank, ministack: Endpoint) -> None:
    bank.post(transfer("t-1", 30), message("transaction", "r-1", "bob", amount=1))
    bank.post(reversing())
    bank.post(reversing("r-2", "t-1", "bob", amount=5), reversing("r-2", "t-1", amount=5))
    letters = take_dead_letters(ministack, bank.workers[0].worker.queue.dead_letter_url)
    assert sorted(letter.reason for letter in letters) == [
        "transaction_id: 'r-1' was used before on account 'bob' with another account_id, amount, of_transaction_id, "
        "type",
        "transaction_id: 'r-2' was used before on account 'alice' with another account_id",
    ]
    assert balances(bank) == (75, 26)


@pytest.mark.parametrize("amount", ["-50", "0", "31", "1E+125"])
def test_a_damaged_count_decides_nothing_and_its_messages_come_again(bank: RacingBank, amount: str) -> None:
    bank.post(transfer("t-1", 30), reversing("r-1", amount=10), message("transaction", "more", "bob", amount=100))
    plant(bank, amount=Decimal(amount))
    reversals = [record(reversing("r-2", amount=60)), record(reversing("r-3", account_id="bob", amount=1))]
    assert invoke(bank.workers[0], reversals) == {each["messageId"] for each in reversals}
    plant(bank, amount=Decimal(10))  # so that the books can be read
    assert balances(bank) == (80, 120)


def plant(bank: RacingBank, **damage: Any) -> None:
    [item] = reversed_items(bank).values()
    client = bank.dynamodb.client("dynamodb")
    client.put_item(TableName=bank.tables.reversals, Item=to_dynamodb(item | damage))
