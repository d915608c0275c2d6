"""The disposition of a message whose processing failed: dead if it was refused, waiting, or else again."""

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import DeadlinePassed, OutcomeUnknown
from ledger.core.reason_codes import LineTooLong, NotYet, Refusal
from workers.queue_messages import Again, Dead, PerhapsDone, Waiting


def disposition_of(error: BaseException) -> Waiting | Again | Dead:
    """Dead for a Refusal, Waiting for NotYet, and Again for any other error: AWS's, a deadline's, or a bug's.

    A line that is too long is expected, so it has no traceback.
    """
    match error:
        case Refusal():
            return Dead(error.code, str(error), error.details)
        case NotYet():
            return Waiting(error.code, str(error))
        case LineTooLong():
            return Again(str(error))
        case _:
            return Again.after(error)


def after_commit(error: Exception) -> Again:
    """The disposition of a message whose commit ended in this error.

    After a passed deadline, and after an error of DynamoDB's with the status 400, nothing was written.
    """
    status = error.response["ResponseMetadata"].get("HTTPStatusCode") if isinstance(error, ClientError) else None
    wrote_nothing = isinstance(error, DeadlinePassed) or status == 400
    return (Again if wrote_nothing else PerhapsDone).after(error)


_ABOUT_CONTENT = {"SerializationException", "TransactionCanceledException", "ValidationException"}
"""DynamoDB's errors for what a request writes. Cancellations for a condition or for contention aren't raised."""


def is_about_content(error: Exception) -> bool:
    """Whether the error may be about one of several items in a request, so that the others can be written without it.

    AWS's own trouble, such as throttling or a passed deadline, isn't: each further request would have it, too.
    """
    if isinstance(error, ClientError):
        return error.response["Error"]["Code"] in _ABOUT_CONTENT
    return not isinstance(error, BotoCoreError | DeadlinePassed | OutcomeUnknown)
