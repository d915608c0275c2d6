"""The changed items in an event of a DynamoDB stream."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from conditional_writes import Item
from conditional_writes.core.items import from_dynamodb

INSERT, MODIFY, REMOVE = "INSERT", "MODIFY", "REMOVE"


class NotAStreamEvent(Exception):
    """The event isn't one of the table's stream. The text names the field, and never quotes its value."""


class StreamRecord(NamedTuple):
    """A change of an item, and the number by which Lambda is told of a failure.

    `change` is INSERT, MODIFY or REMOVE. The key and the images are in DynamoDB's JSON. An insert has a new image.
    """

    sequence_number: str
    change: str
    key: Mapping[str, Any]
    old_image: Mapping[str, Any] | None
    new_image: Mapping[str, Any] | None

    @property
    def item(self) -> Item:
        """The new item. An attribute is None if it can't be read: binary values in an event are others than boto3's."""
        return {name: _value(attribute) for name, attribute in (self.new_image or {}).items()}


def records_of(event: Any, table: str) -> list[StreamRecord]:
    """The records of Lambda's event, in the order of the table's stream. Raises NotAStreamEvent.

    Any caller of a function can write such an event: the check keeps out mistakes, and no one who means harm.
    """
    records = event.get("Records") if isinstance(event, dict) else None
    if not isinstance(records, list):
        raise NotAStreamEvent("Records: expected a list of a stream's records")
    return [_record(record, table, f"Records[{number}]") for number, record in enumerate(records)]


def _record(record: Any, table: str, name: str) -> StreamRecord:
    match record:
        case {"eventSource": "aws:dynamodb", "eventSourceARN": str(arn)} if f":table/{table}/stream/" in arn:
            pass
        case _:
            raise NotAStreamEvent(f"{name}: expected a record of the stream of the table {table}")
    match record:
        case {
            "eventName": "INSERT" | "MODIFY" | "REMOVE" as change,
            "dynamodb": {"SequenceNumber": str(number), "Keys": dict(key)} as images,
        } if number and (change != INSERT or isinstance(images.get("NewImage"), dict)):
            return StreamRecord(number, change, key, images.get("OldImage"), images.get("NewImage"))
    raise NotAStreamEvent(f"{name}: expected an eventName, a SequenceNumber and Keys, and of an INSERT a NewImage")


def _value(attribute: Any) -> Any:
    try:
        return from_dynamodb({"value": attribute})["value"]
    except Exception:  # noqa: BLE001 (an attribute of another program's may be anything)
        return None
