"""Every fault injected at every AWS call of exactly-once functions, with redelivery, and every pair of faults."""

from typing import Any, NamedTuple

import pytest

from tests.faults.every_call import inject_every_fault
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


LONGEST = "beside another payment"
CASES = {
    LONGEST: Case(payment(9, amount=9), True, [READ, COMMIT, COMMIT, READ, READ, COMMIT, READ, PUT]),
    "beside the same payment": Case(payment(), True, [READ, COMMIT, READ, READ, COMMIT, READ, PUT]),
    "without items, beside the same payment": Case(payment(), False, [COMMIT] * 5 + [PUT]),
}
"""A function that raises checks that there is no record. Without items a false condition is sent twice before that."""


@pytest.mark.parametrize("way", Way, ids=lambda way: way.name.lower())
@pytest.mark.parametrize("case", CASES)
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, case: str, way: Way, say: Say, every_case: bool
) -> None:
    theirs, items, _ = CASES[case]
    scenario = Paying(dynamodb, way, MIXED, theirs=theirs, items=items)
    second_engine = dynamodb != ministack
    every_case = every_case and (not second_engine or case == LONGEST)
    answers, balance, paid = inject_every_fault(scenario, say, every_case=every_case, second_engine=second_engine)
    first, again, unfunded, _ = answers
    assert first == again
    assert unfunded == "unfunded"
    assert (balance, paid) == ((70, ["p-1"]) if theirs == payment() else (61, ["p-1", "p-9"]))


@pytest.mark.parametrize("case", CASES)
def test_without_a_fault_it_calls_no_more_than_it_must(ministack: Endpoint, case: str) -> None:
    theirs, items, calls = CASES[case]
    with scenario_after_scenario():
        faults, _, wrong = Paying(ministack, Way.PLAIN, MIXED, theirs=theirs, items=items)(FaultsAt({}))
    assert not wrong
    assert faults.calls == calls


@pytest.mark.parametrize("way", Way, ids=lambda way: way.name.lower())
def test_pairs_of_faults_leave_what_no_fault_leaves(ministack: Endpoint, way: Way, say: Say, every_case: bool) -> None:
    scenario = Paying(ministack, way, MIXED[:1], theirs=payment(9, amount=9))
    if every_case and way is Way.PLAIN:
        tally = inject_every_pair(scenario, say)
    else:
        tally = inject_some_pairs(scenario, firsts=20, seconds=4)
    assert tally.pairs >= 60
    assert not tally.violations, "\n".join(tally.violations)
    assert not tally.not_injected, "\n".join(tally.not_injected)
