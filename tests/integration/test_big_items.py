"""Batches beside items that nearly fill DynamoDB's 400 kB: their memory and time, as on Lambda."""

import itertools
import json
import subprocess
import sys
from typing import Any

import pytest

from conditional_writes import Deadline, Item, Observed, Plan, Put, absent, dynamodb_client, key, write
from conditional_writes.core import steps
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.core.unconditional import found_by_table
from tests.support.big_profiles import FILLINGS, LATE, NEW, Batch, item, serving
from tests.support.bodies import payment
from tests.support.ledger import Ledger
from tests.support.reporting import Say
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import create_profiles_table

LAMBDA_MEGABYTES = 512
LAMBDA_CPUS = 512 / 1769
"""https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html: at 1,769 MB a function has one vCPU."""
PROFILES = 40


@pytest.mark.parametrize(
    ("filling", "as_of", "most_megabytes"),
    [
        ("numbers", LATE, LAMBDA_MEGABYTES / 2),
        *(
            pytest.param(*case, LAMBDA_MEGABYTES, marks=pytest.mark.exhaustive)
            for case in itertools.product(FILLINGS, (LATE, NEW))
        ),
    ],
)
def test_messages_of_40_big_profiles_are_done_in_512_mb_whatever_fills_them(
    filling: str, as_of: str, most_megabytes: float, say: Say
) -> None:
    """A message for each of the big profiles, and as many for healthy ones, in a process of their own."""
    with serving(filling) as (endpoint, asked):
        command = [sys.executable, "-m", "tests.support.big_profiles", endpoint.url, str(PROFILES), as_of]
        ran = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True)
    batch = Batch(**json.loads(ran.stdout.splitlines()[-1]))
    say(f"{batch.megabytes:.0f} MB at most, {batch.cpu_seconds / LAMBDA_CPUS:.0f} s of Lambda's")
    assert batch.returned == 0
    assert (filling, as_of) != ("numbers", LATE) or len(asked) == 2 * PROFILES
    assert batch.megabytes < most_megabytes


@pytest.mark.parametrize("number_of_writes", [1, 2])
def test_an_engines_large_item_is_read_without_botocore(
    dynamodb: Endpoint, number_of_writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, and in a transaction. If this fails after an update: mend `steps._take_refused_items`."""
    table = create_profiles_table(dynamodb, f"big-{number_of_writes}-{dynamodb.url.rpartition(':')[2].strip('/')}")
    dynamodb.client("dynamodb").put_item(TableName=table, Item=item("big", "maps of one name"))
    keys = [key(table, account_id=each) for each in ("big", "small")[:number_of_writes]]
    for name, value in dynamodb.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(steps, "from_dynamodb", None)

    def plan(observed: Observed) -> Plan[Item | None]:
        if observed:
            return Plan(observed[keys[0]])
        return Plan(None, [Put(each, {}, absent("account_id")) for each in keys])

    found = write(dynamodb_client(), plan, {}, Deadline.after(20)).result
    assert found == from_dynamodb(item("big", "maps of one name"))


def test_what_others_put_into_an_account_is_neither_read_nor_lost(aws: Endpoint, dynamodb: Endpoint) -> None:
    ledger = Ledger(aws, dynamodb)
    ledger.open("alice")
    table, alice = ledger.tables.accounts, {"account_id": {"S": "alice"}}
    opened = ledger.client.get_item(TableName=table, Key=alice)["Item"]
    ledger.client.put_item(TableName=table, Item=opened | to_dynamodb({"notes": "x" * 380_000}))
    reads: list[Any] = []
    ledger.worker.poster.client.meta.events.register(
        "after-call.dynamodb.BatchGetItem", lambda parsed, **_: reads.append(found_by_table(parsed))
    )
    ledger.post(payment())
    assert reads == [{table: [from_dynamodb(opened)]}]
    account = from_dynamodb(ledger.client.get_item(TableName=table, Key=alice)["Item"])
    assert (account["balance"], account["version"], len(account["notes"])) == (1, 2, 380_000)
