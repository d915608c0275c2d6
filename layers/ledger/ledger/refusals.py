"""Tells of transactions in the dead-letter queue, by events on the bus: best effort.

The dead letter itself is certain. Its event is published once. If that fails, the log has a line, and no message waits.
"""

import functools
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from conditional_writes import Deadline
from ledger.core.outcome_events import SOURCE, refusal_event
from ledger.core.transaction_types.base import TransactionMessage
from workers.clients import events_client
from workers.event_bus import EventBus
from workers.queue_messages import Dead, QueueMessage

logger = logging.getLogger(__name__)

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
    return message.body if message.attempted else None
