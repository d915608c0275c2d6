"""A night's reconciliation in a process of its own, as on Lambda. Prints what it took, as JSON.

The argument is JSON, too: the lengths of the planted journals by account, and the versions of their checkpoints, which
are from the day before. Queries of those journals, and of their index, are answered with pages of 1 MB as DynamoDB's.
"""

import json
import resource
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from botocore.awsrequest import AWSResponse

from conditional_writes.core.items import from_dynamodb, item_bytes
from conditional_writes.testing import Engine
from ledger.checkpoints import key_of
from ledger.core.accounts import Account, AccountStatus, account_item
from ledger.core.journal import entry_from_item, seal_of
from ledger.core.totals import HashTree
from tests.support.answers import answer
from tests.support.in_process import Aws, answered_by
from tests.support.ledger import Ledger
from tools.local_aws.functions import Context, run_job

EVENT = {"job": "reconcile_accounts", "scheduled_time": "2026-03-01T02:00:00+00:00", "force": True}
DAY = datetime.fromisoformat(str(EVENT["scheduled_time"])).date()
TIMEOUT_SECONDS = 170
PAGE_BYTES = 1_048_576
ODD: dict[str, dict[str, Any]] = {"unreadable": {"balance": "12"}, "large": {"notes": "x" * 380_000}}


class Night(NamedTuple):
    """`queries` has the number of requests by account, `megabytes` the most memory that the process took.

    `idle_megabytes` is what it had taken before the night began. `counts` are those of accounts that were checked,
    replayed whole, and skipped, and of mismatches; `skipped` are the sentences about those accounts.
    """

    outcomes: list[str]
    seconds: float
    idle_megabytes: float
    megabytes: float
    requests: dict[str, int]
    queries: dict[str, int]
    counts: list[int]
    skipped: list[str]


def account(name: str, version: int) -> Account:
    """The account after so many entries."""
    posted_at, seal = (entry(name, version)[field]["S"] for field in ("posted_at", "seal"))
    return Account(name, Decimal(version - 1), Decimal(0), "EUR", AccountStatus.OPEN, version, posted_at, seal=seal)


def peaks(name: str, version: int) -> list[str]:
    """Those of the tree of so many entries' seals."""
    entry(name, version)
    return list(HashTree().with_leaves(_seals[name][1 : version + 1]).peaks)


_seals: dict[str, list[str]] = {}


def entry(name: str, version: int) -> dict[str, Any]:
    """A journal entry of an account with payments of 1, as `process_transactions` writes it, in DynamoDB's JSON."""
    seals = _seals.setdefault(name, [""])
    while len(seals) <= version:
        seals.append(seal_of(seals[-1], entry_from_item(from_dynamodb(_entry(name, len(seals), "")))))
    return _entry(name, version, seals[version])


def _entry(name: str, version: int, seal: str) -> dict[str, Any]:
    sent = {"sent_by": "AROA4EXAMPLE7PAYMENTS:payments-api", "message_id": "m" * 36}
    sent |= {"sent_at": "2020-01-31T21:01:34.492+00:00"}
    transaction_id = f"t-{version:08}"
    payment = {"type": "transaction", "amount": "1", "currency": "EUR", "description": "x" * 40}
    opening = {"type": "open_account", "currency": "EUR", "overdraft_limit": "0"}
    request = {"transaction_id": transaction_id, "account_id": name} | (payment if version > 1 else opening)
    return {
        "account_id": {"S": name},
        "transaction_id": {"S": transaction_id},
        "format": {"N": "2"},
        "rules": {"N": "1"},
        "request": {"M": {field: {"S": value} for field, value in request.items()}},
        "sent": {"M": {field: {"S": value} for field, value in sent.items()}},
        "seal": {"S": seal},
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
        query = json.loads(request.body)
        if operation != "Query" or ":account_id" not in query["ExpressionAttributeValues"]:
            return None
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


def plant(ledger: Ledger, journals: dict[str, int], checkpoints: dict[str, int]) -> None:
    """Accounts with journals of these lengths, which aren't in the Journal table, and others with a single entry."""
    for name, entries in (journals | dict.fromkeys([*ODD, *(f"few-{number}" for number in range(40))], 1)).items():
        ledger.put(ledger.tables.accounts, account_item(account(name, entries)) | ODD.get(name, {}))
        if name not in journals:
            ledger.put_entry(from_dynamodb(entry(name, 1)))
    for name, version in checkpoints.items():
        day_before = key_of(name) | {"whole_on": (DAY - timedelta(days=1)).isoformat(), "peaks": peaks(name, version)}
        ledger.put(ledger.tables.checkpoints, account_item(account(name, version)) | day_before)


def main(journals: dict[str, int], checkpoints: dict[str, int]) -> Night:
    with answered_by(Aws(Engine())) as aws:
        ledger = Ledger(aws)
        plant(ledger, journals, checkpoints)
        function, outcomes = ledger.job("reconcile_accounts"), list[str]()
        planted = Planted(journals, ledger.tables.reversals)
        function.client.meta.events.register_first("before-send.dynamodb", planted.before_send)
        started, idle = time.monotonic(), most_megabytes()
        while "Done" not in outcomes:
            outcomes.append(run_job(function, EVENT, Context(TIMEOUT_SECONDS)))
        seconds, most = time.monotonic() - started, most_megabytes()
        report = ledger.item(ledger.locks_table, {"lock_key": f"{EVENT['job']} {EVENT['scheduled_time']}"})
        names = ("accounts_checked", "accounts_replayed_whole", "accounts_skipped", "mismatches")
        counts, skipped = [int(report[name]) for name in names], report["first_skipped"]
        return Night(outcomes, seconds, idle, most, planted.requests, planted.queries, counts, skipped)


def most_megabytes() -> float:
    """The most memory that this process took. On Linux, `ru_maxrss` begins with that of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        [peak] = [line.split() for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(peak[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    print(json.dumps(main(*json.loads(sys.argv[1]))._asdict()))
