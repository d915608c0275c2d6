"""The transactions handler with one worker, on both engines."""

import itertools
import json
from collections import Counter
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.sizes import MAXIMUM_ITEM_BYTES, item_bytes
from ledger.core.transaction_types import from_payload
from tests.checkers.books import read_books, violations
from tools.local_aws.day import believable_day
from tools.local_aws.functions import Context, Queue, again, invoke, metric_totals, process_transactions, record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables

OPEN = {"type": "open_account", "transaction_id": "open", "account_id": "alice", "currency": "EUR"}
POINTS = "PTS"
"""No currency of ISO 4217's: its amounts may have any number of decimals."""


@pytest.fixture
def function(ministack: Endpoint, dynamodb: Endpoint, tables: Tables) -> ModuleType:
    return process_transactions(ministack, tables, dynamodb)


def payment(number: int, amount: object = 1, account: str = "alice") -> dict[str, Any]:
    return {"transaction_id": f"t-{number}", "account_id": account, "amount": amount}


def transfer(number: int, payer: str, payee: str, amount: object) -> dict[str, Any]:
    accounts = {"from_account_id": payer, "to_account_id": payee}
    return {"type": "transfer", "transaction_id": f"t-{number}", "amount": amount} | accounts


def test_a_transaction_of_a_hundred_items_is_one_commit_and_more_are_two(
    function: ModuleType, dynamodb: Endpoint, tables: Tables
) -> None:
    calls: list[str] = []
    assert not invoke(function, [record(OPEN)])
    function.poster.client.meta.events.register("before-call", lambda model, **_: calls.append(model.name))
    assert not invoke(function, [record(payment(number)) for number in range(99)])
    assert calls == ["BatchGetItem", "TransactWriteItems"]
    calls.clear()
    assert not invoke(function, [record(payment(number)) for number in range(100, 200)])
    assert calls == ["BatchGetItem", "TransactWriteItems", "TransactWriteItems"]
    assert not violations(read_books(dynamodb, tables))


def test_hundreds_of_accounts_are_read_a_hundred_at_a_time(
    function: ModuleType, dynamodb: Endpoint, tables: Tables
) -> None:
    calls: list[str] = []
    function.poster.client.meta.events.register("before-call", lambda model, **_: calls.append(model.name))
    assert not invoke(function, [record(OPEN | {"account_id": f"acc-{number}"}) for number in range(250)])
    assert calls.count("BatchGetItem") == 3
    assert calls.count("TransactWriteItems") == 250
    assert len(read_books(dynamodb, tables).accounts) == 250


