"""Calls of tables: they are made, described and deleted at once."""

from collections.abc import Mapping
from typing import Any

from conditional_writes.testing import definitions
from conditional_writes.testing.database import Answer, Database
from conditional_writes.testing.errors import Refused, invalid, no_such_table
from conditional_writes.testing.tables import Table, in_use

MAXIMUM_TABLES_LISTED = 100


def create_table(database: Database, request: dict[str, Any]) -> Answer:
    definitions.check(request)
    if request["TableName"] in database.tables:
        raise in_use(request["TableName"])
    table = Table(request, database.clock.time())
    database.tables[table.name] = table
    return {"TableDescription": table.description("CREATING")}


def _named(database: Database, request: Mapping[str, Any]) -> Table:
    try:
        return database.table(request["TableName"])
    except Refused as refused:
        if refused.code == "ResourceNotFoundException":
            raise no_such_table(f"{refused.message}: Table: {request['TableName']} not found") from None
        raise


def describe_table(database: Database, request: dict[str, Any]) -> Answer:
    return {"Table": _named(database, request).description()}


def delete_table(database: Database, request: dict[str, Any]) -> Answer:
    table = _named(database, request)
    if table.is_protected:
        raise invalid(
            "Resource cannot be deleted as it is currently protected against deletion."
            " Disable deletion protection first."
        )
    del database.tables[table.name]
    return {"TableDescription": table.description("DELETING")}


def update_table(database: Database, request: dict[str, Any]) -> Answer:
    """A table's stream and its protection are changed. Raises NotImplementedError for other changes."""
    if others := request.keys() - {"TableName", "StreamSpecification", "DeletionProtectionEnabled"}:
        raise NotImplementedError(f"UpdateTable: {', '.join(sorted(others))}")
    if len(request) == 1:
        raise invalid(
            "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or"
            " SSESpecification or ReplicaUpdates is required"
        )
    table = _named(database, request)
    if stream := request.get("StreamSpecification"):
        _check_stream(table, stream)
    table.set_stream(stream, database.clock.time())
    table.is_protected = request.get("DeletionProtectionEnabled", table.is_protected)
    return {"TableDescription": table.description("UPDATING")}


def _check_stream(table: Table, specification: Mapping[str, Any]) -> None:
    definitions.check_stream(specification)
    if specification["StreamEnabled"] and table.view is not None:
        raise invalid(f"Table already has an enabled stream: TableName: {table.name}")
    if not specification["StreamEnabled"] and table.view is None:
        raise invalid(f"Table has no stream to disable: TableName: {table.name}")


def list_tables(database: Database, request: dict[str, Any]) -> Answer:
    names = sorted(database.tables)
    after, limit = request.get("ExclusiveStartTableName", ""), request.get("Limit", MAXIMUM_TABLES_LISTED)
    left = [name for name in names if name > after]
    answer: Answer = {"TableNames": left[:limit]}
    if len(left) > limit:
        answer["LastEvaluatedTableName"] = left[limit - 1]
    return answer


def update_time_to_live(database: Database, request: dict[str, Any]) -> Answer:
    table, specification = _named(database, request), request["TimeToLiveSpecification"]
    if table.time_to_live not in {None, specification["AttributeName"]}:
        raise invalid(
            f"TimeToLive is active on a different AttributeName: current AttributeName is {table.time_to_live}"
        )
    if specification["Enabled"] == (table.time_to_live is not None):
        raise invalid(f"TimeToLive is already {'enabled' if specification['Enabled'] else 'disabled'}")
    table.time_to_live = specification["AttributeName"] if specification["Enabled"] else None
    return {"TimeToLiveSpecification": specification}


def describe_time_to_live(database: Database, request: dict[str, Any]) -> Answer:
    table = _named(database, request)
    if table.time_to_live is None:
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
    return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": table.time_to_live}}
