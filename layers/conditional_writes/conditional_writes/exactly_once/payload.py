"""Hashes of a request's fields, by which a record knows its request again. The record has no values."""

import base64
import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from conditional_writes.core.items import Key

HASH_BYTES = 16
MAXIMUM_FIELDS = 50
"""Each hash takes some 30 bytes of the record, and of its write units."""
MAXIMUM_NAME_CHARACTERS = 255
"""A record has no room for longer names of fields: such a payload is hashed as a whole."""
WHOLE = "payload"
"""The name of a payload that is hashed as a whole: it is a text, has more fields, or names that no record can hold."""


class PayloadChanged(Exception):
    """The key was used before, with another payload. Nothing was written.

    `key` is the record's. `fields` has the names of the payload's fields that differ.
    """

    def __init__(self, key: Key, fields: tuple[str, ...]) -> None:
        super().__init__(key, fields)
        self.key, self.fields = key, fields

    def __str__(self) -> str:
        return f"{self.key}: was used before, with another {', '.join(self.fields)}"


def field_hashes(record_id: str, payload: Any) -> dict[str, str]:
    """The hash of each top-level field of a payload, or of the whole payload if it has no fields or too many.

    The hash of a value differs from record to record, so that equal values of two requests aren't seen to be equal.

    Raises TypeError for a payload of a type that has no canonical form.
    """
    fields = fields_of(payload)
    if not isinstance(fields, Mapping) or len(fields) > MAXIMUM_FIELDS or not all(map(_is_name, fields)):
        return {WHOLE: _hash([record_id, None, _canonical(WHOLE, payload)])}
    return {name: _hash([record_id, name, _canonical(name, value)]) for name, value in fields.items()}


def different(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the fields that differ, or that only one of the two has."""
    return tuple(sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name)))


def _is_name(name: Any) -> bool:
    """Whether a record can hold the name. A text that UTF-8 can't hold isn't printable."""
    return isinstance(name, str) and 0 < len(name) <= MAXIMUM_NAME_CHARACTERS and name.isprintable()


def _hash(canonical: Any) -> str:
    digest = hashlib.sha256(json.dumps(canonical).encode()).digest()
    return base64.urlsafe_b64encode(digest[:HASH_BYTES]).rstrip(b"=").decode()


def fields_of(value: Any) -> Any:
    """A dataclass, a msgspec struct or a pydantic model as a dict of its fields; any other value as it is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(type(value), "__struct_fields__"):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if hasattr(type(value), "model_fields"):
        return dict(value)
    return value


def _canonical(path: str, value: Any) -> Any:
    """The value in JSON's types. What is the same in DynamoDB has the same form: 1 and 1.0, a list and a tuple.

    Dates, times, UUIDs and enums are as their texts are; of times with an offset, the same moments are the same. All
    lists begin with the name of a type, so no two different values have the same form.
    """
    value = _text_or(fields_of(value))
    match value:
        case None | bool() | str():
            return value
        case int() | float() | Decimal():
            return ["number", _number(Decimal(float.__repr__(value) if isinstance(value, float) else value))]
        case bytes() | bytearray():
            return ["bytes", bytes(value).hex()]
        case Mapping() as fields:
            pairs = [
                [_canonical(path, name), _canonical(f"{path}.{name}", element)] for name, element in fields.items()
            ]
            return ["map", *sorted(pairs, key=json.dumps)]
        case list() | tuple():
            return ["list", *(_canonical(f"{path}[{index}]", element) for index, element in enumerate(value))]
        case set() | frozenset():
            return ["set", *sorted((_canonical(path, element) for element in value), key=json.dumps)]
    raise TypeError(
        f"{path}: a {type(value).__qualname__} can't be told from another: let `payload` return plain values"
    )


def _text_or(value: Any) -> Any:
    """The text of a time, a date or a UUID, and of the value of an enum's member; any other value as it is."""
    match value:
        case enum.Enum():
            return _text_or(value.value)
        case datetime() if value.tzinfo is not None:
            try:
                return value.astimezone(UTC).isoformat()
            except OverflowError:  # the first or the last day of all
                return value.isoformat()
        case date() | time():
            return value.isoformat()
        case UUID():
            return str(value)
    return value


def _number(number: Decimal) -> str:
    """Digits and exponent, without zeros at either end: 1, 1.0 and 1.00 have one form. Exact: nothing is rounded."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return str(number)  # not a number, or infinite
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    return f"{'-' * sign}{significant}E{exponent + len(text) - len(significant)}" if text else "0"
