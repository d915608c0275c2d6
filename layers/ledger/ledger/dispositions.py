"""The disposition of a message whose processing failed: dead if the message was refused, else again."""

from typing import Any

from ledger.core.reason_codes import NotYet, ReasonCode, Refusal
from workers.queue_messages import Again, Dead, QueueMessage
from workers.redelivery import growing_delay_seconds


def disposition_of(message: QueueMessage[Any], error: Exception) -> Again | Dead:
    """Dead for a Refusal; Again, with a growing delay, for NotYet; Again, without a delay, for any other error."""
    match error:
        case Refusal():
            return Dead(error.code, str(error))
        case NotYet():
            return Again(error.code, str(error), delay_seconds=growing_delay_seconds(message.receive_count))
        case _:
            return Again(ReasonCode.RETRIES_EXHAUSTED, str(error) or repr(error), error=error)
