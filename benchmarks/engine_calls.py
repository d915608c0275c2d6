"""Calls a second of the engine for tests, beside ministack, DynamoDB Local and moto; its own time of a call."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from moto import mock_aws
from rich.console import Console
from rich.table import Table

from benchmarks.engine import new_ministack
from conditional_writes.testing import Engine
from conditional_writes.testing.wire import Call
from tools.local_aws.server import Endpoint, LocalAwsError, dynamodb_local, free_port, running

CALLS, ROUNDS = 500, 5
OWN_MICROSECONDS, TIMES_MINISTACK = 100, 4
"""What the engine promises: its own time for a get or a conditional put, and its calls a second."""

TABLE = {
    "TableName": "Calls",
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
}
GET = {"TableName": "Calls", "Key": {"id": {"S": "1"}}, "ConsistentRead": True}
PUT = {
    "TableName": "Calls",
    "Item": {"id": {"S": "1"}, "balance": {"N": "12.50"}, "version": {"N": "7"}, "holds": {"M": {"h": {"N": "1"}}}},
    "ConditionExpression": "attribute_not_exists(#id) OR (#v = :v AND #b >= :b)",
    "ExpressionAttributeNames": {"#id": "id", "#v": "version", "#b": "balance"},
    "ExpressionAttributeValues": {":v": {"N": "7"}, ":b": {"N": "0"}},
}

console = Console(highlight=False)


class Speed(NamedTuple):
    """Calls a second: the best of the rounds, because other programs only make it less."""

    gets: float
    puts: float


def speed(client: Any) -> Speed:
    client.create_table(**TABLE)
    client.get_waiter("table_exists").wait(TableName="Calls", WaiterConfig={"Delay": 1})
    client.put_item(**PUT)
    return Speed(best(lambda: client.get_item(**GET)), best(lambda: client.put_item(**PUT)))


def best(call: Callable[[], object]) -> float:
    def of_a_round() -> float:
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        return CALLS / (time.perf_counter() - began)

    return max(of_a_round() for _ in range(ROUNDS))


def own_microseconds(engine: Engine) -> Speed:
    """The engine's own time for a call: from the request's JSON to the answer's."""

    def own(operation: str, request: dict[str, Any]) -> float:
        body, name = json.dumps(request), f"DynamoDB_20120810.{operation}"
        return 1e6 / best(lambda: engine.answer(Call(name, json.loads(body), "")))

    return Speed(own("GetItem", GET), own("PutItem", PUT))


@contextlib.contextmanager
def clients() -> Iterator[Iterator[tuple[str, Any]]]:
    """One client each, as tests make them. DynamoDB Local is left out if it isn't here."""
    nobody = Endpoint("")
    with contextlib.ExitStack() as stack:

        def made() -> Iterator[tuple[str, Any]]:
            yield "the engine", stack.enter_context(Engine()).client()
            yield "ministack", stack.enter_context(new_ministack()).client("dynamodb")
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="teller-")))
            try:
                local = stack.enter_context(running(dynamodb_local(free_port(), folder / "log")))
                yield "DynamoDB Local", local.client("dynamodb")
            except LocalAwsError as error:
                console.print(error)
            stack.enter_context(mock_aws())
            yield "moto", nobody.client("dynamodb")

        yield made()


def main() -> None:
    with clients() as each:
        speeds = {name: speed(client) for name, client in each}
    with Engine() as engine:
        speed(engine.client())
        own = own_microseconds(engine)
    table = Table(title="Calls a second, botocore's work included", title_justify="left", title_style="bold")
    for heading in ("", "get", "conditional put"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, found in speeds.items():
        table.add_row(name, *(f"{calls:,.0f}" for calls in found))
    console.print(table)
    console.print(f"The engine's own time: {own.gets:.0f} µs for a get, {own.puts:.0f} µs for a conditional put\n")
    assert max(own) <= OWN_MICROSECONDS, own
    ours, ministack = speeds["the engine"], speeds["ministack"]
    assert ours.gets >= TIMES_MINISTACK * ministack.gets, speeds
    assert ours.puts >= TIMES_MINISTACK * ministack.puts, speeds
