"""Every fault injected at every AWS call of exactly-once functions, with redelivery, and every pair of faults."""

from typing import Any, NamedTuple

import pytest

from tests.faults.conftest import Inject
from tests.faults.every_pair import inject_every_pair, inject_some_pairs
from tests.faults.scenarios.paying import MIXED, Paying
from tests.support.faults import FaultsAt, scenario_after_scenario
from tests.support.paying import Way, payment
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

READ, COMMIT, PUT = "BatchGetItem", "TransactWriteItems", "PutItem"


class Case(NamedTuple):
    """Another worker's payment, whether the function is given its items, and the calls without faults."""

    theirs: dict[str, Any]
    items: bool
    calls: list[str]


CASES = {
    "beside another payment": Case(payment(9, amount=9), True, [READ, COMMIT, COMMIT, READ, READ, COMMIT, READ, PUT]),
    "beside the same payment": Case(payment(), True, [READ, COMMIT, READ, READ, COMMIT, READ, PUT]),
    "without items, beside the same payment": Case(payment(), False, [COMMIT] * 5 + [PUT]),
}
"""A function that raises checks that there is no record. Without items a false condition is sent twice before that."""


in_each_way = pytest.mark.parametrize("way", Way, ids=lambda way: way.name.lower())


@in_each_way
@pytest.mark.parametrize("case", CASES)
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    dynamodb: Endpoint, case: str, way: Way, inject: Inject
) -> None:
    theirs, items, calls = CASES[case]
    scenario = Paying(dynamodb, way, MIXED, theirs=theirs, items=items)
    with scenario_after_scenario():
        assert scenario(FaultsAt({})).faults.calls == calls, "it calls more than it must"
    answers, balance, paid = inject(scenario)
    first, again, unfunded, _ = answers
    assert first == again
    assert unfunded == "unfunded"
    assert (balance, paid) == ((70, ["p-1"]) if theirs == payment() else (61, ["p-1", "p-9"]))


@in_each_way
def test_pairs_of_faults_leave_what_no_fault_leaves(aws: Endpoint, way: Way, say: Say, every_case: bool) -> None:
    scenario = Paying(aws, way, MIXED[:1], theirs=payment(9, amount=9))
    if every_case and way is Way.PLAIN:
        tally = inject_every_pair(scenario, say)
    else:
        tally = inject_some_pairs(scenario, firsts=12, seconds=3)
    assert tally.pairs >= 30
    assert not tally.violations, "\n".join(tally.violations)
    assert not tally.not_injected, "\n".join(tally.not_injected)
