"""Clients of the user's own, in threads and beside an event loop: the claims of docs/clients.md of the library."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.config import Config

from conditional_writes import (
    Conflict,
    Deadline,
    Plan,
    Put,
    VersionedItem,
    VersionedTable,
    absent,
    dynamodb_client,
    key,
    read,
    write,
    write_together,
)
from conditional_writes.locks import Locks
from conditional_writes.upserts import MapEntry, upsert
from tests.support.new_tables import new_table
from tools.local_aws.server import Endpoint

CLIENTS: dict[str, Callable[[], Any]] = {
    "ours": dynamodb_client,
    "boto3's defaults": lambda: boto3.client("dynamodb"),
    "adaptive": lambda: boto3.client("dynamodb", config=Config(retries={"mode": "adaptive"})),
    "legacy": lambda: boto3.client("dynamodb", config=Config(retries={"mode": "legacy"})),
    "no validation": lambda: boto3.client("dynamodb", config=Config(parameter_validation=False)),
    "a session's": lambda: boto3.Session().client("dynamodb"),
}


def made(dynamodb: Endpoint, kind: str) -> Any:
    with mock.patch.dict(os.environ, dynamodb.environment):
        return CLIENTS[kind]()


@pytest.mark.parametrize("kind", CLIENTS)
def test_any_client_of_boto3s_does(dynamodb: Endpoint, kind: str) -> None:
    client = made(dynamodb, kind)
    name = new_table(client, {"id": "S"})
    table, locks = VersionedTable(client, name, "id"), Locks(client, new_table(client, {"lock_key": "S"}))
    early = table.save({"id": "1", "map": {"S": "no type of DynamoDB's"}, "set": {1, 2}})
    table.modify("1", change=lambda item: item | {"count": 1})
    with pytest.raises(Conflict) as conflict:
        table.save(early | {"count": 2})
    assert conflict.value.found == table.load("1") == {**early, "count": 1, "version": 2}
    write_together(client, [table.saving(conflict.value.found | {"count": 3}), Put(key(name, id="2"), {})])
    with pytest.raises(Conflict):
        write_together(client, [Put(key(name, id="2"), {}, absent("id")), Put(key(name, id="3"), {})])
    assert sorted(item["id"] for item in table.scan()) == ["1", "2"]
    upsert(client, key(name, id="4"), [MapEntry(("a", "b", "c"), 1)])
    assert table.load("4") == {"id": "4", "a": {"b": {"c": 1}}}
    with locks.hold("job", lease_seconds=5, why="a test") as lock:
        lock.complete(Put(key(name, id="5"), {"token": lock.token}))
    deadline = Deadline.after(5)
    observed = read(client, [table.key("5")], deadline)
    assert write(client, lambda found: Plan(found[table.key("5")]), observed, deadline).result["token"] == lock.token


def test_the_client_of_a_resource_is_refused_with_what_to_use_instead(dynamodb: Endpoint) -> None:
    name = new_table(dynamodb.client("dynamodb"), {"id": "S"})
    with mock.patch.dict(os.environ, dynamodb.environment):
        resource = boto3.resource("dynamodb")
        beside = VersionedTable(boto3.client("dynamodb"), name, "id")
    client, there, deadline = resource.meta.client, key(name, id="1"), Deadline.after(5)
    for call in (
        lambda: VersionedTable(client, name, "id").load("1"),
        lambda: read(client, [there], deadline),
        lambda: write(client, lambda _: Plan(None, [Put(there, {})]), {}, deadline),
        lambda: write_together(client, [Put(there, {})]),
        lambda: upsert(client, there, [MapEntry(("a", "b"), 1)]),
        lambda: Locks(client, name).acquire("job", lease_seconds=5, why="a test"),
    ):
        with pytest.raises(TypeError, match=r"belongs to boto3.resource\('dynamodb'\).* give the library boto3.client"):
            call()
    assert beside.load("1") is None
    beside.save({"id": "1"})
    assert resource.Table(name).get_item(Key={"id": "1"})["Item"]["version"] == 1


def counted(item: VersionedItem | None) -> VersionedItem:
    assert item is not None
    return item | {"count": item["count"] + 1}


def test_one_client_serves_many_threads(dynamodb: Endpoint) -> None:
    client = made(dynamodb, "ours")
    table, together = VersionedTable(client, new_table(client, {"id": "S"}), "id"), threading.Barrier(16)
    table.save({"id": "1", "count": 0})

    def add_ten(_: int) -> None:
        together.wait()
        for _ in range(10):
            table.modify("1", change=counted, deadline=Deadline.after(60))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(add_ten, range(16)))
    assert table.get("1")["count"] == 160


def test_beside_an_event_loop_calls_run_in_threads(dynamodb: Endpoint) -> None:
    client = made(dynamodb, "ours")
    table = VersionedTable(client, new_table(client, {"id": "S"}), "id")
    table.save({"id": "1", "count": 0})

    async def add_eight() -> list[VersionedItem]:
        calls = (asyncio.to_thread(table.modify, "1", change=counted, deadline=Deadline.after(60)) for _ in range(8))
        return await asyncio.gather(*calls)

    assert sorted(item["count"] for item in asyncio.run(add_eight())) == list(range(1, 9))


SECRET = "AKIAIOSFODNN7EXAMPLE"

PROGRAM = """
import json
from conditional_writes import VersionedTable, dynamodb_client

signed = []

def new_client():
    client = dynamodb_client()
    client.meta.events.register_first(
        "before-send.dynamodb", lambda request, **_: signed.append(request.headers["Authorization"].decode())
    )
    return client

before = new_client()
from moto import mock_aws

def program(client):
    client.create_table(
        TableName="Flights",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "flight_id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "flight_id", "KeyType": "HASH"}],
    )
    flights = VersionedTable(client, "Flights", "flight_id")
    flights.save({"flight_id": "LH 1"})
    return flights.get("LH 1")["version"]

versions = []
for _ in range(2):  # a second mock has no tables of the first
    with mock_aws():
        versions.append(int(program(new_client())))
after = new_client()
print(json.dumps({
    "versions": versions, "signed": signed,
    "before": before._request_signer._credentials.access_key,
    "after": after._request_signer._credentials.access_key,
}))
"""


def test_a_client_made_inside_of_the_mock_never_has_the_credentials_of_before() -> None:
    """In a process of its own: moto is imported after the first client was made. A stray request finds no proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = kept | {
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": SECRET,
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    command = [sys.executable, "-c", PROGRAM]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    seen = json.loads(finished.stdout)
    assert seen["versions"] == [1, 1]
    assert len(seen["signed"]) == 2 * len(["CreateTable", "PutItem", "GetItem"])
    assert not [authorization for authorization in seen["signed"] if SECRET in authorization]
    assert seen["before"] == seen["after"] == SECRET
