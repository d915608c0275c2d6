"""A message is one object from its receipt to its end. Its disposition says what becomes of it."""

import binascii
import logging
import re
import traceback
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, Self

logger = logging.getLogger(__name__)


class Loggable(Protocol):
    """The content of a message, or its effect. `log_fields` names it in a log line, without the payload."""

    @property
    def log_fields(self) -> Mapping[str, object]: ...


class Effect(Loggable, Protocol):
    """The effect of a message that is done. `label` is the text of its log line."""

    @property
    def label(self) -> str: ...


class Done(NamedTuple):
    """The message has had its effect, now or before. It leaves the queue."""

    effect: Effect


class Waiting(NamedTuple):
    """The message goes back to its queue: it refers to something that another message must bring first.

    `reason` says what is missing, in a sentence for people. A message that waits for too long is dead with `code`.
    """

    code: StrEnum
    reason: str


class ErrorText(NamedTuple):
    """An error's type and its traceback, as texts.

    The error itself would keep its frames, and they the items that were read in them: 400 KB each.
    """

    name: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Self:
        text = "".join(traceback.format_exception(error, limit=-MAXIMUM_FRAMES)).rstrip()
        half = MAXIMUM_TRACEBACK_CHARACTERS // 2
        return cls(type(error).__name__, text if len(text) <= 2 * half else f"{text[:half]}…{text[-half:]}")


class Again(NamedTuple):
    """The message goes back to its queue: AWS couldn't do something, too many were ahead, or an error was raised.

    `reason` says why, in a sentence for people. No number of deliveries makes the message dead. `error` is that which
    was raised, if one was.
    """

    reason: str
    error: ErrorText | None = None

    @classmethod
    def after(cls, error: BaseException, doing: str = "") -> Self:
        """Of an error that was raised. `doing` is the beginning of the reason."""
        try:
            why = f"KeyError: {error}" if isinstance(error, KeyError) else str(error) or repr(error)
        except Exception:  # noqa: BLE001 (an error of any type has a text, or its name must do)
            why = type(error).__name__
        return cls(f"{doing}{why}"[:MAXIMUM_REASON_CHARACTERS], ErrorText.of(error))


class PerhapsDone(Again):
    """As Again, and a write of the message may have been made: AWS didn't say. After any other Again none was."""


class Dead(NamedTuple):
    """The message goes to the dead-letter queue: `code` says why to machines, `reason` in a sentence to people.

    `details` are further facts for machines, by their names.
    """

    code: StrEnum
    reason: str
    details: Mapping[str, str] = {}


type Disposition = Done | Waiting | Again | Dead


class Attempt(NamedTuple):
    """The record of a message's earlier deliveries.

    `begun` counts attempts to process it that were begun and never ended: each killed its function. `waits` counts the
    deliveries in a row that found it waiting; `waited_at` is the receive count of the last of them.
    """

    begun: int = 0
    waits: int = 0
    waited_at: int = 0


UNTROUBLED = Attempt()
FIRST_SUSPECT_DELIVERY = 3
"""A function that was killed once was killed by anything. From this delivery on, the message may have done it."""

MAXIMUM_REASON_CHARACTERS = 1_000
MAXIMUM_TRACEBACK_CHARACTERS = 8_000
MAXIMUM_FRAMES = 30
"""The innermost frames of a traceback, of which an endless recursion has a thousand."""


def printable_reason(text: str) -> str:
    """The text without control characters and lone surrogates, which no message attribute may have: they are escaped.

    At most 1,000 characters.
    """
    return printable(text[:MAXIMUM_REASON_CHARACTERS])[:MAXIMUM_REASON_CHARACTERS]


def printable(text: str) -> str:
    """The text on one line: what isn't printable is escaped, such as line breaks and marks of the writing direction."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class NotAnSqsRecord(Exception):
    """A record lacks a field that SQS always sends. The text names the field, and never quotes its value."""


class NotAnSqsEvent(Exception):
    """The event has no list of records, or a record without an id, so Lambda can't be told which messages failed."""


class Sending(NamedTuple):
    """The sending of a message: the principal's id as SQS reports it, the message's id, and when, in ISO 8601."""

    sent_by: str
    message_id: str
    sent_at: str

    @classmethod
    def of(cls, sent_by: str, message_id: str, sent_at: datetime) -> Self:
        return cls(sent_by, message_id, sent_at.isoformat(timespec="milliseconds"))

    @classmethod
    def from_json(cls, fields: Any) -> Self | None:
        """None for anything else than the JSON of a sending."""
        match fields:
            case {"sent_by": str(by), "message_id": str(message_id), "sent_at": str(at)}:
                if not (AWS_ID.fullmatch(by) and AWS_ID.fullmatch(message_id)):
                    return None
                try:
                    return cls.of(by, message_id, datetime.fromisoformat(at).astimezone(UTC))
                except (ValueError, OverflowError):
                    pass
        return None


AWS_ID = re.compile(r"[!-~]{1,256}")
"""Of a message, or of a principal as IAM has it: of a role `AROA…:session`, of a user `AIDA…`."""


