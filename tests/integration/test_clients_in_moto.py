"""The library inside of moto's mock_aws: clients use the mock and its credentials, whatever was made before."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from moto import mock_aws

from conditional_writes import Conflict, VersionedTable, begins_with, dynamodb_client, equals, less_than

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


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | {
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": SECRET,
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }


# A process of its own: moto is imported after the first client was made. Requests that escape find no proxy.
def test_a_client_made_inside_of_the_mock_never_has_the_credentials_of_before(environment: dict[str, str]) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    seen = json.loads(finished.stdout)
    assert seen["versions"] == [1, 1]
    assert len(seen["signed"]) == 2 * len(["CreateTable", "PutItem", "GetItem"])
    assert not [authorization for authorization in seen["signed"] if SECRET in authorization]
    assert seen["before"] == seen["after"] == SECRET


@mock_aws
def test_queries_find_pages_of_items_that_can_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    client = dynamodb_client()
    client.create_table(
        TableName="Orders",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": "customer_id", "AttributeType": "S"},
            {"AttributeName": "order_id", "AttributeType": "S"},
            {"AttributeName": "status", "AttributeType": "S"},
        ],
        KeySchema=[
            {"AttributeName": "customer_id", "KeyType": "HASH"},
            {"AttributeName": "order_id", "KeyType": "RANGE"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by_status",
                "KeySchema": [{"AttributeName": "status", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    )
    orders = VersionedTable(client, "Orders", "customer_id", "order_id")
    for number in range(12):
        orders.save({"customer_id": "c-1", "order_id": f"o-{number}", "status": "NEW", "pieces": number})
    first = begins_with("order_id", "o-1") & equals("customer_id", "c-1")
    stale = list(orders.query(first, page_size=2, matching=less_than("pieces", 11)))
    assert [order["order_id"] for order in stale] == ["o-1", "o-10"]
    for order in orders.query(first, descending=True, consistent=True):
        orders.save(order | {"status": "PAID"})
    with pytest.raises(Conflict, match="expected version 1, found version 2"):
        orders.save(stale[0] | {"pieces": 0})
    assert len(list(orders.query(equals("status", "PAID"), index="by_status"))) == 3
    assert len(list(orders.scan(page_size=5))) == 12
    after = orders.key("c-1", "o-7")
    assert [order["order_id"] for order in orders.query(equals("customer_id", "c-1"), after=after)] == ["o-8", "o-9"]
