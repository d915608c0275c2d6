"""The tables of template.yaml, for tests that need no stack."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.local_aws.server import Endpoint


@dataclass(frozen=True)
class Tables:
    accounts: str
    journal: str


def create_tables(endpoint: Endpoint, prefix: str) -> Tables:
    """Fresh tables; `prefix` keeps tests apart that share an engine."""
    client = endpoint.client("dynamodb")
    tables = Tables(f"{prefix}-accounts", f"{prefix}-journal")
    for name, keys in ((tables.accounts, ["account_id"]), (tables.journal, ["account_id", "transaction_id"])):
        client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
            KeySchema=[
                {"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)
            ],
        )
    client.get_waiter("table_exists").wait(TableName=tables.journal, WaiterConfig={"Delay": 1})
    return tables


def scan(endpoint: Endpoint, table: str) -> Iterator[dict[str, Any]]:
    """Every item of a table, as it is now, in DynamoDB's types."""
    for page in endpoint.client("dynamodb").get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
        yield from page["Items"]
