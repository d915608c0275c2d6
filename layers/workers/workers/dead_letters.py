"""Sends dead messages to the dead-letter queue with their reasons. SQS would move them later, and without a reason."""

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from conditional_writes import Deadline
from workers.origins import ORIGIN, Origin, first_sending_of
from workers.queue_messages import Again, Dead, QueueMessage
from workers.sending import Message, send

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

MAXIMUM_ATTRIBUTES = 10
"""Of one message: SQS's quota."""
OWN_ATTRIBUTES = ("reason", "reason_code", ORIGIN)


def send_dead_letters(
    client: "SQSClient", queue_url: str, messages: Iterable[QueueMessage[Any]], request_id: str, deadline: Deadline
) -> None:
    """Sends each dead message: its body, its group, its attributes, and `reason`, `reason_code` and `origin`.

    The origin has the message's id, sender and sent time, which a letter would lose, and the id of the request that
    gives the message up, by which its log lines are found.

    If the dead-letter queue doesn't take a message before the deadline, its disposition becomes Again, so that the
    message stays on its own queue. If the function dies after the request, the message is delivered again, and its dead
    letter is sent twice.
    """
    dead = [(message, message.disposition) for message in messages if isinstance(message.disposition, Dead)]
    letters = [_dead_letter(message, disposition, request_id) for message, disposition in dead]
    failures = send(client, queue_url, letters, deadline)
    for (message, disposition), failure in zip(dead, failures, strict=True):
        if failure:
            why = f"the dead-letter queue didn't take it: {failure}"
            message.disposition = Again(f"{why}; {disposition.code}: {disposition.reason}")


def _dead_letter(message: QueueMessage[Any], disposition: Dead, request_id: str) -> Message:
    given = [(name, value) for name, value in message.attributes.items() if name not in OWN_ATTRIBUTES]
    room = MAXIMUM_ATTRIBUTES - len(OWN_ATTRIBUTES)
    left_out = ", ".join(name for name, _ in given[room:])
    reason = disposition.reason + (f" (left out, as SQS allows ten message attributes: {left_out})" if left_out else "")
    origin = Origin(message.sending, request_id, first_sending_of(message))
    own = reason_attributes(disposition.code, reason) | origin.as_attribute()
    attributes = {name: _as_sent(value) for name, value in given[:room]} | own
    return Message(message.body, attributes, message.group_id)


def reason_attributes(code: str, reason: str) -> dict[str, Any]:
    """The message attributes that say why a letter is dead, as SQS takes them."""
    return _texts({"reason": reason, "reason_code": str(code)})


def _texts(texts: Mapping[str, str]) -> dict[str, Any]:
    return {name: {"DataType": "String", "StringValue": text} for name, text in texts.items()}


def _as_sent(attribute: dict[str, Any]) -> dict[str, Any]:
    """`{"dataType": …, "stringValue": …}`, as in an event, as `{"DataType": …, "StringValue": …}`, as SQS takes it."""
    if attribute.get("binaryValue") is not None:
        return {"DataType": attribute["dataType"], "BinaryValue": b64decode(attribute["binaryValue"])}
    return {"DataType": attribute["dataType"], "StringValue": attribute["stringValue"]}
