"""Payments that are delivered until they are done or refused, among them repetitions, with other workers in between."""

import itertools
from typing import Any

from conditional_writes import Deadline, UnsatisfiableCondition, read
from conditional_writes.core.items import to_dynamodb
from tests.faults.scenarios import ScenarioResult
from tests.support.faults import FaultsAt, Killed
from tests.support.paying import Tables, Unfunded, Way, Worker, account, payment
from tools.local_aws.server import Endpoint

MIXED = [payment(), payment(), payment(2, amount=1000), payment(3, amount=0)]
"""A payment and the same again, one without funds, and one that writes nothing."""
DELIVERIES = 6

_numbers = itertools.count(1)


class Paying:
    """Another worker makes its payment between the first read and the first write.

    Each run has an account and keys of its own: that is faster than to begin with empty tables.
    """

    def __init__(
        self,
        dynamodb: Endpoint,
        way: Way,
        requests: list[dict[str, Any]],
        *,
        theirs: dict[str, Any],
        items: bool = True,
    ) -> None:
        self._requests, self._theirs = requests, theirs
        self._tables = Tables(dynamodb)
        self._worker, self._other = (Worker(self._tables, way, items=items) for _ in range(2))

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        """Leaves each request's answer, the balance and the payments: a payment that was made twice would show."""
        worker, run = self._worker, next(_numbers)
        requests, [theirs] = _of_run(run, self._requests), _of_run(run, [self._theirs])
        alice = account() | {"account_id": theirs["account_id"]}
        self._other.client.put_item(TableName=self._tables.accounts, Item=to_dynamodb(alice))
        with worker.before_writing(lambda: self._other.pay(theirs)), faults.on(worker.client):
            answers = [self._deliver(request, faults) for request in requests]
        payments = {each["payment_id"]: worker.payments.key(each["payment_id"]) for each in [*requests, theirs]}
        keys = [worker.accounts.key(alice["account_id"]), *payments.values()]
        found = read(self._other.client, keys, Deadline.after(10))
        balance = (found[keys[0]] or {})["balance"]
        paid = {name.partition(" ")[2]: item["amount"] for name, key in payments.items() if (item := found[key])}
        wrong = [] if all(answers) else [f"without an answer at last: {answers}"]
        if balance != 100 - sum(paid.values()):
            wrong.append(f"the balance is {balance} after the payments {paid}")
        return ScenarioResult(faults, (answers, balance, sorted(paid)), wrong)

    def _deliver(self, request: dict[str, Any], faults: FaultsAt) -> str:
        for _ in range(DELIVERIES + faults.outage.invocations):
            faults.revive()
            try:
                return f"result {self._worker.pay(request)}"
            except (Unfunded, UnsatisfiableCondition):
                return "unfunded"
            except (Killed, Exception):  # noqa: BLE001 (a queue delivers again after any error)
                continue
        return ""


def _of_run(run: int, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("payment_id", "account_id")
    return [each | {name: f"{run} {each[name]}" for name in names} for each in requests]