def test_a_day_is_logged_exactly_each_transaction_in_a_line_without_payload_and_all_in_the_metrics(
    function: ModuleType,
    ministack: Endpoint,
    dynamodb: Endpoint,
    tables: Tables,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bodies = believable_day(400, accounts=30)
    records = list(map(record, bodies))
    with caplog.at_level("DEBUG", "teller"):
        for batch in itertools.batched(records, 100, strict=False):
            Queue(list(batch)).deliver_until_quiet(function)
    books, letters = read_books(dynamodb, tables), take_dead_letters(ministack, function.worker.queue.dead_letter_url)
    lines = [vars(line) for line in caplog.records if hasattr(line, "message_id")]
    new = [line for line in lines if line["message"] in {"posted", "rejected"}]
    logged = [(account_id, line["transaction_id"]) for line in new for account_id in line["account_ids"]]
    # A line has the accounts that its message names: of a reversal, one.
    assert Counter(logged) == Counter(
        (entry.account_id, entry.transaction_id)
        for entry in books.entries
        if entry.account_id in from_payload(entry.request).account_ids
    )
    assert {line["message_id"] for line in lines} == {one["messageId"] for one in records}
    assert not any("Card" in str(line) or "green" in str(line) for line in lines)
    totals = metric_totals(json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line)
    rejected = {each: number for each, number in books.counts().items() if each != "POSTED"}
    assert len(rejected) > 1
    assert {reason: totals[reason] for reason in rejected} == rejected
    assert totals["Posted"] == books.counts()["POSTED"]
    assert totals["DeadLettered"] == len(letters)
    assert totals["Duplicates"] == len(bodies) - books.counts().total() - len(letters)
    assert totals["CommitTime"] > 0


def test_a_redelivered_batch_costs_two_reads_and_no_write(function: ModuleType) -> None:
    records = [record(OPEN), *(record(payment(number)) for number in range(9))]
    assert not invoke(function, records)
    calls: list[str] = []
    function.poster.client.meta.events.register("before-call", lambda model, **_: calls.append(model.name))
    assert not invoke(function, [again(one) for one in records])
    assert calls == ["BatchGetItem"] * 2  # its attempts; its accounts and entries


def test_a_rejection_is_replayed_and_never_flips(function: ModuleType, dynamodb: Endpoint, tables: Tables) -> None:
    overdraw = record(payment(1, -50))
    assert not invoke(function, [record(OPEN), overdraw])
    assert not invoke(function, [record(payment(2, 1000)), again(overdraw), record(payment(1, -50))])
    books = read_books(dynamodb, tables)
    assert books.counts() == {"POSTED": 2, "OVERDRAFT_LIMIT": 1}
    assert books.accounts["alice"].balance == 1000


def test_a_transfer_is_posted_or_rejected_on_both_sides_and_repeated_on_neither(
    function: ModuleType, dynamodb: Endpoint, tables: Tables
) -> None:
    openings = [record(OPEN), record(OPEN | {"account_id": "bob", "overdraft_limit": -500})]
    rent, too_much = record(transfer(1, "bob", "alice", "400.50")), record(transfer(2, "bob", "alice", 100))
    assert not invoke(function, [*openings, rent, too_much])
    assert not invoke(function, [again(rent), record(transfer(1, "bob", "alice", 400.5)), again(too_much)])
    books = read_books(dynamodb, tables)
    assert not violations(books)
    assert [account.balance for account in (books.accounts["alice"], books.accounts["bob"])] == [400.5, -400.5]
    for account_id, amount in (("alice", 400.5), ("bob", -400.5)):
        opened, posted, rejected = (entry.outcome for entry in books.journal[account_id])
        assert (posted.status, posted.amount, posted.balance_after) == ("POSTED", amount, amount)
        assert (rejected.reason, rejected.amount, rejected.balance_after) == ("OVERDRAFT_LIMIT", 0, amount)
        assert [outcome.account_version for outcome in (opened, posted, rejected)] == [1, 2, 3]


def test_a_long_chain_of_transfers_in_one_batch_is_posted_in_order_a_hundred_items_at_a_time(
    function: ModuleType, dynamodb: Endpoint, tables: Tables
) -> None:
    calls: list[str] = []
    names = ["alice", *(f"acc-{number}" for number in range(60))]
    assert not invoke(function, [record(OPEN | {"account_id": name}) for name in names])
    assert not invoke(function, [record(payment(0, "12.50"))])
    function.poster.client.meta.events.register("before-call", lambda model, **_: calls.append(model.name))
    chain = [transfer(number, *pair, "12.50") for number, pair in enumerate(itertools.pairwise(names), 1)]
    assert not invoke(function, [record(one) for one in chain])
    assert calls == ["BatchGetItem", "TransactWriteItems", "TransactWriteItems"]
    books = read_books(dynamodb, tables)
    assert not violations(books)
    assert books.accounts[names[-1]].balance == Decimal("12.5")
    assert books.counts() == {"POSTED": 61 + 1 + 60}


def test_a_transfer_waits_until_both_its_accounts_are_open(
    function: ModuleType, dynamodb: Endpoint, tables: Tables
) -> None:
    queue = Queue([record(OPEN | {"overdraft_limit": -5}), record(transfer(1, "alice", "bob", 5))])
    queue.deliver(function)
    assert queue.records
    assert [entry.transaction_id for entry in read_books(dynamodb, tables).entries] == ["open"]
    assert not invoke(function, [record(OPEN | {"account_id": "bob"})])
    queue.deliver(function)
    assert not queue.records
    assert read_books(dynamodb, tables).accounts["bob"].balance == 5


def test_exact_decimals_survive_the_way_through_dynamodb(
    function: ModuleType, dynamodb: Endpoint, tables: Tables
) -> None:
    tiny, huge = "0." + 27 * "0" + "1", 38 * "9"
    assert not invoke(
        function, [record(OPEN | {"currency": POINTS}), record(payment(1, "0.1")), record(payment(2, "0.2"))]
    )
    assert not invoke(function, [record(payment(3, tiny)), record(payment(4, huge))])
    books = read_books(dynamodb, tables)
    assert str(books.accounts["alice"].balance) == "0.3000000000000000000000000001"
    assert books.counts() == {"POSTED": 4, "BALANCE_OUT_OF_RANGE": 1}


def test_the_largest_numbers_are_read_again(function: ModuleType, dynamodb: Endpoint, tables: Tables) -> None:
    """DynamoDB spells 1E+38 with 39 digits, which boto3 alone refuses to read."""
    bob = OPEN | {"account_id": "bob", "overdraft_limit": "-1E+38"}
    assert not invoke(function, [record(OPEN), record(bob), record(payment(1, "1E+38"))])
    assert not invoke(
        function, [again(record(payment(1, "1E+38"))), record(payment(2, "-5E+37")), record(payment(3, 9, "bob"))]
    )
    books = read_books(dynamodb, tables)
    assert books.accounts["alice"].balance == Decimal("5E+37")
    assert not violations(books)


def test_one_accounts_trouble_does_not_hold_up_another(
    function: ModuleType, dynamodb: Endpoint, tables: Tables
) -> None:
    assert not invoke(function, [record(OPEN), record(OPEN | {"account_id": "bob"})])
    # An account that can't be read, because its status is invalid.
    dynamodb.client("dynamodb").update_item(
        TableName=tables.accounts,
        Key={"account_id": {"S": "alice"}},
        UpdateExpression="SET #status = :nonsense",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":nonsense": {"S": "FROZEN SOLID"}},
    )
    good, bad = record(payment(1, account="bob")), record(payment(1))
    assert invoke(function, [bad, good]) == {bad["messageId"]}
    # The same holds if a transfer joins the accounts.
    transfer = {
        "type": "transfer",
        "transaction_id": "tr",
        "from_account_id": "bob",
        "to_account_id": "alice",
        "amount": 1,
    }
    bad, joining, good = record(payment(2)), record(transfer), record(payment(2, account="bob"))
    assert invoke(function, [bad, joining, good]) == {bad["messageId"], joining["messageId"]}


