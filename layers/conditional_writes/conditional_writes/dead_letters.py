"""Sends poison to the dead-letter queue at once, with the reason on it, instead of through all its deliveries."""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes.texts import printable

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

MAXIMUM_MESSAGES = 10
MAXIMUM_BYTES = 1_048_576
"""Of one SendMessageBatch: SQS's quotas."""
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
    results: list[Exception | None] = [None] * len(letters)
    for entries in _requests(letters):
        try:
            response = client.send_message_batch(QueueUrl=queue_url, Entries=entries)  # type: ignore[arg-type]
            failed = {entry["Id"]: entry["Code"] for entry in response.get("Failed", [])}
        except (BotoCoreError, ClientError) as error:
            failed = {entry["Id"]: repr(error) for entry in entries}
        for entry_id, code in failed.items():
            results[int(entry_id)] = NotSentError(f"the dead-letter queue didn't take it: {code}")
    return results


class NotSentError(Exception):
    """The dead-letter queue didn't take a message."""


def _requests(letters: Sequence[DeadLetter]) -> Iterator[list[dict[str, Any]]]:
    entries: list[dict[str, Any]] = []
    bytes_taken = 0
    for index, letter in enumerate(letters):
        entry = _entry(index, letter)
        bytes_needed = len(repr(entry).encode(errors="replace"))  # a little more than it takes
        if entries and (len(entries) == MAXIMUM_MESSAGES or bytes_taken + bytes_needed > MAXIMUM_BYTES):
            yield entries
            entries, bytes_taken = [], 0
        entries.append(entry)
        bytes_taken += bytes_needed
    if entries:
        yield entries


def _entry(index: int, letter: DeadLetter) -> dict[str, Any]:
    sent = letter.record.raw_event.get("messageAttributes", {})
    attributes = [(name, attribute) for name, attribute in sent.items() if name != "reason"]  # of an earlier time
    kept, left_out = attributes[: MAXIMUM_ATTRIBUTES - 1], attributes[MAXIMUM_ATTRIBUTES - 1 :]
    reason = printable(letter.reason[:MAXIMUM_REASON_CHARACTERS])[:MAXIMUM_REASON_CHARACTERS] + "".join(
        f" (its message attribute {name} had to make room for this one)" for name, _ in left_out
    )
    return {
        "Id": str(index),
        "MessageBody": letter.record.body,
        "MessageAttributes": {name: _attribute(attribute) for name, attribute in kept}
        | {"reason": {"DataType": "String", "StringValue": reason}},
    }


def _attribute(attribute: dict[str, Any]) -> dict[str, Any]:
    """A message attribute as an event has it, as SQS takes it."""
    if attribute.get("binaryValue") is not None:
        return {"DataType": attribute["dataType"], "BinaryValue": b64decode(attribute["binaryValue"])}
    return {"DataType": attribute["dataType"], "StringValue": attribute["stringValue"]}
