"""Delays redelivery: a message comes back after its own delay, instead of after the queue's visibility timeout."""

import itertools
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from workers.queue_messages import Again, QueueMessage

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

logger = logging.getLogger(__name__)

MAXIMUM_ENTRIES = 10
"""Of one ChangeMessageVisibilityBatch: SQS's quota."""
LONGEST_DELAY_SECONDS = 900


def growing_delay_seconds(receive_count: int) -> int:
    """2, 8, 32, 128, 512, then 900 seconds: the missing message may be just behind this one, or minutes late."""
    delays = (2, 8, 32, 128, 512, LONGEST_DELAY_SECONDS)
    return delays[min(receive_count, len(delays)) - 1]


def delay_redelivery(client: "SQSClient", queue_url: str, messages: Iterable[QueueMessage[Any]]) -> None:
    """Sets the visibility timeout of each message whose disposition is Again with a delay: ten messages a request.

    If a request fails, its messages come back after the queue's visibility timeout.
    """
    entries = [
        {"Id": str(index), "ReceiptHandle": message.receipt_handle, "VisibilityTimeout": seconds}
        for index, message in enumerate(messages)
        if isinstance(message.disposition, Again) and (seconds := message.disposition.delay_seconds) is not None
    ]
    for batch in itertools.batched(entries, MAXIMUM_ENTRIES, strict=False):
        try:
            client.change_message_visibility_batch(QueueUrl=queue_url, Entries=list(batch))  # type: ignore[arg-type]
        except (BotoCoreError, ClientError):
            logger.warning("could not delay the redelivery of %d messages", len(batch), exc_info=True)
