"""Times a synchronous call beside the two requests to DynamoDB that it makes, in turn, on the engine in the process.

The engine takes less time than DynamoDB would, so on AWS the function's own share is smaller.
"""

import json
import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from conditional_writes.core.items import to_dynamodb
from conditional_writes.testing import Engine
from tests.support.bodies import opening, payment
from tests.support.in_process import Aws, answered_by
from tests.support.ledger import Ledger
from tools.local_aws.functions import Context, post_transactions

CALLS = 1_500

console = Console(highlight=False)


def main() -> None:
    with answered_by(Aws(Engine())) as aws:
        ledger = Ledger(aws)
        ledger.post(*(opening(f"a-{number}") for number in range(CALLS + 100)))
        function = post_transactions(aws, ledger.tables, ledger.locks_table, POWERTOOLS_LOG_LEVEL="CRITICAL")
        client = function.poster.client
        entry = next(iter(ledger.client.scan(TableName=ledger.tables.journal, Limit=1)["Items"]))

        def call(number: int) -> None:
            event = {"transactions": [payment(f"p-{number}", 5, f"a-{number}")]}
            answer = function.lambda_handler(json.loads(json.dumps(event)), Context())
            assert answer["outcomes"][0]["state"] == "posted"

        def requests(number: int) -> None:
            """A read of an account, and a commit of two items of the usual sizes."""
            key = to_dynamodb({"account_id": f"a-{number}"})
            client.batch_get_item(RequestItems={ledger.tables.accounts: {"Keys": [key], "ConsistentRead": True}})
            item = entry | to_dynamodb({"transaction_id": f"raw-{number}", "account_id": f"b-{number}"})
            update = {"TableName": ledger.tables.accounts, "Key": key, "UpdateExpression": "SET note = :n"}
            values = {":n": {"S": "x"}}
            client.transact_write_items(
                TransactItems=[
                    {"Put": {"TableName": ledger.tables.journal, "Item": item}},
                    {"Update": update | {"ExpressionAttributeValues": values}},
                ],
                ClientRequestToken=uuid.uuid4().hex,
            )

        called, requested = [], []
        for number in range(CALLS):
            requested.append(_milliseconds(requests, number))
            called.append(_milliseconds(call, number))
    table = Table("milliseconds", "median", "99th percentile")
    for name, times in (("two requests", requested), ("a call", called)):
        table.add_row(name, *(f"{value:.2f}" for value in _figures(times)))
    table.add_row(
        "times as long", *(f"{c / r:.2f}" for c, r in zip(_figures(called), _figures(requested), strict=True))
    )
    console.print(table)


def _milliseconds(run: Callable[[int], Any], number: int) -> float:
    started = time.process_time()
    run(number)
    return (time.process_time() - started) * 1000


def _figures(times: list[float]) -> tuple[float, float]:
    return statistics.median(times), statistics.quantiles(times, n=100)[98]
