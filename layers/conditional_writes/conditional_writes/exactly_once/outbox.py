"""A record's messages: one attribute, which commits with the function's writes, and which the stream carries on."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from conditional_writes.core.messages import Message, ToBus, ToQueue, ToTopic
from conditional_writes.core.own_attributes import WRITE_ID

MESSAGES = "messages"
"""The record's attribute: a JSON list with the service and the fields of each message."""
MESSAGE_ID = "message_id"
"""The field that a mapping is sent with."""

MAXIMUM_BYTES = 262_144 - 1_024
"""Of a body: what each service takes, whatever was configured, less than the id, the source and the type of an event.
https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html"""

_SERVICES: dict[str, type[ToQueue] | type[ToTopic] | type[ToBus]] = {"sqs": ToQueue, "sns": ToTopic, "events": ToBus}
_NAMES = {kind: service for service, kind in _SERVICES.items()}
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that SQS refuses: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"""

_GROUP_ID = re.compile(r"[!-~]{1,128}")
"""As SQS and SNS have it: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"""


class Outgoing(NamedTuple):
    """A message and its id. `text` is its body as it is sent."""

    message: Message
    message_id: str
    text: str

    @property
    def service(self) -> str:
        """As boto3 names its client."""
        return _NAMES[type(self.message)]


def text_of(function: str, messages: Sequence[Message]) -> str:
    """The attribute. Raises TypeError or ValueError for what no service takes; `function` is for their texts."""
    if isinstance(messages, tuple(_NAMES)) or not isinstance(messages, Sequence):
        raise TypeError(f"{function}: a plan's messages are {messages!r}, expected a list of messages")
    for number, message in enumerate(messages):
        path = f"{function}: messages[{number}]"
        if type(message) not in _NAMES:
            raise TypeError(f"{path}: {message!r}, expected ToQueue, ToTopic or ToBus")
        _check(message, path)
    return _json([[_NAMES[type(message)], *message] for message in messages])


def outgoing_in(image: dict[str, Any]) -> Iterator[Outgoing]:
    """The messages of a record, in DynamoDB's JSON. Raises errors of any kind for what is no such record.

    Their ids begin with the mark of the write that made the record. It is another one if the key was new again.
    """
    write_id = image[WRITE_ID]["S"]
    for number, (service, *fields) in enumerate(json.loads(image[MESSAGES]["S"])):
        message = _SERVICES[service](*fields)
        _check(message, f"messages[{number}]")
        message_id = f"{write_id}-{number}"
        body = _body(message)
        yield Outgoing(message, message_id, body if isinstance(body, str) else _json(body | {MESSAGE_ID: message_id}))


def _body(message: Message) -> Any:
    return message.detail if isinstance(message, ToBus) else message.body


def _check(message: Message, path: str) -> None:
    destination, field = message[0], message._fields[0]
    if not _is_text(destination):
        raise TypeError(f"{path}.{field}: {destination!r}, expected a text")
    if isinstance(message, ToBus):
        if not (_is_text(message.source) and _is_text(message.detail_type)) or message.source.startswith("aws."):
            raise ValueError(
                f"{path}: {message!r}: an event has a detail_type and a source, which is none of AWS's own"
            )
    elif message.group_id is None:
        if destination.endswith(".fifo"):
            raise ValueError(f"{path}: {destination} is FIFO, and its messages have a group_id")
    elif not isinstance(message.group_id, str) or not _GROUP_ID.fullmatch(message.group_id):
        raise ValueError(f"{path}.group_id: {message.group_id!r}, expected 1 to 128 of ASCII's characters, no blank")
    size = _checked_bytes(message, path)
    if size > MAXIMUM_BYTES:
        raise ValueError(
            f"{path}: {size:,} bytes, and a message has at most {MAXIMUM_BYTES:,}: write what is large into an item,"
            " and send its key"
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _checked_bytes(message: Message, path: str) -> int:
    """The size of the body, after a check of what is in it."""
    body = _body(message)
    if isinstance(body, str) and not isinstance(message, ToBus):
        if not body or _NO_CHARACTER.search(body):
            raise ValueError(f"{path}.body: the text is empty, or has a character that SQS refuses")
        return len(body.encode())
    if not isinstance(body, dict):
        raise TypeError(f"{path}: {body!r}, expected a dict{'' if isinstance(message, ToBus) else ', or a text'}")
    if MESSAGE_ID in body:
        raise ValueError(f"{path}: has a {MESSAGE_ID}, which is added: name it otherwise, or send a text")
    try:
        return len(_json(body))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{path}: {error}") from None


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=_refuse)


def _refuse(value: object) -> Any:
    raise TypeError(f"{value!r} is no JSON: send an int, or a text by str()")
