"""The writes of a plan, as requests to DynamoDB."""

from typing import Any, NamedTuple

from conditional_writes.conditions import Condition
from conditional_writes.items import Item, Key, to_dynamodb

MAXIMUM_WRITES = 100
"""Items in one TransactWriteItems: DynamoDB's limit."""


class Put(NamedTuple):
    """Puts the whole item, where the condition holds."""

    key: Key
    item: Item
    condition: Condition


class Update(NamedTuple):
    """Sets these attributes and leaves all others as they are, where the condition holds."""

    key: Key
    values: Item
    condition: Condition


type Write = Put | Update


def as_request(write: Write, write_id: str) -> dict[str, Any]:
    """The write as parameters of PutItem or UpdateItem, alone or in a TransactWriteItems.

    Every item that is written carries `write_id`: it is how a write tells its own work from another's.
    """
    names: dict[str, str] = {}
    values: Item = {}
    condition = _expression(write.condition, names, values)
    request: dict[str, Any] = {
        "TableName": write.key.table,
        "ConditionExpression": condition,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    match write:
        case Put(item=item):
            request["Item"] = to_dynamodb(item | dict(write.key.attributes) | {"write_id": write_id})
        case Update(values=changed):
            request["Key"] = to_dynamodb(dict(write.key.attributes))
            request["UpdateExpression"] = "SET " + ", ".join(
                f"{_name(name, names)} = {_value(value, values)}"
                for name, value in (changed | {"write_id": write_id}).items()
            )
    request["ExpressionAttributeNames"] = names
    if values:
        request["ExpressionAttributeValues"] = to_dynamodb(values)
    return request


def _expression(condition: Condition, names: dict[str, str], values: Item) -> str:
    expression = condition.template
    for name in condition.names:
        expression = expression.replace("{}", _name(name, names), 1)
    for value in condition.values:
        expression = expression.replace("[]", _value(value, values), 1)
    return expression


def _name(name: str, names: dict[str, str]) -> str:
    placeholder = f"#{len(names)}"
    names[placeholder] = name
    return placeholder


def _value(value: Any, values: Item) -> str:
    placeholder = f":{len(values)}"
    values[placeholder] = value
    return placeholder
