"""Every fault injected at every AWS call of a reconciliation, run until it is done: one report, each account once."""

from typing import Any
from unittest import mock

import pytest

from tests.faults.every_call import inject_every_fault
from tests.faults.scenarios.reconciliation import Reconciling
from tests.support.in_process import IN_PROCESS
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

OPEN = {"type": "open_account", "transaction_id": "open", "currency": "EUR", "overdraft_limit": -100}
NAMES = ["alice", "bob", "carol", "dave", "erin"]
BOOKS: list[Any] = [
    *(OPEN | {"account_id": name} for name in NAMES),
    *({"transaction_id": "1", "account_id": name, "amount": 50} for name in NAMES[:3]),
    {"type": "transfer", "transaction_id": "2", "from_account_id": "alice", "to_account_id": "bob", "amount": 70},
    {"type": "transfer", "transaction_id": "3", "from_account_id": "bob", "to_account_id": "erin", "amount": 1000},
]


@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
@pytest.mark.parametrize("segments", [1, 3])
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, segments: int, say: Say, every_case: bool
) -> None:
    scenario = Reconciling(ministack, dynamodb, BOOKS, accounts=len(NAMES), accounts_per_step=2, segments=segments)
    left = inject_every_fault(scenario, say, every_case=every_case, second_engine=dynamodb != IN_PROCESS)
    assert len(left) == 1 + 2 * segments  # The report, and of each segment the lock and the part.


ADDED: list[Any] = [
    *({"transaction_id": "4", "account_id": name, "amount": 5} for name in NAMES[1:]),
    {"type": "transfer", "transaction_id": "5", "from_account_id": "bob", "to_account_id": "carol", "amount": 7},
]


@pytest.mark.filterwarnings("ignore:No application metrics")
@pytest.mark.parametrize("damaged", ["alice", "carol"], ids=["unchanged", "with new entries"])
def test_the_night_after_finds_the_damage_and_leaves_the_checkpoints_of_the_others(
    ministack: Endpoint, dynamodb: Endpoint, say: Say, every_case: bool, damaged: str
) -> None:
    scenario = Reconciling(
        ministack, dynamodb, BOOKS, accounts=len(NAMES), accounts_per_step=3, added=ADDED, damaged=damaged
    )
    with mock.patch("ledger.reconciler.PAUSES_SECONDS", (0, 0, 0)):
        inject_every_fault(scenario, say, every_case=every_case, second_engine=dynamodb != IN_PROCESS)
