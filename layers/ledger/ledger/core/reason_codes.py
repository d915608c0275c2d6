"""The reason codes of dead letters, and the errors that carry one: a message is refused, or can't be decided yet."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar


class ReasonCode(StrEnum):
    """Why a message is in the dead-letter queue, for machines: its message attribute `reason_code`.

    The attribute `reason` beside it is a sentence for people. `workers.batches.GivenUp` has two more codes, for
    messages that were given up whatever they say.
    """

    INVALID_MESSAGE = "INVALID_MESSAGE"
    """The body isn't a message of its queue: not JSON, a field missing, unknown, or out of its range."""
    WRONG_QUEUE = "WRONG_QUEUE"
    """The message is valid, but the other queue takes its type, from that queue's own senders."""
    PAYLOAD_CHANGED = "PAYLOAD_CHANGED"
    """The transaction id was used before on one of the accounts, with another payload."""
    UNKNOWN_ACCOUNT = "UNKNOWN_ACCOUNT"
    """The message waited for its account, and the account wasn't opened."""
    UNKNOWN_HOLD = "UNKNOWN_HOLD"
    """The message waited for its hold, and no transaction with the hold's id came."""
    UNKNOWN_TRANSACTION = "UNKNOWN_TRANSACTION"
    """The message waited for the transaction that it reverses, and the transaction didn't come."""
    NOT_A_MAP = "NOT_A_MAP"
    """The profile has another program's value in place of a map on the message's path."""
    ITEM_TOO_LARGE = "ITEM_TOO_LARGE"
    """The profile has no room for the message's entries."""


class Refusal(Exception):
    """No delivery can ever process the message: it is dead with this code. The text is a sentence for people.

    `details` are further facts for machines, by their names in the event that tells of it.
    """

    code: ClassVar[ReasonCode]
    details: Mapping[str, str] = {}


class InvalidMessage(Refusal):
    """The body isn't a valid message: the text says which field is wrong, and what was expected.

    The text has at most 300 characters, and may quote the producer's.
    """

    code = ReasonCode.INVALID_MESSAGE

    def __init__(self, reason: str) -> None:
        super().__init__(reason if len(reason) <= 300 else f"{reason[:299]}…")


class WrongQueue(Refusal):
    """The message came by another queue than that which takes its type: the text names both."""

    code = ReasonCode.WRONG_QUEUE


class IdReused(Refusal):
    """The transaction id was used before on one of its accounts, with another payload: the text names the fields.

    `original_status` is that of the entry under this id: POSTED or REJECTED.
    """

    code = ReasonCode.PAYLOAD_CHANGED

    def __init__(self, reason: str, original_status: str) -> None:
        super().__init__(reason)
        self.details = {"original_status": original_status}


class LineTooLong(Exception):
    """So many commits wait for the account that the messages of the next one had better wait on their queue."""


class NotYet(Exception):
    """The message can't be decided yet: it refers to an account or a journal entry whose own message may be on its way.

    Nothing is recorded. A message that waits for too long is dead with this code.
    """

    code: ClassVar[ReasonCode]


class UnknownAccount(NotYet):
    """No such account has been opened."""

    code = ReasonCode.UNKNOWN_ACCOUNT


class UnknownHold(NotYet):
    """The account has no journal entry with the hold's id."""

    code = ReasonCode.UNKNOWN_HOLD


class UnknownTransaction(NotYet):
    """The account has no journal entry with the id of the transaction that is to be reversed."""

    code = ReasonCode.UNKNOWN_TRANSACTION
