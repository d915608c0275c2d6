"""The letters on a stack's dead-letter queues. What is received is hidden from others until it is given back."""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from conditional_writes.core.client import CONNECTIONS
from ledger.core.journal import ACCOUNT_FIELDS, ids_in_legs
from tools.teller.deployment import Deployment
from tools.teller.times import time_of_answer
from workers.dead_letters import OWN_ATTRIBUTES
from workers.origins import ORIGIN, Origin
from workers.parallel import in_parallel
from workers.queue_messages import Sending

HIDDEN_SECONDS = 60
"""If the command is killed, the letters that it has received are hidden for so long."""
POLL_SECONDS = 1
"""SQS asks all its servers for letters if it may wait."""
NO_CODE = "none"
"""Stands for the code of a letter that SQS or Lambda moved without a word."""
LONGEST_REASON = 60
"""Of a reason in general. What follows differs from message to message."""
MOST_ROUNDS_WITHOUT_NEW = 10
"""In a row. Letters may come faster than they are received."""


class QueueName(StrEnum):
    """The dead-letter queues, by what died."""

    TRANSACTIONS = "transactions"
    ADMINISTRATION = "administration"
    PROFILES = "profiles"
    OUTCOMES = "outcomes"
    JOBS = "jobs"
    BUS = "bus"

    @property
    def output(self) -> str:
        """The stack's output with the URL of the dead-letter queue."""
        return f"{self.capitalize()}DeadLetterQueueUrl"


_OF_TELLER, _OF_EVENTBRIDGE = ("reason_code", "reason"), ("ERROR_CODE", "ERROR_MESSAGE")
_ATTRIBUTES = {
    QueueName.TRANSACTIONS: [_OF_TELLER],
    QueueName.ADMINISTRATION: [_OF_TELLER],
    QueueName.PROFILES: [_OF_TELLER],
    QueueName.OUTCOMES: [_OF_TELLER],
    QueueName.JOBS: [_OF_TELLER, _OF_EVENTBRIDGE],  # those that EventBridge Scheduler couldn't send
    QueueName.BUS: [_OF_EVENTBRIDGE],
}
"""The names of the attributes with the code and the reason, by whoever gave the letter up."""


@dataclass(frozen=True)
class Letter:
    """A dead letter. `attributes` are its message attributes of type String. `message_id`, `sent_at` and `sent_by` are
    its own.

    `sent_at` is when the message died. If SQS itself moved the letter, all three are those of the message.
    `message_attributes` are all of them as SQS takes them. `group_id` is that of the message.
    """

    body: str
    attributes: Mapping[str, str]
    message_id: str
    sent_at: datetime
    queue: QueueName = QueueName.TRANSACTIONS
    receipt_handle: str = ""
    message_attributes: Mapping[str, Any] = field(default_factory=dict)
    group_id: str | None = None
    sent_by: str = ""
    moved_by_sqs: bool = False

    @property
    def code(self) -> str | None:
        """Why it is dead, for machines. None if SQS or Lambda moved it without a word: shown as NO_CODE."""
        return self._why(0)

    @property
    def reason(self) -> str | None:
        """Why it is dead, in a sentence."""
        return self._why(1)

    @property
    def origin(self) -> Origin | None:
        """None for a letter that Teller's queue functions didn't send, but one that SQS moved is the message itself.

        It may have an attribute of this name by its producer, with any text.
        """
        if self.moved_by_sqs:
            return Origin(Sending.of(self.sent_by, self.message_id, self.sent_at), request_id="")
        return Origin.from_text(self.attributes.get(ORIGIN))

    def as_json(self) -> dict[str, Any]:
        """`attributes` are those of its producer."""
        return {
            "queue": self.queue,
            "id": self.message_id,
            "code": self.code,
            "reason": self.reason,
            "dead_since": self.sent_at,
            "origin": self.origin and self.origin.as_json(),
            "attributes": {name: text for name, text in self.attributes.items() if name not in OWN_ATTRIBUTES},
            "body": self.body,
        }

    def _why(self, which: int) -> str | None:
        return next(filter(None, (self.attributes.get(names[which]) for names in _ATTRIBUTES[self.queue])), None)


def in_general(reason: str | None) -> str:
    """The reason without what differs from message to message. Empty if there is none."""
    if reason and "was used before" in reason:
        return "transaction_id: used before with another payload"
    _, names_an_item, problem = (reason or "").partition("': ")  # A profile's reason begins with its table and key.
    problem = re.sub("'[^']*'", "'…'", problem if names_an_item else reason or "")
    return problem if len(problem) <= LONGEST_REASON else f"{problem[: LONGEST_REASON - 1]}…"


