"""Every fault injected at every AWS call of a batch, which is delivered until the queue is empty."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.faults.every_call import inject_every_fault
from tests.faults.scenarios.posting import Posting
from tests.support.in_process import IN_PROCESS
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

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


@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
@pytest.mark.parametrize("competing", ["nobody", "a worker with the same batch"])
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, competing: str, say: Say, every_case: bool
) -> None:
    scenario = Posting(ministack, dynamodb, BATCH, DEAD, competing_worker=competing != "nobody")
    expected = inject_every_fault(scenario, say, every_case=every_case, second_engine=dynamodb != IN_PROCESS)
    results = Counter(reason or status for status, reason, *_ in expected.values())
    assert results == {"POSTED": 10, "OVERDRAFT_LIMIT": 4, "BALANCE_NOT_ZERO": 1}  # A transfer has two entries.
