"""Tells of transactions in the dead-letter queue: by a record in the table Refusals, and by events on the bus.

A message is refused only when its record is written, so whoever asks for its transaction learns of it. The event is
best effort: it is published once. If that fails, the log has a line, and no message waits.
"""

import functools
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from conditional_writes import Deadline
from conditional_writes.core.items import to_dynamodb
from conditional_writes.core.unconditional import write_all
from ledger.core.accounts import timestamp
from ledger.core.journal import EntryId
from ledger.core.outcome_events import SOURCE, ids_in, refusal_event
from ledger.core.refusal_record import RefusalRecord, refusal_item
from ledger.core.transaction_types.base import TransactionMessage
from ledger.tables import LedgerTables
from workers.event_bus import EventBus, events_client
from workers.queue_messages import Dead, QueueMessage

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

logger = logging.getLogger(__name__)

RECORDING_SECONDS = 5.0
"""No request begins later. A flood of dead messages, or a slow table, shall not take the time of the others."""
RECORD_SECONDS = 14 * 24 * 3600
"""How long a record stays, until DynamoDB's TTL removes it: as long as a dead letter."""


class RefusalRecords(NamedTuple):
    """The table Refusals, which has the last refusal of each transaction on each of its accounts."""

    client: "DynamoDBClient"
    tables: LedgerTables

    def write(self, dead: Sequence[tuple[QueueMessage[TransactionMessage], Dead]], deadline: Deadline) -> None:
        """Records each dead message whose ids are known. One request per 25 records.

        Raises DeadlinePassed and botocore's errors: then some of the messages may be recorded.
        """
        now = datetime.now(UTC)
        expires_at = int(now.timestamp()) + RECORD_SECONDS
        items = {}  # by the key: a request may have an item once
        for message, why in dead:
            ids = ids_in(_readable(message))
            refusal = RefusalRecord(why.code, why.reason, timestamp(now), message.message_id)
            for account_id in ids["account_ids"] if ids["transaction_id"] else ():
                entry_id = EntryId.on(account_id, ids["account_ids"][0], ids["transaction_id"])
                items[entry_id] = refusal_item(entry_id, refusal, expires_at)
        requests = ({"PutRequest": {"Item": to_dynamodb(item)}} for item in items.values())
        deadline = min(deadline, Deadline.after(RECORDING_SECONDS))
        write_all(self.client, self.tables.refusals, requests, deadline, "recording refusals")


TELLING_SECONDS = 2.0
"""No request begins later. A slow bus shall not take the time of the batch's other messages."""


class RefusalEvents:
    """The events of a bus, by its name. Its client is made for the first one: most invocations need none."""

    def __init__(self, bus_name: str) -> None:
        self.bus_name = bus_name

    @functools.cached_property
    def bus(self) -> EventBus:
        return EventBus(events_client(read_seconds=1), self.bus_name, SOURCE)

    def publish(self, dead: Sequence[tuple[QueueMessage[TransactionMessage], Dead]], deadline: Deadline) -> None:
        """Publishes an event for each dead message, once. Failures are logged."""
        now = datetime.now(UTC)
        events = [
            refusal_event(message.message_id, _readable(message), (why.code, why.reason), now, why.details)
            for message, why in dead
        ]
        failures = self.bus.publish_once(events, min(deadline, Deadline.after(TELLING_SECONDS)))
        for (message, _), failure in zip(dead, failures, strict=True):
            if failure:
                logger.warning("no event tells of dead letter %s: %s", message.message_id, failure.reason)


def _readable(message: QueueMessage[TransactionMessage]) -> TransactionMessage | str | None:
    """The message, or its body if it couldn't be decoded.

    None if this delivery didn't get to decode it: that may kill the function.
    """
    if message.content is not None:
        return message.content
    return message.body if message.was_processed else None
