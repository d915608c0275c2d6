"""Calls of tables: they are made, described and deleted at once."""

from collections.abc import Mapping, Sequence
from typing import Any

from conditional_writes.testing import definitions
from conditional_writes.testing.database import Answer, Database
from conditional_writes.testing.errors import Refused, invalid, invalid_parameter, no_such_table
from conditional_writes.testing.tables import NO_THROUGHPUT, Table, in_use

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
    """Its stream, its protection, its billing, its global indexes."""
    if request.keys() <= {"TableName", "AttributeDefinitions"}:
        raise invalid(
            "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or"
            " SSESpecification or ReplicaUpdates is required"
        )
    table = _named(database, request)
    billing, throughput = request.get("BillingMode", table.billing), request.get("ProvisionedThroughput")
    _check_capacity(table, billing, throughput)
    if stream := request.get("StreamSpecification"):
        _check_stream(table, stream)
    _change_indexes(table, request.get("GlobalSecondaryIndexUpdates") or (), request.get("AttributeDefinitions") or ())
    table.set_stream(stream, database.clock.time())
    table.billing = billing
    if throughput or billing == "PAY_PER_REQUEST":
        table.throughput = throughput or NO_THROUGHPUT
    table.is_protected = request.get("DeletionProtectionEnabled", table.is_protected)
    return {"TableDescription": table.description("UPDATING")}


def _change_indexes(table: Table, changes: Sequence[Mapping[str, Any]], defined: Sequence[Mapping[str, str]]) -> None:
    if sum("Update" not in change for change in changes) > 1:
        raise Refused(
            "LimitExceededException",
            "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table",
        )
    for change in changes:
        if len(change) != 1:
            raise invalid_parameter(
                "One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create,"
                " GlobalSecondaryIndexUpdate.Delete must not be null"
            )
        [(kind, index)] = change.items()
        if kind == "Create":
            definitions.check_new_index(table, index, defined)
            table.add_index(index, {each["AttributeName"]: each["AttributeType"] for each in defined})
            continue
        changed = table.indexes.get(index["IndexName"])
        if changed is None or not changed.is_global:
            raise no_such_table()
        if kind == "Delete":
            table.remove_index(changed.name)
        else:
            changed.definition = changed.definition | index


def _check_capacity(table: Table, billing: str, throughput: Mapping[str, int] | None) -> None:
    if throughput and billing == "PAY_PER_REQUEST":
        raise invalid_parameter(definitions.PAID_PER_REQUEST)
    if billing != "PROVISIONED" or (billing == table.billing and not throughput):
        return
    if not throughput:
        raise invalid_parameter("ProvisionedThroughput must be specified when BillingMode is PROVISIONED")
    if throughput == table.throughput:
        units = " ".join(
            f"Current {kind} provisioned for the table: {number}. Requested {kind}: {number}."
            for kind, number in throughput.items()
        )
        raise invalid(
            "The provisioned throughput for the table will not change. The requested value equals the current value."
            f" {units} Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher"
            " limits."
        )


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
