"""Sends messages to an SQS queue, in as few requests as it takes."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import Deadline, DeadlinePassed
from conditional_writes.core.client import new_client
from conditional_writes.core.packing import packed
from workers.parallel import in_parallel

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

MAXIMUM_MESSAGES = 10
MAXIMUM_BYTES = 1_048_576
"""Of one SendMessageBatch: SQS's quotas."""
TRIES = 3
LONGEST_PAUSE_SECONDS = 0.5
UNANSWERED = "the answer doesn't say that it was taken"
"""As in the page of a proxy, which botocore reads as an answer without any message."""


def sqs_client() -> "SQSClient":
    """As quickly made as DynamoDB's, and retries as that one does."""
    client: SQSClient = new_client("sqs")
    return client


class Message(NamedTuple):
    """A body, and message attributes as SQS takes them: `{name: {"DataType": "String", "StringValue": …}}`.

    SQS shares its deliveries fairly among the messages of different `group_id`s.
    """

    body: str
    attributes: Mapping[str, Any] = {}
    group_id: str | None = None


class NotSent(Exception):
    """A queue refused one or more messages: the text says why."""


def send_all(client: "SQSClient", queue_url: str, messages: Sequence[Message], deadline: Deadline) -> None:
    """Sends all messages. Those that the queue refuses are sent again, three times in all, until the deadline.

    A message may arrive twice, as on every standard queue. Raises NotSent if the queue still refuses some messages; the
    others were sent.
    """
    for attempt in range(TRIES):
        failures = send(client, queue_url, messages, deadline)
        failed = [(message, failure) for message, failure in zip(messages, failures, strict=True) if failure]
        if not failed:
            return
        messages = [message for message, _ in failed]
        if attempt < TRIES - 1:
            time.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS))
    raise NotSent(f"{len(failed)} messages weren't sent in {TRIES} tries: {failed[0][1]}")


def send(client: "SQSClient", queue_url: str, messages: Sequence[Message], deadline: Deadline) -> list[str | None]:
    """Sends each message once, in parallel requests. Returns, in their order, None or the reason of the refusal.

    If a request gets no answer, or one that doesn't name a message, that counts as refused, although the queue may have
    taken it. No request is sent after the deadline.
    """

    def failed(entries: list[dict[str, Any]]) -> dict[str, str]:
        try:
            deadline.check("sending")
            response = client.send_message_batch(QueueUrl=queue_url, Entries=entries)  # type: ignore[arg-type]
        except (BotoCoreError, ClientError, DeadlinePassed) as error:
            return {entry["Id"]: repr(error) for entry in entries}
        taken = {entry["Id"] for entry in response.get("Successful", [])}
        codes = {entry["Id"]: entry["Code"] for entry in response.get("Failed", [])}
        return {entry["Id"]: codes.get(entry["Id"], UNANSWERED) for entry in entries if entry["Id"] not in taken}

    failures: list[str | None] = [None] * len(messages)
    for refused in in_parallel(failed, list(_requests(messages))):
        for entry_id, failure in refused.items():
            failures[int(entry_id)] = failure
    return failures


def _requests(messages: Sequence[Message]) -> Iterator[list[dict[str, Any]]]:
    """The entries of each SendMessageBatch. An entry's Id is the index of its message."""
    entries = (_entry(index, message) for index, message in enumerate(messages))
    return packed(entries, _bytes_of, MAXIMUM_MESSAGES, MAXIMUM_BYTES)


def _entry(index: int, message: Message) -> dict[str, Any]:
    attributes = {"MessageAttributes": message.attributes} if message.attributes else {}
    group = {"MessageGroupId": message.group_id} if message.group_id else {}
    return {"Id": str(index), "MessageBody": message.body, **attributes, **group}


def _bytes_of(entry: dict[str, Any]) -> int:
    """A little more than SQS counts."""
    return len(repr(entry).encode())
