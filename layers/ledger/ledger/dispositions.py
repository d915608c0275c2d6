"""The disposition of a message whose processing failed: dead if it was refused, waiting, or else again."""

from ledger.core.reason_codes import NotYet, Refusal
from workers.queue_messages import Again, Dead, Waiting


def disposition_of(error: Exception) -> Waiting | Again | Dead:
    """Dead for a Refusal, Waiting for NotYet, and Again for any other error: AWS's, a deadline's, or a bug's."""
    match error:
        case Refusal():
            return Dead(error.code, str(error))
        case NotYet():
            return Waiting(error.code, str(error))
        case _:
            return Again(str(error) or repr(error), error)
