"""New tables for tests of the library, and the calls of a client."""

import itertools
from collections.abc import Mapping
from typing import Any

_numbers = itertools.count(1)
ALL: Mapping[str, Any] = {"ProjectionType": "ALL"}
ON_DEMAND: Mapping[str, Any] = {"BillingMode": "PAY_PER_REQUEST"}


def schema(*names: str) -> list[dict[str, str]]:
    """A key's partition key, and its sort key if it has one."""
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)]


def index(name: str, *key: str, projection: Mapping[str, Any] = ALL) -> dict[str, Any]:
    return {"IndexName": name, "KeySchema": schema(*key), "Projection": projection}


def definition(name: str, key: Mapping[str, str], types: Mapping[str, str] = {}, **indexes: Any) -> dict[str, Any]:
    """A table with this key, by the types of its names, and with indexes, whose further attributes have these types."""
    attributes = [{"AttributeName": each, "AttributeType": kind} for each, kind in {**key, **types}.items()]
    return {"TableName": name, "AttributeDefinitions": attributes, "KeySchema": schema(*key), **ON_DEMAND, **indexes}


def new_table(client: Any, key: Mapping[str, str], types: Mapping[str, str] = {}, **indexes: Any) -> str:
    """The name of a new table."""
    name = f"new-{next(_numbers)}"
    client.create_table(**definition(name, key, types, **indexes))
    return name


def calls_of(client: Any) -> list[str]:
    """The names of the client's calls from now on, as they are made."""
    calls: list[str] = []
    client.meta.events.register("before-call", lambda model, **_: calls.append(model.name))
    return calls
