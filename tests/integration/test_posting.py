"""The transactions handler with one worker, on both engines."""

import itertools
import json
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from conditional_writes.core.items import MAXIMUM_ITEM_BYTES, item_bytes
from ledger.core.replay import from_payload
from tests.checkers.books import violations
from tests.support.bodies import Body, opening, openings, payment, post_hold, reverse, set_shards, transfer
from tests.support.ledger import Ledger
from tools.local_aws.day import believable_day
from tools.local_aws.functions import Context, Queue, again, invoke, metric_totals, record
from tools.local_aws.server import Endpoint

POINTS = "PTS"
"""No currency of ISO 4217's: its amounts may have any number of decimals."""


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    """The calls of its function are watched."""
    ledger = Ledger(aws, dynamodb)
    ledger.watch(ledger.worker.poster.client)
    return ledger


def payments(numbers: range, amount: object = 1) -> list[Body]:
    return [payment(f"t-{number}", amount) for number in numbers]


def requests_of(ledger: Ledger, *messages: Any) -> list[str]:
    """The operations that posting these messages takes, in their order."""
    return [call.split()[0] for call in ledger.calls_of(lambda: ledger.post(*messages))]


def test_a_transaction_of_a_hundred_items_is_one_commit_and_more_are_two(ledger: Ledger) -> None:
    ledger.open("alice")
    assert requests_of(ledger, *payments(range(99))) == ["BatchGetItem", "TransactWriteItems"]
    more = requests_of(ledger, *payments(range(100, 200)))
    assert more == ["BatchGetItem", "TransactWriteItems", "TransactWriteItems"]
    assert not violations(ledger.books)


def test_hundreds_of_accounts_are_read_a_hundred_at_a_time(ledger: Ledger) -> None:
    calls = requests_of(ledger, *openings(*(f"acc-{number}" for number in range(250))))
    assert Counter(calls) == {"BatchGetItem": 3, "TransactWriteItems": 250}
    assert len(ledger.books.accounts) == 250


def test_the_shards_of_a_pool_that_is_known_are_read_with_the_batch(ledger: Ledger) -> None:
    ledger.post(opening("pool", shards=4), opening("alice", -100))
    unknown, known = (requests_of(ledger, transfer(name, 1, "alice", "pool")) for name in ("t-1", "t-2"))
    assert (unknown, known) == (["BatchGetItem", *known], ["BatchGetItem", "TransactWriteItems"])


def test_reversals_of_a_pools_transaction_are_decided_in_their_order_in_one_commit(ledger: Ledger) -> None:
    """By the other account and by the shard: the accounts of both are known before the batch is divided into groups."""
    ledger.post(opening("pool", shards=4), opening("alice"), transfer("t-1", 5, "pool", "alice"))
    [shard] = {name for name in ledger.books.accounts if name.endswith(":pool")}
    of_pool = {"of_account_id": "pool"}
    first, second = reverse("r-1", None, "alice", **of_pool), reverse("r-2", None, shard, **of_pool)
    assert requests_of(ledger, first, second) == ["BatchGetItem", "TransactWriteItems"]
    assert [ledger.results("r-1"), ledger.results("r-2", account_id=shard)] == [["POSTED"], ["ALREADY_REVERSED"]]


