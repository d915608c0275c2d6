"""Items and primary keys, in Python's types and in DynamoDB's."""

from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Underflow
from typing import Any, NamedTuple

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

type Item = dict[str, Any]
"""Attribute names to values: str, bytes, bool, None, int, Decimal, and lists, sets and maps of them."""

EXACT = Context(prec=38, Emin=-130, Emax=125, traps=[Inexact, InvalidOperation, Overflow, Underflow])
"""Arithmetic on DynamoDB's numbers: 38 digits, 1E-130 to 9.9E+125. Raises where Python's default rounds."""

_serializer = TypeSerializer()
_deserializer = TypeDeserializer()


class Key(NamedTuple):
    """Which item: its table and its primary key. Make one with `key`."""

    table: str
    attributes: tuple[tuple[str, str | int | Decimal | bytes], ...]


def key(table: str, /, **attributes: str | int | Decimal | bytes) -> Key:
    """The primary key of an item: `key("Orders", order_id="o-1")`."""
    return Key(table, tuple(sorted(attributes.items())))


def to_dynamodb(item: Item) -> dict[str, Any]:
    """`{"name": value}` as `{"name": {"S": value}}`. Raises TypeError for floats: DynamoDB's numbers are exact."""
    return {name: _serializer.serialize(value) for name, value in item.items()}


def from_dynamodb(attributes: dict[str, Any]) -> Item:
    """`{"name": {"S": value}}` as `{"name": value}`; every number comes back as a Decimal."""
    return {name: _deserializer.deserialize(value) for name, value in attributes.items()}
