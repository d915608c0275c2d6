"""The library inside of moto's mock_aws: clients use the mock and its credentials, whatever was made before."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
