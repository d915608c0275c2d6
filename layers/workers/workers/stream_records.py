"""The new items in an event of a DynamoDB stream."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from conditional_writes import Item
from conditional_writes.items import from_dynamodb


class NotAStreamEvent(Exception):
    """The event isn't one of a stream with new images. The text names the field, and never quotes its value."""


class StreamRecord(NamedTuple):
    """A new item in DynamoDB's JSON, and the number by which Lambda is told of a failure."""

    sequence_number: str
    new_image: Mapping[str, Any]

    @property
    def item(self) -> Item:
        """The new item. An attribute is None if it can't be read: binary values in an event are others than boto3's."""
        return {name: _value(attribute) for name, attribute in self.new_image.items()}


def records_of(event: Any) -> list[StreamRecord]:
    """The records of Lambda's event, in the stream's order. Raises NotAStreamEvent."""
    records = event.get("Records") if isinstance(event, dict) else None
    if not isinstance(records, list):
        raise NotAStreamEvent("Records: expected a list of a stream's records")
    return [_record(record, f"Records[{number}]") for number, record in enumerate(records)]


def _record(record: Any, name: str) -> StreamRecord:
    match record:
        case {"dynamodb": {"SequenceNumber": str(number), "NewImage": dict(image)}} if number:
            return StreamRecord(number, image)
    raise NotAStreamEvent(f"{name}.dynamodb: expected a SequenceNumber and a NewImage")


def _value(attribute: Any) -> Any:
    try:
        return from_dynamodb({"value": attribute})["value"]
    except Exception:  # noqa: BLE001 (an attribute of another program's may be anything)
        return None