def is_about(body: str, account_id: str, transaction_id: str) -> bool:
    """Whether a message is this transaction on this account. One that isn't JSON is, if it quotes both ids."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return all(json.dumps(name, ensure_ascii=False) in body for name in (account_id, transaction_id))
    if not isinstance(fields, dict) or fields.get("transaction_id") != transaction_id:
        return False
    return account_id in [*map(fields.get, ACCOUNT_FIELDS), *ids_in_legs(fields.get("legs"))]


def look(deployment: Deployment, queue: str) -> Iterator[Letter]:
    """The letters on the queue. At the end, or if the iteration ends early, they are visible to others again."""
    with Received(deployment, QueueName(queue)) as received:
        for letters in received.rounds():
            yield from letters


class Received:
    """Receives the letters that were on the queue at the beginning. At the end those that weren't deleted are visible.

    The visibility timeout is that of `hidden_seconds`.
    """

    def __init__(self, deployment: Deployment, queue: QueueName, hidden_seconds: int = HIDDEN_SECONDS) -> None:
        self._sqs, self._queue, self._url = deployment.client("sqs"), queue, deployment[queue.output]
        self._hidden_seconds = hidden_seconds
        self._receipt_handles: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        handles, self._receipt_handles = self._receipt_handles, {}
        self._change(self._sqs.change_message_visibility_batch, handles.values(), VisibilityTimeout=0)

    def rounds(self) -> Iterator[list[Letter]]:
        """Each letter once, in lists. Letters that come in meanwhile are left out."""
        seen: set[str] = set()
        without_new, receives, end = 0, 1, self._now()
        while without_new < MOST_ROUNDS_WITHOUT_NEW:
            found = self._receive(receives)
            if not found:
                return
            receives = CONNECTIONS if len(found) >= 10 * receives else 1
            new = {letter.message_id: letter for letter in found if letter.message_id not in seen}
            before = [letter for letter in new.values() if letter.sent_at < end]
            seen |= new.keys()
            without_new = 0 if before else without_new + 1
            if before:
                yield before

    def delete(self, letters: Iterable[Letter]) -> int:
        """Deletes letters for good. Returns the number of those that SQS didn't delete."""
        handles = [self._receipt_handles.pop(letter.message_id) for letter in letters]
        return self._change(self._sqs.delete_message_batch, handles)

    def _receive(self, receives: int) -> list[Letter]:
        """The letters of so many requests. Their receipt handles are kept at once: the command may be interrupted."""

        def receive(_: int) -> list[Letter]:
            response = self._sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=10,
                VisibilityTimeout=self._hidden_seconds,
                WaitTimeSeconds=POLL_SECONDS,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["SentTimestamp", "MessageGroupId", "SenderId", "DeadLetterQueueSourceArn"],
            )
            letters = [_letter(self._queue, message) for message in response.get("Messages", [])]
            self._receipt_handles.update((letter.message_id, letter.receipt_handle) for letter in letters)
            return letters

        return list(itertools.chain.from_iterable(in_parallel(receive, range(receives))))

    def _now(self) -> datetime:
        """By SQS's clock, up to a second later."""
        response = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        return time_of_answer(response) + timedelta(seconds=1)

    def _change(self, call: Callable[..., Any], handles: Iterable[str], **fields: Any) -> int:
        """Returns the number of failures."""

        def change(batch: tuple[str, ...]) -> int:
            entries = [{"Id": str(index), "ReceiptHandle": handle, **fields} for index, handle in enumerate(batch)]
            return len(call(QueueUrl=self._url, Entries=entries).get("Failed", []))

        return sum(in_parallel(change, list(itertools.batched(handles, 10, strict=False))))


def _letter(queue: QueueName, message: Mapping[str, Any]) -> Letter:
    given = message.get("MessageAttributes", {})
    values = ("DataType", "StringValue", "BinaryValue")
    return Letter(
        body=message["Body"],
        attributes={name: one["StringValue"] for name, one in given.items() if "StringValue" in one},
        message_id=message["MessageId"],
        sent_at=datetime.fromtimestamp(int(message["Attributes"]["SentTimestamp"]) / 1000, UTC),
        queue=queue,
        receipt_handle=message["ReceiptHandle"],
        message_attributes={
            name: {field: one[field] for field in values if one.get(field)} for name, one in given.items()
        },
        group_id=message["Attributes"].get("MessageGroupId"),
        sent_by=message["Attributes"].get("SenderId", ""),
        moved_by_sqs="DeadLetterQueueSourceArn" in message["Attributes"],
    )
