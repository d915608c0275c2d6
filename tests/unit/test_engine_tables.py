"""The strict engine: the tables, and the changes of tables, that it refuses, and in which words."""

from collections.abc import Iterator
from typing import Any

import pytest

from conditional_writes.testing import Engine
from tests.unit.test_engine import TABLE


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        yield engine


@pytest.fixture
def client(engine: Engine) -> Any:
    client = engine.client(parameter_validation=False)
    client.create_table(**TABLE)
    return client


SCHEMA, TYPES = TABLE["KeySchema"], TABLE["AttributeDefinitions"]
UNITS_OF_TABLE = {"ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}}


def index(*names: str, local: bool = False, name: str = "other", **fields: Any) -> dict[str, Any]:
    schema = [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)]
    defined = {"IndexName": name, "KeySchema": schema, "Projection": {"ProjectionType": "ALL"}} | fields
    return {"LocalSecondaryIndexes" if local else "GlobalSecondaryIndexes": [defined]}


REFUSED_TABLES = [
    ({"TableName": "or"}, "Table/index names must be between 3 and 255 characters long"),
    ({"TableName": "or ders"}, "may contain only the characters a-z, A-Z, 0-9, '_', '-', and '.'"),
    ({"KeySchema": []}, "'keySchema' failed to satisfy constraint: Member must have length greater than or equal to 1"),
    ({"KeySchema": SCHEMA[1:]}, "The first KeySchemaElement is not a HASH key type"),
    ({"KeySchema": [SCHEMA[0], SCHEMA[1] | {"KeyType": "HASH"}]}, "The second KeySchemaElement is not a RANGE"),
    ({"KeySchema": [SCHEMA[0], SCHEMA[0] | {"KeyType": "RANGE"}]}, "Both the Hash Key and the Range Key element"),
    ({"KeySchema": [*SCHEMA, {"AttributeName": "at", "KeyType": "RANGE"}]}, "length less than or equal to 2"),
    ({"AttributeDefinitions": TYPES[:1]}, "Some index key attribute have no definition"),
    ({"AttributeDefinitions": TYPES[:3]}, "Keys: [id, at], AttributeDefinitions: [id, seq, status]"),
    ({"AttributeDefinitions": [*TYPES, TYPES[0]]}, "Cannot have two attributes with the same name"),
    ({"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "BOOL"}]}, "value set: [S, N, B]"),
    (index("id"), "Some AttributeDefinitions are not used. AttributeDefinitions: [id, seq, status, at], keys used:"),
    (index("status", "at", name="by_at"), "Duplicate index name: by_at"),
    (index("status", "at", name="at"), "Member must have length greater than or equal to 3"),
    (index("status", "at", Projection={}), "Unknown ProjectionType: null"),
    (index("at", Projection={"ProjectionType": "INCLUDE"}), "is INCLUDE, but NonKeyAttributes is not specified"),
    (index("at", Projection={"ProjectionType": "ALL", "NonKeyAttributes": ["n"]}), "is ALL, but NonKeyAttributes is"),
    (index("at", **UNITS_OF_TABLE), "ProvisionedThroughput should not be specified for index: other"),
    (index("at") | UNITS_OF_TABLE | {"BillingMode": "PROVISIONED"}, "must be specified for index: other"),
    (index("at", local=True), "Index KeySchema does not have a range key for index: other"),
    (index("at", "id", local=True), "does not have the same leading hash key as table KeySchema for index: other"),
    ({"GlobalSecondaryIndexes": []}, "List of GlobalSecondaryIndexes is empty"),
    ({"LocalSecondaryIndexes": index("id", "at")["GlobalSecondaryIndexes"] * 6}, "exceeds per-table limit of 5"),
    (UNITS_OF_TABLE, "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER"),
    ({"BillingMode": "PROVISIONED"}, "must both be specified when BillingMode is PROVISIONED"),
    ({"BillingMode": "FREE"}, "Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]"),
    ({"StreamSpecification": {"StreamEnabled": True}}, "Stream ViewType must not be null or empty when"),
    ({"StreamSpecification": {"StreamEnabled": False, "StreamViewType": "KEYS_ONLY"}}, "StreamViewType was present"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED_TABLES, ids=lambda part: str(part)[:60])
def test_a_table_that_dynamodb_refuses_is_refused(client: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(client.exceptions.ClientError) as refused:
        client.create_table(**TABLE | {"TableName": "Others"} | change)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert message in refused.value.response["Error"]["Message"]


STREAM = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}


@pytest.mark.parametrize(
    ("call", "request_", "message"),
    [
        ("update_table", {}, "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled"),
        ("update_table", {"StreamSpecification": STREAM}, "Table already has an enabled stream: TableName: Orders"),
        (
            "update_table",
            {"TableName": "or", "StreamSpecification": STREAM},
            "Table/index names must be between 3 and 255 characters long",
        ),
        ("update_time_to_live", {"Enabled": True, "AttributeName": "at"}, "TimeToLive is already enabled"),
        ("update_time_to_live", {"Enabled": True, "AttributeName": "n"}, "current AttributeName is at"),
        ("update_time_to_live", {"Enabled": False, "AttributeName": "n"}, "current AttributeName is at"),
    ],
    ids=lambda part: str(part)[:60],
)
def test_a_change_of_a_table_that_dynamodb_refuses_is_refused(
    client: Any, call: str, request_: dict[str, Any], message: str
) -> None:
    if call == "update_time_to_live":
        enabled = {"Enabled": True, "AttributeName": "at"}
        client.update_time_to_live(TableName="Orders", TimeToLiveSpecification=enabled)
        request_ = {"TimeToLiveSpecification": request_}
    with pytest.raises(client.exceptions.ClientError) as refused:
        getattr(client, call)(**{"TableName": "Orders"} | request_)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert message in refused.value.response["Error"]["Message"]


def test_of_a_table_only_the_stream_and_the_protection_are_changed(client: Any) -> None:
    with pytest.raises(NotImplementedError, match="UpdateTable: BillingMode"):
        client.update_table(TableName="Orders", BillingMode="PAY_PER_REQUEST")
    client.update_table(TableName="Orders", StreamSpecification={"StreamEnabled": False})
    with pytest.raises(client.exceptions.ClientError, match="Table has no stream to disable"):
        client.update_table(TableName="Orders", StreamSpecification={"StreamEnabled": False})


def test_a_stream_that_is_made_anew_has_no_records_of_the_one_before(client: Any, engine: Engine) -> None:
    client.put_item(TableName="Orders", Item={"id": {"S": "a"}, "seq": {"N": "1"}})
    for specification in ({"StreamEnabled": False}, STREAM):
        client.update_table(TableName="Orders", StreamSpecification=specification)
    assert engine.stream_records("Orders") == []
    client.put_item(TableName="Orders", Item={"id": {"S": "a"}, "seq": {"N": "2"}})
    assert [record["dynamodb"]["Keys"]["seq"] for record in engine.stream_records("Orders")] == [{"N": "2"}]
