"""Every fault injected at every AWS call of exactly-once functions, with redelivery, and every pair of faults.

And workers that fail at random, all with the same requests.
"""

import contextlib
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from conditional_writes.core.items import to_dynamodb
from tests.faults.conftest import Inject
from tests.faults.every_pair import inject_every_pair, inject_some_pairs
from tests.faults.scenarios.paying import MIXED, Paying
from tests.support.faults import Faults, FaultsAt, Killed, RandomFaults, scenario_after_scenario
from tests.support.paying import Tables, Way, Worker, account, payment
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


WORKERS = 4
PAYMENTS = [payment(number, amount=number) for number in range(1, 7)]
PROBABILITY = 0.3


@in_each_way
def test_many_workers_that_fail_at_random_make_each_payment_once_and_have_one_answer(
    dynamodb: Endpoint, way: Way, every_case: bool
) -> None:
    """Each worker is given all payments, in an order of its own, and again until it has an answer."""
    for seed in range(3 if every_case else 1):
        tables = Tables(dynamodb)
        dynamodb.client("dynamodb").put_item(TableName=tables.accounts, Item=to_dynamodb(account()))
        workers = [Worker(tables, way) for _ in range(WORKERS)]
        faults = [RandomFaults(seed * WORKERS + number, PROBABILITY) for number in range(WORKERS)]

        def deliver_all(number: int, workers: list[Worker] = workers, faults: list[RandomFaults] = faults) -> Any:
            order = random.Random(number).sample(PAYMENTS, len(PAYMENTS))
            return {each["payment_id"]: _deliver(workers[number], each, faults[number]) for each in order}

        with contextlib.ExitStack() as stack, ThreadPoolExecutor(WORKERS) as pool:
            stack.enter_context(scenario_after_scenario())
            for worker, theirs in zip(workers, faults, strict=True):
                stack.enter_context(theirs.on(worker.client))
            first, *others = pool.map(deliver_all, range(WORKERS))
        assert all(other == first for other in others)
        assert tables.balances() == {"alice": 100 - sum(each["amount"] for each in PAYMENTS)}
        assert tables.paid() == sorted(each["payment_id"] for each in PAYMENTS)
        assert any(each.injected for each in faults)


def _deliver(worker: Worker, request: dict[str, Any], faults: Faults) -> Any:
    for _ in range(100):
        faults.revive()
        try:
            return worker.pay(request)
        except (Killed, Exception):  # noqa: BLE001 (a queue delivers again after any error)
            continue
    raise AssertionError(f"no answer to {request}")
