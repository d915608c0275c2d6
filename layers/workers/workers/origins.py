"""The origin of a dead letter: the sending of the message that died, which the letter would lose.

A letter has it as a message attribute, and so has the message that is sent when the letter is redriven. Anyone who may
send a message can write such an attribute: it is worth as much as its sender, whom SQS reports beside it.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from workers.queue_messages import QueueMessage, Sending

ORIGIN = "origin"
"""The message attribute."""


class Origin(NamedTuple):
    """`sending` is that of the message that died, `request_id` that of the invocation that gave it up.

    If that message was a letter that had been redriven, `first` is the sending of the first message.
    """

    sending: Sending
    request_id: str
    first: Sending | None = None

    @classmethod
    def from_text(cls, text: str | None) -> Self | None:
        """None for a text that is no origin's: producers may have an attribute of its name."""
        try:
            fields = json.loads(text or "")
        except (ValueError, RecursionError):
            return None
        sending = Sending.from_json(fields)
        if sending is None or not isinstance(fields.get("request_id"), str):
            return None
        return cls(sending, fields["request_id"], Sending.from_json(fields.get("first")))

    @classmethod
    def in_attributes(cls, attributes: Mapping[str, Any]) -> Self | None:
        """That of a redriven letter, in the message attributes of an event."""
        return cls.from_text(attributes[ORIGIN].get("stringValue")) if ORIGIN in attributes else None

    def as_json(self) -> dict[str, Any]:
        first = {"first": self.first._asdict()} if self.first else {}
        return self.sending._asdict() | {"request_id": self.request_id} | first

    def as_attribute(self) -> dict[str, Any]:
        """The message attribute, as SQS takes it."""
        return {ORIGIN: {"DataType": "String", "StringValue": json.dumps(self.as_json())}}

    @property
    def first_sending(self) -> Sending:
        return self.first or self.sending


def first_sending_of(message: QueueMessage[Any]) -> Sending | None:
    """If the message is a redriven letter, the sending of the first message, as its sender says."""
    origin = Origin.in_attributes(message.attributes)
    return origin and origin.first_sending