def test_a_day_is_logged_exactly_each_transaction_in_a_line_without_payload_and_all_in_the_metrics(
    ledger: Ledger, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = believable_day(400, accounts=30)
    records = list(map(record, bodies))
    with caplog.at_level("DEBUG", "teller"):
        for batch in itertools.batched(records, 100, strict=False):
            Queue(list(batch)).deliver_until_quiet(ledger.worker)
    books, letters = ledger.books, ledger.dead_letters()
    lines = [vars(line) for line in caplog.records if hasattr(line, "message_id")]
    new = [line for line in lines if line["message"] in {"posted", "rejected"}]
    # A line has the accounts that its message names: of a reversal, one.
    assert Counter((name, line["transaction_id"]) for line in new for name in line["account_ids"]) == Counter(
        (entry.account_id, entry.transaction_id)
        for entry in books.entries
        if entry.account_id in from_payload(entry.request).account_ids
    )
    assert {line["message_id"] for line in lines} == {one["messageId"] for one in records}
    assert not any("Card" in str(line) or "green" in str(line) for line in lines)
    totals = metric_totals(json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line)
    counts = books.counts()
    assert len(counts) > 2
    assert {what: totals["Posted" if what == "POSTED" else what] for what in counts} == counts
    assert totals["DeadLettered"] == len(letters)
    assert totals["Duplicates"] == len(bodies) - counts.total() - len(letters)
    assert totals["CommitTime"] > 0


def test_a_redelivered_batch_costs_two_reads_and_no_write(ledger: Ledger) -> None:
    ledger.open("alice")
    records = list(map(record, payments(range(9))))
    assert not invoke(ledger.worker, records)
    ledger.calls.clear()
    assert not invoke(ledger.worker, map(again, records))
    assert ledger.calls == ["BatchGetItem attempts", "BatchGetItem accounts journal"]


def test_a_rejection_is_replayed_and_never_flips(ledger: Ledger) -> None:
    overdraw = record(payment("t-1", -50))
    assert not invoke(ledger.worker, [record(opening()), overdraw])
    assert not invoke(ledger.worker, [record(payment("t-2", 1000)), again(overdraw), record(payment("t-1", -50))])
    assert ledger.books.counts() == {"POSTED": 2, "OVERDRAFT_LIMIT": 1}
    assert ledger.account().balance == 1000


IMPORT = {"type": "import_account", "transaction_id": "import", "account_id": "dave", "currency": "EUR", "balance": 9}
IMPORT |= {"source_reference": "core/1", "as_of": "2026-03-01T00:00:00Z", "holds": {"h-1": {"amount": 5}}}
SENT_AGAIN = {
    "more shards": (opening("pool", shards=2), set_shards()),
    "the posting of an imported hold": (IMPORT, post_hold(account_id="dave")),
}


@pytest.mark.parametrize(("before", "message"), SENT_AGAIN.values(), ids=SENT_AGAIN)
def test_what_was_posted_is_a_repetition_if_it_is_sent_again_though_it_could_not_be_decided_now(
    ledger: Ledger, before: Body, message: Body
) -> None:
    """Neither its first delivery is refused, nor does that wait; and a changed payload is."""
    ledger.post(before, message)
    posted = ledger.books
    assert ledger.returned(message, message) == set()
    assert ledger.returned(message | {"description": "Changed"}) == set()
    assert [letter.attributes["reason_code"] for letter in ledger.dead_letters()] == ["PAYLOAD_CHANGED"]
    assert ledger.books == posted


@pytest.mark.parametrize("early", [payment(), transfer("t-1", 1, "bob", "alice")], ids=["payment", "transfer"])
def test_a_payment_that_overtook_its_opening_waits_for_it(ledger: Ledger, early: Body) -> None:
    ledger.open("bob", limit=-5)
    queue = Queue([record(early)])
    queue.deliver(ledger.worker)
    assert queue.records
    assert [entry.transaction_id for entry in ledger.books.entries] == ["open"]
    ledger.open("alice")
    queue.deliver(ledger.worker)
    assert not queue.records
    assert ledger.account().balance == 1


def test_exact_decimals_survive_the_way_through_dynamodb(ledger: Ledger) -> None:
    """DynamoDB spells 1E+38 with 39 digits, which boto3 alone refuses to read."""
    ledger.post(opening(currency=POINTS), payment("t-1", "0.1"), payment("t-2", "0.2"))
    ledger.post(payment("t-3", "0." + 27 * "0" + "1"), payment("t-4", 38 * "9"))
    assert str(ledger.account().balance) == "0.3000000000000000000000000001"
    assert ledger.books.counts() == {"POSTED": 4, "BALANCE_OUT_OF_RANGE": 1}
    ledger.post(opening("rich"), opening("bob", "-1E+38"), payment("t-1", "1E+38", "rich"))
    ledger.post(payment("t-1", "1E+38", "rich"), payment("t-2", "-5E+37", "rich"), payment("t-3", 9, "bob"))
    assert ledger.account("rich").balance == Decimal("5E+37")
    assert not violations(ledger.books)


@pytest.mark.parametrize("amount", ["-50", "0", "31", "1E+125"])
def test_a_damaged_count_of_reversals_decides_nothing_and_its_messages_come_again(ledger: Ledger, amount: str) -> None:
    ledger.open("alice", "bob", limit=-100)
    ledger.post(transfer("t-1", 30), reverse("r-1", 10))
    key = {"account_id": "alice", "transaction_id": "t-1"}
    ledger.change(ledger.tables.reversals, key, amount=Decimal(amount))
    reversals = [record(reverse("r-2", 60)), record(reverse("r-3", 1, "bob", of_account_id="alice"))]
    assert invoke(ledger.worker, reversals) == {each["messageId"] for each in reversals}
    balances = {item["account_id"]: item["balance"] for item in ledger.items(ledger.tables.accounts)}
    assert balances == {"alice": -20, "bob": 20}


def test_without_time_left_everything_goes_back_to_the_queue(ledger: Ledger) -> None:
    assert len(ledger.returned(opening(), "junk", context=Context(timeout_seconds=1))) == 2
    assert not ledger.books.accounts


def test_accounts_that_dynamodb_does_not_write_cost_their_own_messages_only(ledger: Ledger) -> None:
    """One has no room left in its item, one a version with more digits than a number has."""
    ledger.open("alice", "bob", "full", "endless", limit=-100, currency=POINTS)
    room = MAXIMUM_ITEM_BYTES - item_bytes(ledger.account_item("full")) - len("notes")
    ledger.change_account("full", notes="x" * room)
    ledger.change_account("endless", version=Decimal("9.9E+125"))
    chain = [
        payment("t-1"),
        transfer("t-2", f"0.{'1' * 36}", "alice", "full"),
        transfer("t-3", 1, "endless", "full"),
        transfer("t-4", 1, "endless", "bob"),
        transfer("t-5", 1, "alice", "bob"),
        payment("t-6", 1, "bob"),
    ]
    chain += [payment(f"p-{number}") for number in range(42)]
    records = [record(message) for message in chain]
    ledger.calls.clear()
    assert invoke(ledger.worker, records) == {one["messageId"] for one in records[1:4]}
    assert ledger.requests["TransactWriteItems"] <= 1 + 3 * 2 * math.ceil(math.log2(len(chain)))
    balances = {item["account_id"]: item["balance"] for item in ledger.items(ledger.tables.accounts)}
    assert balances == {"alice": 42, "bob": 2, "full": 0, "endless": 0}
