"""A table's definition is checked as DynamoDB does: its name, its keys, its indexes, its capacity, its stream."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from conditional_writes.testing.constraints import MUST_BE_THERE, fault, refusal
from conditional_writes.testing.errors import Refused, invalid, invalid_parameter
from conditional_writes.testing.tables import Keys

MAXIMUM_INDEXES = {"Local": 5, "Global": 20}
_NAME = re.compile(r"[a-zA-Z0-9_.-]{3,255}")

type Definition = Mapping[str, Any]


def check_name(name: str) -> None:
    """Raises Refused for what can't be a table's name."""
    if not _NAME.fullmatch(name):
        raise invalid(
            "Invalid table/index name.  Table/index names must be between 3 and 255 characters long, and may contain"
            " only the characters a-z, A-Z, 0-9, '_', '-', and '.'"
        )


def check(request: Definition) -> None:
    """Raises Refused if no table can be made so."""
    check_name(request["TableName"])
    for name, place in (("AttributeDefinitions", "attributeDefinitions"), ("KeySchema", "keySchema")):
        if name not in request:
            raise refusal([fault(None, place, MUST_BE_THERE)])
    _check_billing(request)
    if stream := request.get("StreamSpecification"):
        check_stream(stream)
    defined, schema = _names(request["AttributeDefinitions"]), request["KeySchema"]
    if len({*defined}) < len(defined):
        raise invalid("Cannot have two attributes with the same name")
    if len(schema) > len(defined):
        raise invalid("Invalid KeySchema: Some index key attribute have no definition")
    if len(schema) > 2:
        raise refusal([fault(schema, "keySchema", "Member must have length less than or equal to 2")])
    _check_schema(schema, defined)
    local, others = (_indexes(request, kind, defined) for kind in MAXIMUM_INDEXES)
    names = [index["IndexName"] for index in (*local, *others)]
    if len({*names}) < len(names):
        raise invalid_parameter(f"Duplicate index name: {next(each for each in names if names.count(each) > 1)}")
    for index in local:
        _check_local(index, Keys.of(schema))
    for index in others:
        _check_throughput(index, request)
    _check_all_used(defined, schema, [index["KeySchema"] for index in (*local, *others)])


def check_stream(specification: Definition) -> None:
    """Raises Refused for a stream without its view, or a view without a stream."""
    if specification["StreamEnabled"] and "StreamViewType" not in specification:
        raise invalid("Invalid StreamViewType: Stream ViewType must not be null or empty when enabling streams.")
    if not specification["StreamEnabled"] and "StreamViewType" in specification:
        raise invalid("Invalid StreamViewType: Stream StreamEnabled was false but a StreamViewType was present.")


def _check_billing(request: Definition) -> None:
    if request.get("BillingMode") == "PAY_PER_REQUEST":
        if "ProvisionedThroughput" in request:
            raise invalid_parameter(
                "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"
            )
    elif "ProvisionedThroughput" not in request:
        raise invalid_parameter(
            "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED"
        )


def _names(elements: Sequence[Mapping[str, str]]) -> list[str]:
    return [each["AttributeName"] for each in elements]


def _check_schema(schema: Sequence[Mapping[str, str]], defined: Sequence[str]) -> None:
    names = _names(schema)
    if not {*names} <= {*defined}:
        raise invalid_parameter(
            "Some index key attributes are not defined in AttributeDefinitions."
            f" Keys: [{', '.join(names)}], AttributeDefinitions: [{', '.join(defined)}]"
        )
    if len({*names}) < len(names):
        raise invalid("Both the Hash Key and the Range Key element in the KeySchema have the same name")
    for element, kind, place in zip(schema, ("HASH", "RANGE"), ("first", "second"), strict=False):
        if element["KeyType"] != kind:
            raise invalid(f"Invalid KeySchema: The {place} KeySchemaElement is not a {kind} key type")


def _indexes(request: Definition, kind: str, defined: Sequence[str]) -> Sequence[Definition]:
    parameter = f"{kind}SecondaryIndexes"
    if parameter not in request:
        return []
    indexes: Sequence[Definition] = request[parameter]
    if not indexes:
        raise invalid_parameter(f"List of {parameter} is empty")
    for index in indexes:
        _check_index(index, defined)
    if len(indexes) > MAXIMUM_INDEXES[kind]:
        raise _too_many(kind)
    return indexes


def _too_many(kind: str) -> Refused:
    if kind == "Local":
        return invalid_parameter("Number of LocalSecondaryIndexes exceeds per-table limit of 5")
    return invalid_parameter("GlobalSecondaryIndex count exceeds the per-table limit of 20")


def _check_index(index: Definition, defined: Sequence[str]) -> None:
    if len(index["KeySchema"]) > 2:
        raise NotImplementedError("this engine has indexes of one key attribute or of two")
    _check_schema(index["KeySchema"], defined)
    projection = index["Projection"]
    kind, has_some = projection.get("ProjectionType"), bool(projection.get("NonKeyAttributes"))
    if kind is None:
        raise invalid_parameter("Unknown ProjectionType: null")
    if has_some != (kind == "INCLUDE"):
        word = "specified" if has_some else "not specified"
        raise invalid_parameter(f"ProjectionType is {kind}, but NonKeyAttributes is {word}")


def _check_local(index: Definition, keys: Keys) -> None:
    of_index, name = Keys.of(index["KeySchema"]), index["IndexName"]
    if keys.range is None:
        raise invalid_parameter(
            "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex"
        )
    if of_index.range is None:
        raise invalid_parameter(f"Index KeySchema does not have a range key for index: {name}")
    if of_index.hash != keys.hash:
        raise invalid_parameter(
            f"Index KeySchema does not have the same leading hash key as table KeySchema for index: {name}."
            f" index hash key: {of_index.hash}, table hash key: {keys.hash}"
        )


def _check_throughput(index: Definition, request: Definition) -> None:
    is_on_demand, name = request.get("BillingMode") == "PAY_PER_REQUEST", index["IndexName"]
    if is_on_demand and "ProvisionedThroughput" in index:
        raise invalid_parameter(
            f"ProvisionedThroughput should not be specified for index: {name} when BillingMode is PAY_PER_REQUEST"
        )
    if not is_on_demand and "ProvisionedThroughput" not in index:
        raise invalid_parameter(f"ProvisionedThroughput must be specified for index: {name}")


def _check_all_used(
    defined: Sequence[str], schema: Sequence[Mapping[str, str]], of_indexes: Sequence[Sequence[Mapping[str, str]]]
) -> None:
    used = dict.fromkeys(name for each in (schema, *of_indexes) for name in _names(each))
    if not {*defined} - {*used}:
        return
    if not of_indexes:
        raise invalid_parameter(
            "Number of attributes in KeySchema does not exactly match number of attributes defined in"
            " AttributeDefinitions"
        )
    raise invalid_parameter(
        f"Some AttributeDefinitions are not used. AttributeDefinitions: [{', '.join(defined)}],"
        f" keys used: [{', '.join(used)}]"
    )
