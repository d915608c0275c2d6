"""A night's reconciliation in a process of its own, as on Lambda. Prints what it took, as JSON.

The arguments are the endpoint's URL, and the names of the Accounts, Journal and Locks tables.
"""

import json
import resource
import sys
import time
from collections import Counter
from typing import Any, NamedTuple
from unittest import mock

from tools.local_aws.functions import Context, reconcile_accounts
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables

EVENT = {"job": "reconcile_accounts", "scheduled_time": "2026-03-01T02:00:00+00:00"}
TIMEOUT_SECONDS = 150


class Night(NamedTuple):
    """`queries` has the number of requests by account, `megabytes` the most memory that the process took."""

    outcomes: list[str]
    seconds: float
    megabytes: float
    requests: dict[str, int]
    queries: dict[str, int]


def main(url: str, accounts: str, journal: str, locks: str) -> None:
    function = reconcile_accounts(Endpoint(url), Tables(accounts, journal), locks)
    requests, queries, outcomes = Counter[str](), Counter[str](), list[str]()

    def note(model: Any, params: dict[str, Any], **_: Any) -> None:
        requests[model.name] += 1
        if model.name == "Query":
            queries[json.loads(params["body"])["ExpressionAttributeValues"][":account_id"]["S"]] += 1

    function.client.meta.events.register("before-call.dynamodb", note)
    started = time.monotonic()
    with mock.patch("workers.scheduled_jobs._invoke_again"):
        while "Done" not in outcomes:
            outcomes.append(function.lambda_handler(EVENT, Context(TIMEOUT_SECONDS))["outcome"])
            time.sleep(0.01)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(Night(outcomes, time.monotonic() - started, megabytes, requests, queries)._asdict()))


if __name__ == "__main__":
    main(*sys.argv[1:])
