"""A night's reconciliation in a process of its own, as on Lambda. Prints what it took, as JSON.

The arguments are the endpoint's URL, the names of the Accounts, Journal, Checkpoints, Reversals and Locks tables, and
the planted journals as JSON: the number of entries by account. Queries of those, and of their index, are answered in
this process, in pages of 1 MB as DynamoDB's. An engine would sort a journal of a million entries for each page, and
take half a minute for it.
"""

import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from botocore.awsrequest import AWSResponse

from conditional_writes.items import from_dynamodb
from conditional_writes.sizes import item_bytes
from ledger.core.journal import payload_hash_of
from tests.support.answers import answer
from tools.local_aws.functions import Context, reconcile_accounts
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables

EVENT = {"job": "reconcile_accounts", "scheduled_time": "2026-03-01T02:00:00+00:00", "force": True}
TIMEOUT_SECONDS = 170
PAGE_BYTES = 1_048_576


class Night(NamedTuple):
    """`queries` has the number of requests by account, `megabytes` the most memory that the process took.

    `idle_megabytes` is what it had taken before the night began.
    """

    outcomes: list[str]
    seconds: float
    idle_megabytes: float
    megabytes: float
    requests: dict[str, int]
    queries: dict[str, int]


def entry(name: str, version: int) -> dict[str, Any]:
    """A journal entry of an account with payments of 1, as `process_transactions` writes it, in DynamoDB's JSON."""
    transaction_id = f"t-{version:08}"
    payment = {"type": "transaction", "amount": "1", "currency": "EUR", "description": "x" * 40}
    opening = {"type": "open_account", "currency": "EUR", "overdraft_limit": "0"}
    request = {"transaction_id": transaction_id, "account_id": name} | (payment if version > 1 else opening)
    return {
        "account_id": {"S": name},
        "transaction_id": {"S": transaction_id},
        "request": {"M": {field: {"S": value} for field, value in request.items()}},
        "payload_hash": {"S": payload_hash_of(request)},
        "status": {"S": "POSTED"},
        "amount": {"N": "1" if version > 1 else "0"},
        "balance_after": {"N": str(version - 1)},
        "currency": {"S": "EUR"},
        "account_version": {"N": str(version)},
        "posted_at": {"S": "2020-01-31T21:01:34.704+00:00"},
        "cw:write_id": {"S": "c" * 32},
    }


class Planted:
    """Answers the queries of planted journals, and counts all requests."""

    def __init__(self, journals: dict[str, int], reversals: str) -> None:
        self.journals, self.reversals = journals, reversals
        self.requests: Counter[str] = Counter()
        self.queries: Counter[str] = Counter()

    def before_send(self, request: Any, event_name: str, **_: Any) -> AWSResponse | None:
        operation = event_name.rpartition(".")[2]
        self.requests[operation] += 1
        if operation != "Query":
            return None
        query = json.loads(request.body)
        name = query["ExpressionAttributeValues"][":account_id"]["S"]
        self.queries[name] += 1
        if name not in self.journals or query["TableName"] == self.reversals:
            return None
        last = self.journals[name]
        if "IndexName" in query:
            assert "BETWEEN :first AND :last" in query["KeyConditionExpression"]
            first, wanted = (int(query["ExpressionAttributeValues"][name]["N"]) for name in (":first", ":last"))
            return answer(request, 200, self._page(name, first, min(last, wanted)))
        start = query.get("ExclusiveStartKey", {}).get("transaction_id", {}).get("S", "t-00000000")
        return answer(request, 200, self._page(name, int(start.removeprefix("t-")) + 1, last))

    def _page(self, name: str, first: int, last: int) -> dict[str, Any]:
        items, taken = [], 0
        entry_bytes = item_bytes(from_dynamodb(entry(name, first)))
        for version in range(first, last + 1):
            items.append(entry(name, version))
            taken += entry_bytes
            if taken >= PAGE_BYTES:
                return {
                    "Items": items,
                    "LastEvaluatedKey": {key: items[-1][key] for key in ("account_id", "transaction_id")},
                }
        return {"Items": items}


def main(url: str, accounts: str, journal: str, checkpoints: str, reversals: str, locks: str, journals: str) -> None:
    function = reconcile_accounts(Endpoint(url), Tables(accounts, journal, checkpoints, reversals), locks)
    planted, outcomes = Planted(json.loads(journals), reversals), list[str]()
    function.client.meta.events.register_first("before-send.dynamodb", planted.before_send)
    started, idle = time.monotonic(), most_megabytes()
    with mock.patch("workers.scheduled_jobs._invoke_again"):
        while "Done" not in outcomes:
            time.sleep(0.01)
            outcomes.append(function.lambda_handler(EVENT, Context(TIMEOUT_SECONDS))["outcome"])
    night = Night(outcomes, time.monotonic() - started, idle, most_megabytes(), planted.requests, planted.queries)
    print(json.dumps(night._asdict()))


def most_megabytes() -> float:
    """The most memory that this process took. On Linux, `ru_maxrss` begins with that of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        [peak] = [line.split() for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(peak[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
