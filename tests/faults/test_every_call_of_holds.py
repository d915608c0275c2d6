"""Every fault injected at every AWS call of batches with holds and reversals, alone and beside another worker."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from tests.faults.every_call import inject_every_fault
from tests.faults.scenarios.posting import Posting
from tests.support.faults import FaultsAt, scenario_after_scenario
from tests.support.in_process import IN_PROCESS
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

OPEN = {"type": "open_account", "transaction_id": "open", "currency": "EUR"}
RICH: list[Any] = [
    OPEN | {"account_id": "alice"},
    OPEN | {"account_id": "bob"},
    {"transaction_id": "pay", "account_id": "alice", "amount": 50},
]
HOLD: Any = {"type": "hold", "transaction_id": "hold", "account_id": "alice", "amount": 30}
TRANSFER: Any = {
    "type": "transfer",
    "transaction_id": "rent",
    "from_account_id": "alice",
    "to_account_id": "bob",
    "amount": 20,
}


def _resolve(kind: str, transaction_id: str, **fields: Any) -> Any:
    return {"type": kind, "transaction_id": transaction_id, "account_id": "alice", "hold_id": "hold"} | fields


def _reverse(transaction_id: str, account_id: str, **fields: Any) -> Any:
    named = {"transaction_id": transaction_id, "account_id": account_id, "of_transaction_id": "rent"}
    return {"type": "reverse"} | named | fields


class Case(NamedTuple):
    """A batch after what is `there`. Another worker's is committed after this one's first read."""

    there: Sequence[Any]
    batch: Sequence[Any]
    theirs: Sequence[Any]
    results: dict[str, int]


READ, COMMIT = "BatchGetItem", "TransactWriteItems"
CASES = {
    "a hold that is posted in part, and then to another account": Case(
        [],
        [
            *RICH,
            HOLD,
            {"transaction_id": "spend", "account_id": "alice", "amount": -21},
            _resolve("post_hold", "part", amount=10, final=False),
            _resolve("post_hold", "too much", amount=21),
            _resolve("post_hold", "rest", amount=15, to_account_id="bob"),
            _resolve("void_hold", "late"),
        ],
        [],
        {"POSTED": 7, "OVERDRAFT_LIMIT": 1, "HOLD_EXCEEDED": 1, "HOLD_NOT_OPEN": 1},
    ),
    "two resolutions by two workers": Case(
        [*RICH, HOLD],
        [_resolve("post_hold", "posting", to_account_id="bob"), _resolve("void_hold", "ours")],
        [_resolve("void_hold", "theirs")],
        {"POSTED": 5, "HOLD_NOT_OPEN": 3},
    ),
    "two parts by two workers": Case(
        [*RICH, HOLD],
        [_resolve("post_hold", "ours", amount=20, final=False, to_account_id="bob")],
        [_resolve("post_hold", "theirs", amount=20, final=False)],
        {"POSTED": 5, "HOLD_EXCEEDED": 2},
    ),
    "a reversal by both sides, and by another worker": Case(
        [*RICH, TRANSFER],
        [_reverse("first", "alice", amount=5), _reverse("second", "bob", amount=6), _reverse("third", "bob", amount=6)],
        [_reverse("theirs", "bob", amount=4)],
        {"POSTED": 11, "REVERSAL_EXCEEDED": 2},
    ),
    "a reversal after another worker's": Case(
        [*RICH, TRANSFER],
        [_reverse("ours", "alice"), _reverse("again", "bob", of_transaction_id="theirs")],
        [_reverse("theirs", "bob")],
        {"POSTED": 9, "ALREADY_REVERSED": 2},
    ),
    "a rejected reversal alone": Case(
        [*RICH, TRANSFER, _reverse("before", "bob", amount=15)],
        [_reverse("too much", "bob", amount=6)],
        [],
        {"POSTED": 7, "REVERSAL_EXCEEDED": 2},
    ),
    "a posting of a hold that isn't open": Case(
        [*RICH, HOLD, _resolve("void_hold", "void")],
        [_resolve("post_hold", "posting", to_account_id="bob")],
        [],
        {"POSTED": 5, "HOLD_NOT_OPEN": 2},
    ),
}
"""The results count entries, of which a transaction of two accounts has two."""
# The hold's entry is read if the hold isn't open, and the first account is read if a reversal names the second one.
CALLS = {
    "a hold that is posted in part, and then to another account": [READ, COMMIT],
    "two resolutions by two workers": [READ, READ, COMMIT, COMMIT],
    "two parts by two workers": [READ, COMMIT, COMMIT],
    "a reversal by both sides, and by another worker": [READ, COMMIT, COMMIT],
    "a rejected reversal alone": [READ, READ, COMMIT],
    "a posting of a hold that isn't open": [READ, READ, COMMIT],
}


@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
@pytest.mark.parametrize("case", CASES)
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, case: str, say: Say, every_case: bool
) -> None:
    there, batch, theirs, results = CASES[case]
    scenario = Posting(ministack, dynamodb, batch, [], there=there, theirs=theirs)
    expected = inject_every_fault(scenario, say, every_case=every_case, second_engine=dynamodb != IN_PROCESS)
    assert Counter(reason or status for status, reason, *_ in expected.values()) == results


@pytest.mark.parametrize("case", CALLS)
def test_without_a_fault_it_reads_no_more_than_it_must(ministack: Endpoint, case: str) -> None:
    there, batch, theirs, _ = CASES[case]
    with scenario_after_scenario():
        faults, _, wrong = Posting(ministack, ministack, batch, [], there=there, theirs=theirs)(FaultsAt({}))
    assert not wrong
    assert faults.calls == CALLS[case]
