"""Times a synchronous call beside the two requests to DynamoDB that it makes: the same ones, for another account.

Each is made in turn, signed and with the function's logs: on the engine in the process in CPU time, and on DynamoDB
Local in time, as a caller would wait.
"""

import contextlib
import copy
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from botocore.signers import RequestSigner
from rich.console import Console
from rich.table import Table

from conditional_writes.core.own_attributes import VERSION_ID
from conditional_writes.testing import Engine
from tests.support.bodies import opening, payment
from tests.support.in_process import Aws, answered_by
from tests.support.ledger import Ledger
from tools.local_aws.functions import Context, post_transactions
from tools.local_aws.server import Endpoint, LocalAwsError, dynamodb_local, free_port, running

CALLS = 1_000
SIGN = RequestSigner.sign
"""Which the tests' engine in the process does without."""

console = Console(highlight=False)


def main() -> None:
    table = Table("milliseconds", "median", "99th percentile", title="A synchronous call", title_justify="left")
    with answered_by(Aws(Engine())) as aws, tempfile.TemporaryDirectory() as folder:
        with mock.patch.object(RequestSigner, "sign", SIGN):
            _add(table, "the engine in the process, CPU", _measured(aws, aws, time.process_time))
        try:
            with running(dynamodb_local(free_port(), Path(folder) / "log")) as local:
                _add(table, "DynamoDB Local", _measured(aws, local, time.perf_counter))
        except LocalAwsError as error:
            console.print(f"Not on DynamoDB Local: {error}")
    console.print(table)


def _measured(aws: Endpoint, dynamodb: Endpoint, clock: Callable[[], float]) -> dict[str, list[float]]:
    """The milliseconds of each call, and of each pair of requests."""
    ledger = Ledger(aws, dynamodb)
    for first in range(0, CALLS, 50):
        with contextlib.redirect_stdout(io.StringIO()):
            ledger.post(*(opening(f"{name}-{number}") for number in range(first, first + 50) for name in "ab"))
    function = post_transactions(dynamodb, ledger.tables, ledger.locks_table, POWERTOOLS_LOG_LEVEL="INFO")
    sent: list[tuple[str, dict[str, Any]]] = []
    client = function.poster.client
    client.meta.events.register(
        "provide-client-params.dynamodb",
        lambda params, model, **_: sent.append((model.name, copy.deepcopy(params))),
    )
    methods = {"BatchGetItem": client.batch_get_item, "TransactWriteItems": client.transact_write_items}

    def call(event: dict[str, Any]) -> None:
        answer = function.lambda_handler(event, Context())
        assert answer["outcomes"][0]["state"] == "posted"

    def requests(same: list[tuple[str, dict[str, Any]]]) -> None:
        for operation, params in same:
            methods[operation](**params)

    def version_id(account_id: str) -> str:
        key = {"account_id": {"S": account_id}}
        item = client.get_item(TableName=ledger.tables.accounts, Key=key, ConsistentRead=True)["Item"]
        return str(item[VERSION_ID]["S"])

    times: dict[str, list[float]] = {"its two requests": [], "a call": []}
    for number in range(CALLS):
        mine, other = f"a-{number}", f"b-{number}"
        same = {mine: other, version_id(mine): version_id(other)}
        sent.clear()
        with contextlib.redirect_stdout(io.StringIO()):
            times["a call"].append(_milliseconds(clock, call, {"transactions": [payment(f"p-{number}", 5, mine)]}))
        spelled = json.dumps(sent).replace('"ClientRequestToken": "', '"ClientRequestToken": "b')
        for text, others in same.items():
            spelled = spelled.replace(f'"{text}"', f'"{others}"')
        times["its two requests"].append(_milliseconds(clock, requests, json.loads(spelled)))
    return times


def _milliseconds[Given](clock: Callable[[], float], run: Callable[[Given], None], given: Given) -> float:
    started = clock()
    run(given)
    return (clock() - started) * 1000


def _add(table: Table, engine: str, times: dict[str, list[float]]) -> None:
    figures = {name: (statistics.median(each), statistics.quantiles(each, n=100)[98]) for name, each in times.items()}
    requests, calls = figures.values()
    figures["times as long"] = (calls[0] / requests[0], calls[1] / requests[1])
    for name, values in figures.items():
        table.add_row(f"{engine}: {name}", *(f"{value:.2f}" for value in values))
