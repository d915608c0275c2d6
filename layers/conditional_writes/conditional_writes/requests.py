"""The writes of a plan, as requests to DynamoDB."""

import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from conditional_writes.conditions import AttributePath, Condition
from conditional_writes.items import Item, Key, serialized, to_dynamodb
from conditional_writes.own_attributes import VERSION_ID, WRITE_ID

MAXIMUM_WRITES = 100
"""Items in one TransactWriteItems: DynamoDB's limit."""
MAXIMUM_CHARACTERS = 4_096
"""Of an expression: DynamoDB's limit."""


class Expected(NamedTuple):
    """The version that a write assumes, and the attribute that has it. None: there is no item; 0: it has no version.

    `version_id` is the write that made it, where that is known: an item that was deleted and made anew may have come to
    the same version.
    """

    version: int | None
    attribute: str
    version_id: str | None = None


class Put(NamedTuple):
    """Puts the whole item, where the condition holds. `expected` where it is a version that the item begins with."""

    key: Key
    item: Item
    condition: Condition | None = None
    expected: Expected | None = None


class Update(NamedTuple):
    """Sets, removes and adds to these attributes, or elements of their maps; leaves all else as it is.

    `added` has numbers by attribute. Sent alone, they may be added twice, where the answer is lost and another writes
    before the second try; in a transaction they aren't. `expected` where `values` has the item's next version.
    `return_new`: sent alone, the answer has the item as it is afterwards.
    """

    key: Key
    values: Mapping[Any, Any]
    condition: Condition | None = None
    removed: Collection[AttributePath] = ()
    added: Mapping[str, int | Decimal] = {}
    expected: Expected | None = None
    return_new: bool = False


class Delete(NamedTuple):
    """Deletes the item, where the condition holds."""

    key: Key
    condition: Condition | None = None
    expected: Expected | None = None


class Check(NamedTuple):
    """Changes nothing: the writes of its transaction take effect only where the condition holds."""

    key: Key
    condition: Condition
    expected: Expected | None = None


type Write = Put | Update | Delete | Check


def as_request(write: Write, write_id: str) -> dict[str, Any]:
    """The write as parameters of its operation, alone or in a TransactWriteItems.

    Every item that is written carries `write_id`, in an attribute of that name, or, where the write makes a version, in
    `version_id`: it is how a write tells its own work from another's.
    """
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    request: dict[str, Any] = {"TableName": write.key.table}
    condition = _condition(write, write_id)
    if condition is not None:
        request["ConditionExpression"] = _expression(condition, names, values)
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    match write:
        case Put(item=item):
            request["Item"] = to_dynamodb(item | dict(write.key.attributes) | {_mark(write): write_id})
        case Update():
            request["Key"] = to_dynamodb(dict(write.key.attributes))
            request["UpdateExpression"] = _update(write, write_id, names, values)
        case Delete() | Check():
            request["Key"] = to_dynamodb(dict(write.key.attributes))
    if names:
        request["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in names.items()}
    if values:
        request["ExpressionAttributeValues"] = values
    return request


def _condition(write: Write, write_id: str) -> Condition | None:
    """An addition, sent again after a lost response, would count twice: it asserts that the last write isn't it."""
    if not isinstance(write, Update) or not write.added:
        return write.condition
    not_yet = Condition("attribute_not_exists({}) OR {} <> []", (_mark(write), _mark(write)), (write_id,))
    return write.condition & not_yet if write.condition is not None else not_yet


def _update(update: Update, write_id: str, names: dict[str, str], values: dict[str, Any]) -> str:
    assigned = [
        f"{_name(path, names)}={_value(path, value, values)}"
        for path, value in {**update.values, _mark(update): write_id}.items()
    ]
    clauses = ["SET " + ",".join(assigned)]
    if isinstance(update.removed, str):
        raise TypeError(f"{update.key}: removed: expected names, got one text, {update.removed!r}: put it in a list")
    if update.removed:
        clauses.append("REMOVE " + ",".join(_name(path, names) for path in update.removed))
    if update.added:
        added = [f"{_name(name, names)} {_value(name, number, values)}" for name, number in update.added.items()]
        clauses.append("ADD " + ",".join(added))
    expression = " ".join(clauses)
    if len(expression) > MAXIMUM_CHARACTERS:
        raise ValueError(
            f"{update.key}: {len(assigned) + len(update.removed)} changes at once: DynamoDB's expressions have room for"
            " some 400. Put the item whole, or change it in steps"
        )
    return expression


def _mark(write: Put | Update) -> str:
    return VERSION_ID if write.expected else WRITE_ID


def _expression(condition: Condition, names: dict[str, str], values: dict[str, Any]) -> str:
    paths = iter([_name(path, names) for path in condition.names])
    found = iter([_value("a condition's value", value, values) for value in condition.values])
    try:
        return _PLACEHOLDER.sub(lambda hole: next(paths if hole[0] == "{}" else found), condition.template)
    except StopIteration:
        raise ValueError(
            f"a condition with more {{}} or [] than it has names or values for: {condition.template!r},"
            f" {condition.names}, {len(condition.values)} values"
        ) from None


_PLACEHOLDER = re.compile(r"\{\}|\[\]")


def _name(path: AttributePath, names: dict[str, str]) -> str:
    """`#0`, or `#0.#1` for a path; each name once, however often it is needed."""
    parts = (path,) if isinstance(path, str) else path
    return ".".join(names.setdefault(part, f"#{len(names)}") for part in parts)


def _value(path: AttributePath, value: Any, values: dict[str, Any]) -> str:
    placeholder = f":{len(values)}"
    values[placeholder] = serialized(path if isinstance(path, str) else ".".join(path), value)
    return placeholder