def test_without_time_left_everything_goes_back_to_the_queue(
    function: ModuleType, dynamodb: Endpoint, tables: Tables
) -> None:
    records = [record(OPEN), record("junk")]
    assert invoke(function, records, Context(timeout_seconds=1)) == {one["messageId"] for one in records}
    assert not read_books(dynamodb, tables).accounts


def test_a_payment_that_overtook_its_opening_waits_for_it(
    function: ModuleType, dynamodb: Endpoint, tables: Tables
) -> None:
    queue = Queue([record(payment(1))])
    queue.deliver(function)
    assert queue.records
    assert not invoke(function, [record(OPEN)])
    queue.deliver(function)
    assert not queue.records
    assert read_books(dynamodb, tables).accounts["alice"].balance == 1


def test_what_can_never_be_posted_is_dead_lettered_with_its_reason(
    function: ModuleType, ministack: Endpoint, dynamodb: Endpoint, tables: Tables
) -> None:
    Queue([record(OPEN), record(payment(1))]).deliver_until_quiet(function)
    Queue(
        [
            record("junk" * 65_536),
            record(payment(1, 2)),
            record(payment(2, account="nobody")),
            record(payment(3)),
        ]
    ).deliver_until_quiet(function)
    reasons = {letter.reason for letter in take_dead_letters(ministack, function.worker.queue.dead_letter_url)}
    assert reasons == {
        "body: 262,144 bytes, expected at most 131,072",
        "transaction_id: 't-1' was used before on account 'alice' with another amount",
        "waited through 8 deliveries: account_id: no account 'nobody' has been opened",
    }
    assert read_books(dynamodb, tables).accounts["alice"].balance == 2


def test_accounts_that_dynamodb_does_not_write_cost_their_own_messages_only(
    function: ModuleType, dynamodb: Endpoint, tables: Tables
) -> None:
    """One has no room left in its item, one a version with more digits than a number has."""
    names = ["alice", "bob", "full", "endless"]
    opening = OPEN | {"currency": POINTS, "overdraft_limit": -100}
    assert not invoke(function, [record(opening | {"account_id": name}) for name in names])
    client = dynamodb.client("dynamodb")

    def item_of(name: str) -> dict[str, Any]:
        item: dict[str, Any] = client.get_item(TableName=tables.accounts, Key={"account_id": {"S": name}})["Item"]
        return item

    room = MAXIMUM_ITEM_BYTES - item_bytes(from_dynamodb(item_of("full"))) - len("notes")
    for name, changed in (("full", {"notes": "x" * room}), ("endless", {"version": Decimal("9.9E+125")})):
        client.put_item(TableName=tables.accounts, Item=item_of(name) | to_dynamodb(changed))
    chain = [
        payment(1, account="alice"),
        transfer(2, "alice", "full", f"0.{'1' * 36}"),
        transfer(3, "endless", "full", 1),
        transfer(4, "endless", "bob", 1),
        transfer(5, "alice", "bob", 1),
        payment(6, account="bob"),
    ]
    records = [record(message) for message in chain]
    assert invoke(function, records) == {one["messageId"] for one in records[1:4]}
    balances = {name: from_dynamodb(item_of(name))["balance"] for name in names}
    assert balances == {"alice": 0, "bob": 2, "full": 0, "endless": 0}
