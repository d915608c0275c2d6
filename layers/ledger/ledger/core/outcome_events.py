"""The events that tell of outcomes: one for each journal entry, and one for each message that was refused.

Consumers rely on their shape: docs/schemas has it, docs/events.md says how to use it.
"""

import contextlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn

import msgspec

from ledger.core.accounts import time_of, timestamp
from ledger.core.decoding import MOST_ID_CHARACTERS, OTHER_SIDE
from ledger.core.journal import JournalEntry, entry_from_item, entry_to_json, ids_in_legs
from ledger.core.rules import Status
from ledger.core.transaction_types import TRANSACTION_TYPES
from ledger.core.transaction_types.base import TransactionMessage
from ledger.core.transaction_types.legs import MOST_LEGS
from ledger.core.values import attribute

SOURCE = "teller"
SCHEMA_VERSION = 1
"""Of the details. It changes when a consumer of the version before would misread them."""
REJECTED = "TransactionRejected"
REFUSED = "TransactionRefused"
"""The detail types of the events that tell of a rejection, and of a message in the dead-letter queue."""


class Delivery(StrEnum):
    """A promise to consumers: how often an event comes, at least."""

    AT_LEAST_ONCE = "at_least_once"
    BEST_EFFORT = "best_effort"


class OutcomeEvent(NamedTuple):
    """`detail` is JSON, `time` the time at which the transaction was posted, or its message refused."""

    detail_type: str
    detail: str
    time: datetime


class NotAJournalEntry(Exception):
    """An item of the Journal table is no journal entry that can be told of.

    The text names the attribute, and what was expected. It has at most 300 characters.
    """


def outcome_event(item: Mapping[str, Any]) -> OutcomeEvent:
    """The event of a journal entry, which is the same each time it is published. Raises NotAJournalEntry."""
    try:
        entry = _entry(item)
        detail = {
            "schema_version": SCHEMA_VERSION,
            "id": f"{entry.account_id}#{entry.outcome.account_version}",
            "delivery": Delivery.AT_LEAST_ONCE,
            "reason": None,
            **entry_to_json(entry),
        }
        return OutcomeEvent(_detail_type(entry), _as_json(detail), _posting_time(entry.outcome.posted_at))
    except KeyError as error:
        raise NotAJournalEntry(f"{error.args[0]}: missing") from None
    except (TypeError, ValueError) as error:
        raise NotAJournalEntry(str(error)[:300]) from None
    except ArithmeticError:
        raise NotAJournalEntry("account_version, amount or another number: expected one of DynamoDB's") from None


def refusal_event(
    message_id: str,
    content: TransactionMessage | str | None,
    why: tuple[str, str],
    refused_at: datetime,
    details: Mapping[str, str] | None = None,
) -> OutcomeEvent:
    """The event of a dead message. `content` is the message, or its body if it couldn't be decoded.

    The event has the ids in the message as far as they can be read, and nothing else of it. If `content` is None, the
    ids aren't known. `why` has the reason code and the reason, `details` are the refusal's.
    """
    reason_code, reason = why
    detail = {
        "schema_version": SCHEMA_VERSION,
        "id": f"message#{message_id}",
        "delivery": Delivery.BEST_EFFORT,
        "message_id": message_id,
        "reason_code": reason_code,
        "reason": reason,
        "refused_at": timestamp(refused_at),
        **ids_in(content),
        **(details or {}),
    }
    return OutcomeEvent(REFUSED, _as_json(detail), refused_at)


def _as_json(detail: Mapping[str, Any]) -> str:
    """As short as possible: EventBridge charges each 64 KB. An escaped character takes up to three times its bytes."""
    return json.dumps(detail, ensure_ascii=False, separators=(",", ":"), default=_not_in_a_request)


def _entry(item: Mapping[str, Any]) -> JournalEntry:
    """The entry, in which consumers find what they rely on. Raises KeyError, TypeError or ValueError."""
    for name in ("account_id", "transaction_id"):
        attribute(item, name, str)
    entry = entry_from_item(dict(item))
    if entry.outcome.account_version < 1:
        raise ValueError("account_version: expected 1 or more, got 0")
    if (entry.outcome.status == Status.REJECTED) != bool(entry.outcome.reason):
        raise ValueError(f"reason: expected one if and only if the status is {Status.REJECTED}")
    return entry


def _not_in_a_request(value: object) -> NoReturn:
    raise TypeError(f"request: expected texts, booleans, lists and maps of texts, got {type(value).__name__}")


def _detail_type(entry: JournalEntry) -> str:
    match entry.outcome.status, entry.request.get("type"):
        case Status.REJECTED, _:
            return REJECTED
        case Status.POSTED, str(name) if name in TRANSACTION_TYPES:
            return TRANSACTION_TYPES[name].posted_event
        case Status.POSTED, name:
            raise ValueError(f"request.type: expected one of {', '.join(TRANSACTION_TYPES)}, got {name!r:.40}")
    raise ValueError(f"status: expected one of {', '.join(Status)}, got {entry.outcome.status!r:.40}")


def _posting_time(posted_at: str) -> datetime:
    with contextlib.suppress(OverflowError):
        if time := time_of(posted_at):
            return time.astimezone(UTC)
    raise ValueError(f"posted_at: expected a time with its offset, from year 1 to 9999 in UTC, got {posted_at!r:.40}")


class _Ids(msgspec.Struct):
    """The ids of any message: of any type, because the message is none that could be decoded."""

    transaction_id: Any = None
    account_id: Any = None
    from_account_id: Any = None
    to_account_id: Any = None
    legs: Any = None


_ids_decoder = msgspec.json.Decoder(_Ids)


def ids_in(content: TransactionMessage | str | None) -> dict[str, Any]:
    """`transaction_id`, or None; and `account_ids`, as many as there are, each once. As in `refusal_event`."""
    if isinstance(content, TransactionMessage):
        return {"transaction_id": content.transaction_id, "account_ids": list(content.account_ids)}
    try:
        found = _ids_decoder.decode(content or "{}")
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        found = _Ids()
    named = (found.account_id, found.from_account_id, found.to_account_id, *ids_in_legs(found.legs)[:MOST_LEGS])
    transaction_id = found.transaction_id if _is_id(found.transaction_id) else None
    return {"transaction_id": transaction_id, "account_ids": list(dict.fromkeys(filter(_is_id, named)))}


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= MOST_ID_CHARACTERS and not value.startswith(OTHER_SIDE)
