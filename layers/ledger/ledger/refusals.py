"""Tells of transactions in the dead-letter queue, by events on the bus: best effort.

The dead letter itself is certain. Its event is published once. If that fails, the log has a line, and no message waits.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from conditional_writes import Deadline
from ledger.core.outcome_events import SOURCE, refusal_event
from ledger.core.transaction_types.base import TransactionMessage
from workers.batches import GivenUp
from workers.clients import events_client
from workers.event_bus import Event, EventBus
from workers.queue_messages import Dead, QueueMessage

logger = logging.getLogger(__name__)


class RefusalEvents:
    """The events of a bus. Its client is made for the first one."""

    def __init__(self, bus_name: str) -> None:
        self.bus_name = bus_name

    def publish(self, messages: Sequence[QueueMessage[TransactionMessage]], deadline: Deadline) -> None:
        """Publishes an event for each of these dead messages, once. Failures are logged."""
        now = datetime.now(UTC)
        events = [
            Event(*refusal_event(message.message_id, _readable(message, dead), dead.code, dead.reason, now))
            for message in messages
            if isinstance(dead := message.disposition, Dead)
        ]
        failures = EventBus(events_client(), self.bus_name, SOURCE).publish_once(events, deadline)
        for message, failure in zip(messages, failures, strict=True):
            if failure:
                logger.warning("no event tells of dead letter %s: %s", message.message_id, failure.reason)


def _readable(message: QueueMessage[TransactionMessage], dead: Dead) -> TransactionMessage | str | None:
    """The message, or its body if it couldn't be decoded. None if its decoding may kill the function."""
    if message.content is not None:
        return message.content
    return None if dead.code == GivenUp.FUNCTION_KILLED else message.body
