"""Sends poison to the dead-letter queue at once, with the reason on it, instead of through all its deliveries."""

from base64 import b64decode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from conditional_writes.sending import Message, NotSent, send
from conditional_writes.texts import printable

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

MAXIMUM_ATTRIBUTES = 10
"""Of one message: SQS's quota."""
MAXIMUM_REASON_CHARACTERS = 1_000


class DeadLetter(NamedTuple):
    """A record that can't be processed. `reason` is for a person: which field, and what was expected."""

    record: SQSRecord
    reason: str


def send_dead_letters(client: "SQSClient", queue_url: str, letters: Sequence[DeadLetter]) -> list[Exception | None]:
    """Sends each record's body and attributes, with `reason` as one attribute more. As many together as SQS takes.

    For each letter None, or why it couldn't be sent: it must stay on its own queue then. One whose function dies
    before the record is deleted there is sent again.
    """
    failures = send(client, queue_url, [_message(letter) for letter in letters])
    return [NotSent(f"the dead-letter queue didn't take it: {failure}") if failure else None for failure in failures]


def _message(letter: DeadLetter) -> Message:
    sent = letter.record.raw_event.get("messageAttributes", {})
    attributes = [(name, attribute) for name, attribute in sent.items() if name != "reason"]  # of an earlier time
    kept, left_out = attributes[: MAXIMUM_ATTRIBUTES - 1], attributes[MAXIMUM_ATTRIBUTES - 1 :]
    reason = printable(letter.reason[:MAXIMUM_REASON_CHARACTERS])[:MAXIMUM_REASON_CHARACTERS] + "".join(
        f" (its message attribute {name} had to make room for this one)" for name, _ in left_out
    )
    return Message(
        letter.record.body,
        {name: _attribute(attribute) for name, attribute in kept}
        | {"reason": {"DataType": "String", "StringValue": reason}},
    )


def _attribute(attribute: dict[str, Any]) -> dict[str, Any]:
    """A message attribute as an event has it, as SQS takes it."""
    if attribute.get("binaryValue") is not None:
        return {"DataType": attribute["dataType"], "BinaryValue": b64decode(attribute["binaryValue"])}
    return {"DataType": attribute["dataType"], "StringValue": attribute["stringValue"]}
