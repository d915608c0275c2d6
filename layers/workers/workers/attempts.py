"""The table of attempts: what earlier deliveries of a message left behind, so that each message comes to an end.

A message that kills its function takes its batch along, and SQS counts the kill like any other delivery. So before a
suspect is processed, its attempt is written down as begun. When the attempt ends, however it ends, that is cleared. An
attempt that was begun and never ended was a kill. docs/decisions/attempts.md
"""

import itertools
import logging
import random
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from conditional_writes import MAXIMUM_WRITES, Deadline, Key, Observed, Plan, Put, key, write
from conditional_writes.core.unconditional import MAXIMUM_KEYS, read_once
from workers.queue_messages import UNTROUBLED, Again, Attempt, QueueMessage, Waiting

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

logger = logging.getLogger(__name__)

MAXIMUM_BEGUN = 5
"""Attempts in a row that never ended, after which the message is dead. Kills from outside hardly strike it so often.

The deliveries before FIRST_SUSPECT_DELIVERY leave no record. So a message kills its function seven times at most, and
is dead at its eighth delivery.
"""
END_TRIES = 10
"""Of the write that ends attempts."""
LONGEST_PAUSE_SECONDS = 1.0
"""Between these tries."""
NOT_BEGUN = "its attempt couldn't be begun: "
"""The beginning of a reason."""
RECORD_SECONDS = 14 * 24 * 3600
"""How long a record stays, until DynamoDB's TTL removes it: twice as long as its message stays on the queue."""


class Attempts(NamedTuple):
    """The table of attempts, and the client that reads and writes it.

    An item has the key `message_id`, the fields of `Attempt`, and `expires_at`. An untroubled message has no item, or
    zeros in it.
    """

    client: "DynamoDBClient"
    table: str

    def read(self, messages: Sequence[QueueMessage[Any]], deadline: Deadline) -> None:
        """Sets each message's `attempt`, or if that can't be read its disposition. One request per 100 messages."""
        for batch in itertools.batched(messages, MAXIMUM_KEYS, strict=False):
            try:
                found = read_once(self.client, map(self._key, batch), deadline)
            except Exception as error:  # noqa: BLE001 (it is about these messages alone)
                _return(batch, error)
                continue
            for message in batch:
                try:
                    message.attempt = self._attempt(message, found)
                except Exception as error:  # noqa: BLE001 (an item may be anything)
                    _return([message], error)
                message.begun_before = message.attempt.begun

    def begin(self, messages: Sequence[QueueMessage[Any]], deadline: Deadline) -> None:
        """Writes an attempt of each message down, before it is processed. One request per 100 messages.

        Raises DeadlinePassed and botocore's errors: then no message may be processed. The attempts may be begun then.
        """
        for message in messages:
            message.attempt = message.attempt._replace(begun=message.begun_before + 1)
        self._write([self._put(message, message.attempt) for message in messages], deadline)

    def end(self, messages: Iterable[QueueMessage[Any]], deadline: Deadline) -> None:
        """Writes down what the dispositions leave behind, if anything changes. One request per 100 messages.

        An attempt whose end isn't written down counts as a kill. So if DynamoDB fails, the end is written again, up to
        ten times until the deadline: while most calls fail, no healthy message may be given up for it. If the last
        write fails, too, a log line says so.
        """
        after = [(message, _attempt_after(message)) for message in messages]
        # Never deleted: whoever may begin an attempt may end it.
        writes = [self._put(message, attempt) for message, attempt in after if attempt != message.attempt]
        for tries_left in reversed(range(END_TRIES)):
            try:
                self._write(writes, deadline)
            except Exception as error:  # what was processed must be reported to SQS, whatever the error is
                pause_seconds = random.uniform(0, LONGEST_PAUSE_SECONDS)
                if not tries_left or deadline.remaining_seconds <= pause_seconds:
                    logger.warning("could not write down the end of attempts", exc_info=error)
                    return
                time.sleep(pause_seconds)
            else:
                return

    def _write(self, writes: Iterable[Put], deadline: Deadline) -> None:
        by_key = {each.key: each for each in writes}  # SQS may deliver a message twice in one batch
        for batch in itertools.batched(by_key.values(), MAXIMUM_WRITES, strict=False):
            write(self.client, lambda _: Plan(None, batch), {}, deadline)  # noqa: B023 (called before the next turn)

    def _put(self, message: QueueMessage[Any], attempt: Attempt) -> Put:
        return Put(self._key(message), attempt._asdict() | {"expires_at": int(time.time()) + RECORD_SECONDS})

    def _attempt(self, message: QueueMessage[Any], found: Observed) -> Attempt:
        if self._key(message) not in found:
            raise TimeoutError("DynamoDB left it unread")
        item = found[self._key(message)]
        return Attempt(*(int(item[field]) for field in Attempt._fields)) if item else UNTROUBLED

    def _key(self, message: QueueMessage[Any]) -> Key:
        return key(self.table, message_id=message.message_id)


def _return(messages: Iterable[QueueMessage[Any]], error: Exception) -> None:
    not_begun = Again.after(error, NOT_BEGUN)
    for message in messages:
        message.disposition = not_begun


def _attempt_after(message: QueueMessage[Any]) -> Attempt:
    match message.disposition:
        case Waiting():
            return Attempt(waits=message.waits_in_a_row, waited_at=message.receive_count)
        case Again():
            return message.attempt._replace(begun=0 if message.was_processed else message.begun_before)
        case _:
            return UNTROUBLED
