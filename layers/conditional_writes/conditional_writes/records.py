"""What a record of an SQS event must have to be worked on. AWS always sends it: one without is none of SQS's."""

import binascii
import re
from base64 import b64decode
from typing import Any


class NotARecord(Exception):
    """The record isn't one of SQS's: the text says which field is wrong, and what was expected. Never what is in it."""


def check_record(record: dict[str, Any]) -> None:
    """Raises NotARecord where something is missing that is needed to work on the record and to settle it."""
    for field in ("receiptHandle", "body"):
        if not isinstance(record.get(field), str):
            raise NotARecord(f"{field}: expected a text")
    attributes = record.get("attributes")
    for name, (pattern, expected) in _ATTRIBUTES.items():
        value = attributes.get(name) if isinstance(attributes, dict) else None
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise NotARecord(f"attributes.{name}: expected {expected}")
    message_attributes = record.get("messageAttributes", {})
    if not isinstance(message_attributes, dict) or not all(map(_is_attribute, message_attributes.values())):
        raise NotARecord("messageAttributes: expected objects with a dataType and a stringValue or a binaryValue")


def is_named(record: Any) -> bool:
    """Whether Lambda can be told of this record apart from the others of its batch."""
    return isinstance(record, dict) and isinstance(record.get("messageId"), str) and record["messageId"] != ""


_ATTRIBUTES = {
    "ApproximateReceiveCount": (re.compile(r"[1-9][0-9]{0,5}"), 'a number of deliveries, such as "1"'),
    "SentTimestamp": (re.compile(r"[0-9]{1,14}"), 'milliseconds since 1970, such as "1772280000000"'),
}


def _is_attribute(attribute: Any) -> bool:
    match attribute:
        case {"dataType": str(), "binaryValue": str(encoded)}:
            try:
                b64decode(encoded, validate=True)
            except binascii.Error:
                return False
            return True
        case {"dataType": str(), "stringValue": str()}:
            return True
    return False
