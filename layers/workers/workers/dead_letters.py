"""Sends a dead message to the dead-letter queue at once, with its reason, instead of through all its deliveries."""

from base64 import b64decode
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from workers.queue_messages import Again, Dead, QueueMessage
from workers.sending import Message, NotSent, send

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

MAXIMUM_ATTRIBUTES = 10
"""Of one message: SQS's quota."""
OWN_ATTRIBUTES = ("reason", "reason_code")


def send_dead_letters(client: "SQSClient", queue_url: str, messages: Iterable[QueueMessage[Any]]) -> None:
    """Sends the body and attributes of each dead message, with `reason` and `reason_code` as attributes more.

    If the dead-letter queue doesn't take a message, its disposition becomes Again: it must stay on its own queue then.
    If the function dies before the message is deleted there, it is sent again.
    """
    dead = [(message, message.disposition) for message in messages if isinstance(message.disposition, Dead)]
    failures = send(client, queue_url, [_dead_letter(message, disposition) for message, disposition in dead])
    for (message, disposition), failure in zip(dead, failures, strict=True):
        if failure:
            error = NotSent(f"the dead-letter queue didn't take it: {failure}")
            message.disposition = Again(disposition.code, f"{error}; {disposition.reason}", error=error)


def _dead_letter(message: QueueMessage[Any], disposition: Dead) -> Message:
    given = [(name, value) for name, value in message.attributes.items() if name not in OWN_ATTRIBUTES]
    room = MAXIMUM_ATTRIBUTES - len(OWN_ATTRIBUTES)
    reason = disposition.reason + "".join(
        f" (its message attribute {name} had to make room for this one)" for name, _ in given[room:]
    )
    return Message(
        message.body,
        {name: _as_sent(value) for name, value in given[:room]}
        | {"reason": _text(reason), "reason_code": _text(disposition.code)},
    )


def _text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": str(value)}


def _as_sent(attribute: dict[str, Any]) -> dict[str, Any]:
    """A message attribute, spelled in an event, as SQS takes it."""
    if attribute.get("binaryValue") is not None:
        return {"DataType": attribute["dataType"], "BinaryValue": b64decode(attribute["binaryValue"])}
    return {"DataType": attribute["dataType"], "StringValue": attribute["stringValue"]}
