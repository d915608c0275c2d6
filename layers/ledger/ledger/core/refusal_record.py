"""The record of a refusal: why a message is in the dead-letter queue, under the ids of the transaction that it has."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ledger.core.journal import EntryId
from ledger.core.values import attribute


class RefusalRecord(Struct, frozen=True):
    """`reason_code` and `reason` are those of the dead letter, `message_id` is the refused message's.

    `refused_at` is ISO 8601.
    """

    reason_code: str
    reason: str
    refused_at: str
    message_id: str


def refusal_item(entry_id: EntryId, refusal: RefusalRecord, expires_at: int) -> dict[str, Any]:
    """The refusal as an item. DynamoDB's TTL removes it after `expires_at`, in seconds since 1970."""
    fields = {name: getattr(refusal, name) for name in RefusalRecord.__struct_fields__}
    return entry_id._asdict() | fields | {"expires_at": expires_at}


def refusal_from_item(item: Mapping[str, Any]) -> RefusalRecord:
    """The refusal in an item. Raises KeyError, TypeError or ValueError for an item that is none."""
    return RefusalRecord(*(attribute(item, name, str) for name in RefusalRecord.__struct_fields__))
