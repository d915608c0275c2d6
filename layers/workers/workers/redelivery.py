"""When a message comes again: after a failure, a wait or a kill each has a delay of its own. Ended ones are deleted."""

import itertools
import logging
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import Deadline, DeadlinePassed
from workers.parallel import in_parallel
from workers.queue_messages import QueueMessage, Waiting

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

logger = logging.getLogger(__name__)

MAXIMUM_ENTRIES = 10
"""Of one request to SQS: its quota."""
DELAYS_SECONDS = (2, 8, 32, 128, 512)
"""The most after the first failure, the second and so on. Then the longest delay."""
FLOOD = 50
"""So many messages that wait in one batch come from a flood of them."""
SKIPPED_BY_A_FLOOD = 3
"""Of these delays, the first ones. So new messages compete with one delivery of each of the flood's, and with few more:
docs/decisions/slow-lane.md
"""


def growing_delay_seconds(failures: int, longest: int) -> int:
    """2, 8, then at random 3 to 32, 9 to 128, 33 to 512 and 129 to `longest` seconds, then `longest`, up to a twentieth
    shorter.

    Messages that came together come back together twice: a batch decides them in the order in which they were sent.
    Then they scatter. If they didn't, and had taken all of a queue's places in flight, it would deliver nothing else
    for minutes: docs/decisions/slow-lane.md
    """
    steps = [*(min(delay, longest) for delay in DELAYS_SECONDS), longest]
    most = steps[min(failures, len(steps)) - 1]
    if failures <= 2:
        return most
    least = steps[failures - 3] + 1 if failures <= len(steps) else math.ceil(most * 19 / 20)
    return random.randint(min(least, most), most)


def delay_after_kill_seconds(invocation_seconds: int, longest: int) -> int:
    """The time until a message comes again if it kills its function: soon after that would have timed out."""
    return min(invocation_seconds + random.randint(1, 60), longest)


def delays_seconds_of(messages: Sequence[QueueMessage[Any]], longest: int) -> dict[QueueMessage[Any], int]:
    """The times until a batch's messages come again. They grow with the waits in a row, or with the deliveries."""
    waiting = {message for message in messages if isinstance(message.disposition, Waiting)}
    skipped = SKIPPED_BY_A_FLOOD if len(waiting) >= FLOOD else 0
    failures = {
        message: message.waits_in_a_row + skipped if message in waiting else message.receive_count
        for message in messages
    }
    return {message: growing_delay_seconds(failures[message], longest) for message in messages}


def delay_redelivery(
    client: "SQSClient", queue_url: str, delays_seconds: Mapping[QueueMessage[Any], int], deadline: Deadline
) -> None:
    """Sets the messages' visibility timeouts, counted from now. Ten messages a request, requests in parallel.

    If a request fails, or the deadline has passed, its messages come back after the queue's visibility timeout.
    """

    def change(messages: Sequence[QueueMessage[Any]]) -> None:
        entries = [
            {
                "Id": str(number),
                "ReceiptHandle": message.receipt_handle,
                "VisibilityTimeout": delays_seconds[message],
            }
            for number, message in enumerate(messages)
        ]
        client.change_message_visibility_batch(QueueUrl=queue_url, Entries=entries)  # type: ignore[arg-type]

    _in_requests(change, delays_seconds, deadline, "delay the redelivery of")


def acknowledge(client: "SQSClient", queue_url: str, messages: Iterable[QueueMessage[Any]], deadline: Deadline) -> None:
    """Deletes the messages from their queue, before the function returns. Ten messages a request, requests in parallel.

    If a request fails, or the deadline has passed, its messages are acknowledged by the function's return.
    """

    def delete(messages: Sequence[QueueMessage[Any]]) -> None:
        entries = [
            {"Id": str(number), "ReceiptHandle": message.receipt_handle} for number, message in enumerate(messages)
        ]
        client.delete_message_batch(QueueUrl=queue_url, Entries=entries)  # type: ignore[arg-type]

    _in_requests(delete, messages, deadline, "acknowledge")


def _in_requests(
    request: Callable[[Sequence[QueueMessage[Any]]], None],
    messages: Iterable[QueueMessage[Any]],
    deadline: Deadline,
    doing: str,
) -> None:
    def send(batch: Sequence[QueueMessage[Any]]) -> None:
        try:
            deadline.check(doing)
            request(batch)
        except (BotoCoreError, ClientError, DeadlinePassed):
            logger.warning("could not %s %d messages", doing, len(batch), exc_info=True)

    in_parallel(send, list(itertools.batched(messages, MAXIMUM_ENTRIES, strict=False)))
