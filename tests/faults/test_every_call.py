"""Every AWS call of a batch, struck by every fault, then delivered again until the queue is quiet."""

import itertools
import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from tests.faults.every_call import (
    Played,
    deliver_to_a_rival_first,
    deliver_until_quiet,
    strike_every_call,
    wrongly_queued,
)
from tests.faults.faults import Fault, Faults
from tests.local_aws.checker import Books, read_books, violations
from tests.local_aws.dead_letters import take_dead_letters
from tests.local_aws.function import Queue, process_transactions, record
from tests.local_aws.server import Endpoint
from tests.local_aws.tables import create_tables

TRANSFER = {"type": "transfer", "from_account_id": "carol", "to_account_id": "dave"}
BATCH: list[Any] = [
    {"type": "open_account", "transaction_id": "open", "account_id": "alice", "currency": "EUR"},
    {"type": "open_account", "transaction_id": "open", "account_id": "bob", "currency": "EUR", "overdraft_limit": -500},
    {"transaction_id": "1", "account_id": "alice", "amount": "100"},
    {"transaction_id": "2", "account_id": "alice", "amount": "-30.50"},
    {"transaction_id": "1", "account_id": "bob", "amount": -400},
    {"transaction_id": "2", "account_id": "bob", "amount": -300},
    {"transaction_id": "2", "account_id": "alice", "amount": "-30.50"},
    {"transaction_id": "2", "account_id": "alice", "amount": "-30.51"},
    {"transaction_id": "3", "account_id": "alice", "amount": "-70"},
    {"type": "set_overdraft_limit", "transaction_id": "4", "account_id": "bob", "overdraft_limit": "-400"},
    {"type": "close_account", "transaction_id": "5", "account_id": "alice"},
    {"type": "open_account", "transaction_id": "open", "account_id": "carol", "currency": "EUR", "overdraft_limit": -9},
    {"type": "open_account", "transaction_id": "open", "account_id": "dave", "currency": "EUR"},
    TRANSFER | {"transaction_id": "1", "amount": "6.50"},
    TRANSFER | {"transaction_id": "1", "amount": "6.50"},
    TRANSFER | {"transaction_id": "2", "amount": "2.51"},
    TRANSFER | {"transaction_id": "2", "amount": "2.50"},
    {"transaction_id": "1", "account_id": "nobody", "amount": 1},
    {"transaction_id": "6", "account_id": "bob", "amount": "NaN"},
    "not JSON",
]
DEAD = [json.dumps(BATCH[7]), *map(json.dumps, BATCH[16:19]), "not JSON"]

_numbers = itertools.count(1)


def play(aws: Endpoint, dynamodb: Endpoint, rival: str, fault: Fault | None, at: int) -> Played:
    """Delivers the batch until the queue is quiet."""
    tables = create_tables(dynamodb, f"fault-{next(_numbers)}")
    function = process_transactions(aws, tables, dynamodb)
    client = function.ledger.client
    queue = Queue([record(message) for message in BATCH])
    faults = Faults(fault, at)
    if rival == "a worker with the same batch":  # SQS delivers twice, and it commits after this worker's read
        other = process_transactions(aws, tables, dynamodb)
        deliver_to_a_rival_first(client, "TransactWriteItems", other, queue.records)
    deliver_until_quiet(function, queue, faults, client, function.sqs)
    books = read_books(dynamodb, tables)
    letters = take_dead_letters(aws, function.DEAD_LETTER_QUEUE_URL)
    return Played(faults, outcomes(books), [*violations(books), *wrongly_queued(queue, letters, DEAD)])


def outcomes(books: Books) -> dict[tuple[str, str], tuple[str, str | None, Decimal, Decimal, int]]:
    return {
        (entry.account_id, entry.transaction_id): (
            entry.outcome.status,
            entry.outcome.reason,
            entry.outcome.amount,
            entry.outcome.balance_after,
            entry.outcome.account_version,
        )
        for entry in books.entries
    }


@pytest.mark.filterwarnings("ignore:No application metrics")  # a killed handler has none
@pytest.mark.parametrize("rival", ["nobody", "a worker with the same batch"])
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, rival: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected: Any = strike_every_call(lambda fault, at: play(ministack, dynamodb, rival, fault, at), capsys)
    results = Counter(reason or status for status, reason, *_ in expected.values())
    assert results == {"POSTED": 10, "OVERDRAFT_LIMIT": 4, "BALANCE_NOT_ZERO": 1}  # a transfer has two entries
