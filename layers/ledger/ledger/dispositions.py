"""What becomes of a message when its processing fails: dead if it was refused, else again."""

from typing import Any

from ledger.core.reason_codes import NotYet, ReasonCode, Refusal
from workers.queue_messages import Again, Dead, QueueMessage
from workers.redelivery import growing_delay_seconds


def disposition_of(message: QueueMessage[Any], error: Exception) -> Again | Dead:
    """A refused message is dead. What it waits for may come soon; any other error, after the visibility timeout."""
    match error:
        case Refusal():
            return Dead(error.code, str(error))
        case NotYet():
            return Again(error.code, str(error), delay_seconds=growing_delay_seconds(message.receive_count))
        case _:
            return Again(ReasonCode.RETRIES_EXHAUSTED, str(error) or repr(error), error=error)
