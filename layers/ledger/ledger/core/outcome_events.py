"""The events that tell of outcomes: one for each journal entry, and one for each message that was refused.

Consumers rely on their shape: docs/schemas has it, docs/events.md says how to use it.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from ledger.core.decoding import MOST_ID_CHARACTERS
from ledger.core.journal import JournalEntry, entry_from_item, outcome_to_json
from ledger.core.posting_time import time_of, timestamp
from ledger.core.rules import Status
from ledger.core.transaction_types import TRANSACTION_TYPES
from ledger.core.transaction_types.base import TransactionMessage

SOURCE = "teller"
SCHEMA_VERSION = 1
"""Of the details. It changes when a consumer of the version before would misread them."""
REJECTED = "TransactionRejected"
REFUSED = "TransactionRefused"
"""The detail types of the events that tell of a rejection, and of a message in the dead-letter queue."""


class Delivery(StrEnum):
    """What a consumer may rely on."""

    AT_LEAST_ONCE = "at_least_once"
    BEST_EFFORT = "best_effort"


class OutcomeEvent(NamedTuple):
    """`detail` is JSON, `time` the time at which the transaction was posted, or its message refused."""

    detail_type: str
    detail: str
    time: datetime


class NotAnEntry(Exception):
    """An item of the Journal table is no journal entry that can be told of. The text says why."""


def outcome_event(item: Mapping[str, Any]) -> OutcomeEvent:
    """The event of a journal entry, which is the same each time it is published. Raises NotAnEntry."""
    try:
        entry = entry_from_item(dict(item))
        detail = {
            "schema_version": SCHEMA_VERSION,
            "id": f"{entry.account_id}#{entry.outcome.account_version}",
            "delivery": Delivery.AT_LEAST_ONCE,
            "account_id": entry.account_id,
            "transaction_id": entry.transaction_id,
            **outcome_to_json(entry.outcome),
            "request": entry.request,
        }
        return OutcomeEvent(_detail_type(entry), json.dumps(detail), _posting_time(entry))
    except (KeyError, TypeError, ValueError) as error:
        raise NotAnEntry(f"{type(error).__name__}: {error}"[:300]) from None


def refusal_event(
    message_id: str, content: TransactionMessage | str | None, reason_code: str, reason: str, refused_at: datetime
) -> OutcomeEvent:
    """The event of a dead message. `content` is the message, or its body if it couldn't be decoded.

    The event has the ids in the message as far as they can be read, and nothing else of it. If `content` is None, the
    ids aren't known.
    """
    detail = {
        "schema_version": SCHEMA_VERSION,
        "id": f"message#{message_id}",
        "delivery": Delivery.BEST_EFFORT,
        "message_id": message_id,
        "reason_code": reason_code,
        "reason": reason,
        "refused_at": timestamp(refused_at),
        **_ids_in(content),
    }
    return OutcomeEvent(REFUSED, json.dumps(detail), refused_at)


def _detail_type(entry: JournalEntry) -> str:
    match entry.outcome.status:
        case Status.REJECTED:
            return REJECTED
        case Status.POSTED if kind := TRANSACTION_TYPES.get(entry.request["type"]):
            return kind.posted_event
        case Status.POSTED:
            raise ValueError(f"request.type: got {entry.request['type']!r:.40}, expected one of {_TYPES}")
    raise ValueError(f"status: got {entry.outcome.status!r:.40}, expected one of {', '.join(Status)}")


_TYPES = ", ".join(TRANSACTION_TYPES)


def _posting_time(entry: JournalEntry) -> datetime:
    time = time_of(entry.outcome.posted_at)
    if time is None:
        raise ValueError(f"posted_at: expected a time with its offset, got {entry.outcome.posted_at!r:.40}")
    return time


class _Ids(msgspec.Struct):
    """The ids of any message: of any type, because the message is none that could be decoded."""

    transaction_id: Any = None
    account_id: Any = None
    from_account_id: Any = None
    to_account_id: Any = None


_ids_decoder = msgspec.json.Decoder(_Ids)


def _ids_in(content: TransactionMessage | str | None) -> dict[str, Any]:
    """`transaction_id`, or None; and `account_ids`, as many as there are."""
    if isinstance(content, TransactionMessage):
        return {"transaction_id": content.transaction_id, "account_ids": list(content.account_ids)}
    try:
        found = _ids_decoder.decode(content or "{}")
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        found = _Ids()
    account_ids = filter(_is_id, (found.account_id, found.from_account_id, found.to_account_id))
    transaction_id = found.transaction_id if _is_id(found.transaction_id) else None
    return {"transaction_id": transaction_id, "account_ids": list(account_ids)}


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= MOST_ID_CHARACTERS