@dataclass(slots=True, eq=False)
class QueueMessage[Content: Loggable]:
    """A message of an SQS batch.

    `receive_count` counts its deliveries, this one included. `sent_by` is the id of the principal that sent it, as SQS
    reports it: of a role `AROA…:session`. `attributes` has its message attributes, as in the event:
    `{name: {"dataType": …, "stringValue": …}}`. `group_id` is None if its producer gave it none. `content` is None
    until the body is decoded, or if it can't be. `disposition` is None until the message was handled. `attempt` is what
    the table of attempts has of it, or may have; `begun_before` is what it had before this delivery. A message
    `was_processed` if this delivery got to it.
    """

    message_id: str
    receipt_handle: str
    body: str
    receive_count: int
    sent_at: datetime
    attributes: Mapping[str, Any]
    sent_by: str = ""
    group_id: str | None = None
    content: Content | None = None
    disposition: Disposition | None = None
    attempt: Attempt = UNTROUBLED
    begun_before: int = 0
    was_processed: bool = False

    @property
    def decoded(self) -> Content:
        """The content of a decoded message. Raises AssertionError for any other."""
        assert self.content is not None, f"{self.message_id} hasn't been decoded"
        return self.content

    @property
    def sending(self) -> Sending:
        return Sending.of(self.sent_by, self.message_id, self.sent_at)

    @property
    def goes_back(self) -> bool:
        return isinstance(self.disposition, Waiting | Again)

    @property
    def delivered_before(self) -> bool:
        return self.receive_count > 1

    @property
    def is_suspect(self) -> bool:
        """Whether it may have killed its function: an attempt never ended, or it wasn't just waiting before."""
        delivered_twice_before = self.receive_count >= FIRST_SUSPECT_DELIVERY
        return self.attempt.begun > 0 or (delivered_twice_before and self.attempt.waited_at != self.receive_count - 1)

    @property
    def waits_in_a_row(self) -> int:
        """Deliveries in a row that found the message waiting, this one included."""
        return self.attempt.waits + 1 if self.attempt.waited_at == self.receive_count - 1 else 1

    @property
    def age_seconds(self) -> float:
        return (datetime.now(UTC) - self.sent_at).total_seconds()


def messages_of(event: Any) -> tuple[list[QueueMessage[Any]], list[str]]:
    """The event's messages, and the ids of its unreadable records: those stay on the queue. Raises NotAnSqsEvent."""
    records = event.get("Records") if isinstance(event, dict) else None
    if not isinstance(records, list):
        raise NotAnSqsEvent("Records: expected a list of SQS's records")
    message_ids = [message_id_of(record, number) for number, record in enumerate(records)]
    messages, unreadable_ids = [], []
    for message_id, record in zip(message_ids, records, strict=True):
        try:
            messages.append(message_from_record(record))
        except NotAnSqsRecord as problem:
            logger.error("message %s is left on its queue: %s", message_id, problem)  # noqa: TRY400 (it is an answer)
            unreadable_ids.append(message_id)
    return messages, unreadable_ids


def message_id_of(record: Any, number: int) -> str:
    """The record's messageId, by which Lambda is told of failures. Raises NotAnSqsEvent, which names the `number`."""
    if isinstance(record, dict) and isinstance(record.get("messageId"), str) and record["messageId"]:
        message_id: str = record["messageId"]
        return message_id
    raise NotAnSqsEvent(f"Records[{number}]: expected a record of SQS's, with its messageId")


def message_from_record(record: dict[str, Any]) -> QueueMessage[Any]:
    """The message in a record of an event. Raises NotAnSqsRecord."""
    for field in ("receiptHandle", "body"):
        if not isinstance(record.get(field), str):
            raise NotAnSqsRecord(f"{field}: expected a text")
    attributes = record.get("attributes")
    for name, (pattern, expected) in _SYSTEM_ATTRIBUTES.items():
        value = attributes.get(name) if isinstance(attributes, dict) else None
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise NotAnSqsRecord(f"attributes.{name}: expected {expected}")
    message_attributes = record.get("messageAttributes", {})
    if not isinstance(message_attributes, dict) or not all(map(_is_attribute, message_attributes.values())):
        raise NotAnSqsRecord("messageAttributes: expected objects with a dataType and a stringValue or a binaryValue")
    return QueueMessage(
        message_id=record["messageId"],
        receipt_handle=record["receiptHandle"],
        body=record["body"],
        receive_count=int(record["attributes"]["ApproximateReceiveCount"]),
        sent_at=_EPOCH + timedelta(milliseconds=int(record["attributes"]["SentTimestamp"])),
        attributes=message_attributes,
        sent_by=record["attributes"]["SenderId"],
        group_id=record["attributes"].get("MessageGroupId"),
    )


_EPOCH = datetime.fromtimestamp(0, UTC)
_SYSTEM_ATTRIBUTES = {
    "ApproximateReceiveCount": (re.compile(r"[1-9][0-9]{0,5}"), 'a number of deliveries, such as "1"'),
    "SenderId": (AWS_ID, 'the id of a principal, such as "AROAEXAMPLE:payments"'),
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
