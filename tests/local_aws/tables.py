"""The tables of template.yaml, for tests that need no stack."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.local_aws.server import Endpoint, reader


@dataclass(frozen=True)
class Tables:
    accounts: str
    journal: str


def create_tables(endpoint: Endpoint, prefix: str) -> Tables:
    """Fresh tables for accounts and their journal; `prefix` keeps tests apart that share an engine."""
    return Tables(
        _create_table(endpoint, f"{prefix}-accounts", "account_id"),
        _create_table(endpoint, f"{prefix}-journal", "account_id", "transaction_id"),
    )


def create_profiles_table(endpoint: Endpoint, prefix: str) -> str:
    """A fresh table for profiles: its name."""
    return _create_table(endpoint, f"{prefix}-profiles", "account_id")


def create_locks_table(endpoint: Endpoint, prefix: str) -> str:
    """A fresh table for locks: its name."""
    return _create_table(endpoint, f"{prefix}-locks", "lock_key")


def _create_table(endpoint: Endpoint, name: str, *keys: str) -> str:
    client = endpoint.client("dynamodb")
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)],
    )
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    return name


def scan(endpoint: Endpoint, table: str) -> Iterator[dict[str, Any]]:
    """Every item of a table, as it is now, in DynamoDB's types."""
    for page in reader(endpoint, "dynamodb").get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
        yield from page["Items"]
