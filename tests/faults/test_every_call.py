"""Every fault injected at every AWS call of a batch of transactions, which is delivered until the queue is empty."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from tests.faults.conftest import Inject
from tests.faults.scenarios import Scenario, lines
from tests.faults.scenarios.lines import InLine
from tests.faults.scenarios.posting import Posting
from tests.faults.scenarios.small import posting_with_a_killer
from tests.support.bodies import (
    closing,
    compound,
    hold,
    opening,
    openings,
    payment,
    post_hold,
    reverse,
    set_limit,
    transfer,
    void_hold,
)
from tests.support.faults import FaultsAt, scenario_after_scenario
from tools.local_aws.server import Endpoint

BATCH: list[Any] = [
    opening("alice"),
    opening("bob", -500),
    payment("1", "100"),
    payment("2", "-30.50"),
    payment("1", -400, "bob"),
    payment("2", -300, "bob"),
    payment("2", "-30.50"),
    payment("2", "-30.51"),
    payment("3", "-70"),
    set_limit("4", "-400", "bob"),
    closing("5"),
    opening("carol", -9),
    opening("dave"),
    transfer("1", "6.50", "carol", "dave"),
    transfer("1", "6.50", "carol", "dave"),
    transfer("2", "2.51", "carol", "dave"),
    transfer("2", "2.50", "carol", "dave"),
    payment("1", 1, "nobody"),
    payment("6", "NaN", "bob"),
    "not JSON",
]
DEAD = [json.dumps(BATCH[7]), *map(json.dumps, BATCH[16:19]), "not JSON"]


def results_of(left: dict[Any, tuple[Any, ...]]) -> Counter[str]:
    """The results count entries, of which a transaction of two accounts has two."""
    return Counter(reason or status for status, reason, *_ in left.values())


@pytest.mark.parametrize(
    "competing", [pytest.param("nobody", marks=pytest.mark.exhaustive), "a worker with the same batch"]
)
def test_a_batch_leaves_what_it_leaves_without_a_fault(
    aws: Endpoint, dynamodb: Endpoint, competing: str, inject: Inject
) -> None:
    left = inject(Posting(aws, dynamodb, BATCH, DEAD, competing_worker=competing != "nobody"))
    assert results_of(left) == {"POSTED": 10, "OVERDRAFT_LIMIT": 4, "BALANCE_NOT_ZERO": 1}


def test_a_message_that_kills_its_function_each_time_is_found_out(aws: Endpoint, inject: Inject) -> None:
    left = inject(posting_with_a_killer(aws))
    assert left.keys() == {("alice", "open"), ("alice", "1"), ("bob", "open")}


class Case(NamedTuple):
    """A batch after what is `there`. Another worker's is committed after this one's first read."""

    there: Sequence[Any]
    batch: Sequence[Any]
    theirs: Sequence[Any]
    results: dict[str, int]
    calls: Sequence[str]


READ, COMMIT = "BatchGetItem", "TransactWriteItems"
RICH = [*openings("alice", "bob"), payment("pay", 50)]
HELD, PAID = [*RICH, hold(amount=30)], [*RICH, transfer("rent", 20)]
RENT = {"of_transaction_id": "rent"}
BOBS_RENT = RENT | {"of_account_id": "alice"}
SALE = compound("sale", alice=-30, bob=20, pool=9, fees=1)
# The hold's entry is read in a further request if the hold isn't open.
CASES = {
    "a hold that is posted in part, and then to another account": Case(
        [],
        [
            *HELD,
            payment("spend", -21),
            post_hold("part", 10, final=False),
            post_hold("too much", 21),
            post_hold("rest", 15, to_account_id="bob"),
            void_hold("late"),
        ],
        [],
        {"POSTED": 7, "OVERDRAFT_LIMIT": 1, "HOLD_EXCEEDED": 1, "HOLD_NOT_OPEN": 1},
        [READ, COMMIT],
    ),
    "two resolutions by two workers": Case(
        HELD,
        [post_hold("posting", to_account_id="bob"), void_hold("ours")],
        [void_hold("theirs")],
        {"POSTED": 5, "HOLD_NOT_OPEN": 3},
        [READ, READ, COMMIT, COMMIT],
    ),
    "two parts by two workers": Case(
        HELD,
        [post_hold("ours", 20, final=False, to_account_id="bob")],
        [post_hold("theirs", 20, final=False)],
        {"POSTED": 5, "HOLD_EXCEEDED": 2},
        [READ, COMMIT, COMMIT],
    ),
    "a reversal by both sides, and by another worker": Case(
        PAID,
        [
            reverse("first", 5, **RENT),
            reverse("second", 6, "bob", **BOBS_RENT),
            reverse("third", 6, "bob", **BOBS_RENT),
        ],
        [reverse("theirs", 4, "bob", **BOBS_RENT)],
        {"POSTED": 11, "REVERSAL_EXCEEDED": 2},
        [READ, COMMIT, COMMIT],
    ),
    "a reversal after another worker's": Case(
        PAID,
        [reverse("ours", **RENT), reverse("again", None, "bob", of_transaction_id="theirs")],
        [reverse("theirs", None, "bob", **BOBS_RENT)],
        {"POSTED": 9, "ALREADY_REVERSED": 2},
        [],
    ),
    "a rejected reversal alone": Case(
        [*PAID, reverse("before", 15, "bob", **BOBS_RENT)],
        [reverse("too much", 6, "bob", **BOBS_RENT)],
        [],
        {"POSTED": 7, "REVERSAL_EXCEEDED": 2},
        [READ, COMMIT],
    ),
    "a payment with a fee to two pools, also by a worker with other shards, and its reversal": Case(
        [*RICH, opening("pool", shards=2), opening("fees", shards=2)],
        [SALE, reverse("back", None, "bob", "sale", of_account_id="alice")],
        [SALE],
        {"POSTED": 13},
        [],
    ),
    "a posting of a hold that isn't open": Case(
        [*HELD, void_hold("void")],
        [post_hold("posting", to_account_id="bob")],
        [],
        {"POSTED": 5, "HOLD_NOT_OPEN": 2},
        [READ, READ, COMMIT],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_holds_and_reversals_leave_what_they_leave_without_a_fault(
    aws: Endpoint, dynamodb: Endpoint, case: str, inject: Inject
) -> None:
    there, batch, theirs, results, calls = CASES[case]
    scenario = Posting(aws, dynamodb, batch, there=there, theirs=theirs)
    if calls:
        assert calls_of(scenario) == calls, "it reads more than it must"
    assert results_of(inject(scenario)) == results


def calls_of(scenario: Scenario) -> list[str]:
    with scenario_after_scenario():
        faults, _, wrong = scenario(FaultsAt({}))
    assert not wrong
    return faults.calls


@pytest.mark.parametrize("case", lines.CASES)
def test_a_batch_in_line_leaves_what_it_leaves_without_a_fault(
    aws: Endpoint, dynamodb: Endpoint, case: str, inject: Inject
) -> None:
    """How long it waits: tests/integration/test_lines.py."""
    inject(InLine(aws, dynamodb, lines.CASES[case]))
