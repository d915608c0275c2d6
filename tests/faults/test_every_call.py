"""Every AWS call of a batch, struck by every fault, then delivered again until the queue is quiet."""

import itertools
import json
import threading
from collections import Counter
from decimal import Decimal
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from tests.faults.faults import FOR_TRANSACTIONS, Fault, Faults, Killed
from tests.local_aws.checker import Books, read_books, violations
from tests.local_aws.dead_letters import take_dead_letters
from tests.local_aws.function import Queue, invoke, process_transactions, record
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


class Played(NamedTuple):
    """`wrong` has a sentence for each thing that isn't as it must be."""

    faults: Faults
    books: Books
    wrong: list[str]


def play(aws: Endpoint, dynamodb: Endpoint, rival: str, fault: Fault | None = None, at: int = 0) -> Played:
    """Delivers the batch until the queue is quiet."""
    tables = create_tables(dynamodb, f"fault-{next(_numbers)}")
    function = process_transactions(aws, tables, dynamodb)
    queue = Queue([record(message) for message in BATCH])
    faults = Faults(fault, at)
    if rival == "a worker with the same batch":
        _deliver_to_a_rival_first(function, process_transactions(aws, tables, dynamodb))
    with faults.on(function.ledger.client, function.sqs):
        for _ in range(20):
            faults.revive()
            queue.deliver(function, Killed)
            if not queue.records:
                break
    books = read_books(dynamodb, tables)
    letters = take_dead_letters(aws, function.DEAD_LETTER_QUEUE_URL)
    wrong = violations(books)
    wrong += [f"still on the queue: {waiting['body']}" for waiting in queue.records]
    wrong += [f"not dead-lettered: {body}" for body in DEAD if body not in {letter.body for letter in letters}]
    wrong += [f"dead-lettered, and no poison: {letter.body}" for letter in letters if letter.body not in DEAD]
    wrong += [f"dead-lettered without a reason: {letter.body}" for letter in letters if not letter.reason]
    return Played(faults, books, wrong)


def _deliver_to_a_rival_first(function: ModuleType, rival: ModuleType) -> None:
    """SQS delivers twice: between this worker's read and its first commit, another one posts the same messages."""
    delivered = threading.Lock()

    def deliver(**_: Any) -> None:
        if delivered.acquire(blocking=False):
            invoke(rival, [record(message) for message in BATCH])

    function.ledger.client.meta.events.register("before-call.dynamodb.TransactWriteItems", deliver)


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
    faultless, expected, wrong = play(ministack, dynamodb, rival)
    assert not wrong
    assert expected.counts() == {"POSTED": 9, "OVERDRAFT_LIMIT": 3, "BALANCE_NOT_ZERO": 1}
    tried: Counter[str] = Counter()
    failures: list[str] = []
    commits = faultless.calls.count("TransactWriteItems")
    for fault in Fault:
        for at in range(1, (commits if fault in FOR_TRANSACTIONS else len(faultless.calls)) + 1):
            faults, books, wrong = play(ministack, dynamodb, rival, fault, at)
            tried[fault.value] += 1
            assert faults.struck, f"{fault.value}: there was no call {at}"
            if outcomes(books) != outcomes(expected):
                wrong.append(f"outcomes: {outcomes(books)}, expected {outcomes(expected)}")
            failures += [f"{fault.value}, call {at} ({faults.calls[at - 1]}): {sentence}" for sentence in wrong]
    with capsys.disabled():
        print(
            f"\n{tried.total()} cases, {len(faultless.calls)} calls by {len(tried)} faults: {len(failures)} violations"
        )
    assert not failures, "\n".join(failures)
