"""The tables of template.yaml, for tests that need no stack."""

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tools.local_aws.server import Endpoint, shared_client


@dataclass(frozen=True)
class Tables:
    """The names of the ledger's tables. `checkpoints` is that of the nightly reconciliation."""

    accounts: str
    journal: str
    checkpoints: str = ""
    reversals: str = ""
    refusals: str = ""


def _key_schema(*keys: str) -> list[dict[str, str]]:
    return [{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)]


BY_VERSION = {
    "IndexName": "by_version",
    "KeySchema": _key_schema("account_id", "account_version"),
    "Projection": {"ProjectionType": "ALL"},
}
"""The index of the Journal table."""


def create_tables(endpoint: Endpoint, prefix: str) -> Tables:
    """Creates the tables of the ledger and of its reconciliation. `prefix` separates tests that share an engine."""
    return Tables(
        _create_table(endpoint, f"{prefix}-accounts", "account_id"),
        _create_table(endpoint, f"{prefix}-journal", "account_id", "transaction_id", indexes=[BY_VERSION]),
        _create_table(endpoint, f"{prefix}-checkpoints", "kind", "account_hash"),
        _create_table(endpoint, f"{prefix}-reversals", "account_id", "transaction_id"),
        _create_table(endpoint, f"{prefix}-refusals", "account_id", "transaction_id"),
    )


def create_profiles_table(endpoint: Endpoint, prefix: str) -> str:
    """Creates a Profiles table and returns its name."""
    return _create_table(endpoint, f"{prefix}-profiles", "account_id")


def create_locks_table(endpoint: Endpoint, prefix: str) -> str:
    """Creates a Locks table and returns its name."""
    return _create_table(endpoint, f"{prefix}-locks", "lock_key")


def create_attempts_table(endpoint: Endpoint, prefix: str) -> str:
    """Creates an Attempts table and returns its name."""
    return _create_table(endpoint, f"{prefix}-attempts", "message_id")


def _create_table(endpoint: Endpoint, name: str, *keys: str, indexes: Sequence[dict[str, Any]] = ()) -> str:
    client = shared_client(endpoint, "dynamodb")
    types = dict.fromkeys(keys, "S") | ({"account_version": "N"} if indexes else {})
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in types.items()],
        KeySchema=_key_schema(*keys),
        **({"GlobalSecondaryIndexes": list(indexes)} if indexes else {}),
    )
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    return name


def scan(endpoint: Endpoint, table: str) -> Iterator[dict[str, Any]]:
    """All items of a table, in DynamoDB's JSON, by a consistent scan."""
    for page in (
        shared_client(endpoint, "dynamodb").get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
    ):
        yield from page["Items"]


def refill(endpoint: Endpoint, table: str, items: Sequence[dict[str, Any]] = ()) -> None:
    """Replaces a table's items with these, in DynamoDB's JSON. Faster than a new table."""
    names = _key_names(endpoint, table)
    present, wanted = list(scan(endpoint, table)), [[item[name] for name in names] for item in items]
    keys = [{name: item[name] for name in names} for item in present]
    deleted = [{"DeleteRequest": {"Key": key}} for key in keys if list(key.values()) not in wanted]
    put = [{"PutRequest": {"Item": item}} for item in items if item not in present]
    for batch in itertools.batched([*deleted, *put], 25, strict=False):
        response = shared_client(endpoint, "dynamodb").batch_write_item(RequestItems={table: list(batch)})
        assert not response["UnprocessedItems"]


@functools.cache
def _key_names(endpoint: Endpoint, table: str) -> list[str]:
    description = shared_client(endpoint, "dynamodb").describe_table(TableName=table)
    return [key["AttributeName"] for key in description["Table"]["KeySchema"]]
