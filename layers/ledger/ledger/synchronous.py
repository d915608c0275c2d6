"""Synchronous posting: transactions are posted, and their outcomes answered, in one call. The poster is the queue's.

The answer never contradicts the journal. It says `unknown` if the transaction may have been posted, and `busy` if it
is sure that nothing was recorded.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from conditional_writes import Deadline
from ledger.core.journal import Outcome, outcome_to_json
from ledger.core.post_requests import PostRequest
from ledger.core.transaction_types.base import TransactionMessage
from ledger.dispositions import disposition_of
from ledger.fold import QueuedTransaction
from workers.batches import Measurement
from workers.queue_messages import Again, Dead, Done, PerhapsDone, QueueMessage, Waiting


class State(StrEnum):
    """The end of a transaction. The first two are the status of its journal entry."""

    POSTED = "posted"
    REJECTED = "rejected"
    INVALID = "invalid"
    """No delivery could ever post the message: on the queue it would become a dead letter with this code and reason."""
    WAITING = "waiting"
    """The message refers to an account or a transaction that isn't there yet. Nothing was recorded."""
    BUSY = "busy"
    """No time was left to try, the first read failed, or too many commits were ahead in an account's line.
    Nothing was recorded: send it again, under the same id."""
    UNKNOWN = "unknown"
    """AWS didn't answer the commit in time, or another error ended it: ask, or send it again, under the same id."""


class Poster(Protocol):
    """As `BatchPoster`: each method sets the messages' dispositions. `decide` writes nothing."""

    def post(self, messages: Sequence[QueuedTransaction], deadline: Deadline) -> list[Measurement]: ...

    def decide(self, messages: Sequence[QueuedTransaction], deadline: Deadline) -> None: ...


class Answer(NamedTuple):
    """The outcomes in the order of the request, and what is to be measured."""

    outcomes: list[dict[str, Any]]
    measurements: list[Measurement]

    def count(self, state: State) -> int:
        return sum(outcome["state"] == state for outcome in self.outcomes)


NO_CALLER = "lambda"
"""In place of the sender's id, of a direct invocation: Lambda doesn't tell a function who invoked it."""
PERHAPS_POSTED = 2
"""The receive count of a message that was delivered before, so that its own entry is read with its accounts: nobody
knows whether a call is a repetition, and what is waiting or invalid writes nothing that would meet the entry."""


class SynchronousPoster(NamedTuple):
    """Posts what `decode` makes of a message's body. Its messages are on no queue, so that none comes again."""

    decode: Callable[[str], TransactionMessage]
    poster: Poster

    def answer(self, request: PostRequest, request_id: str, sent_by: str, deadline: Deadline) -> Answer:
        """Posts the transactions of a request by this principal, or with `dry_run` says what would become of them."""
        now = datetime.now(UTC)
        messages = [self._message(body, f"{request_id}#{n}", sent_by, now) for n, body in enumerate(request.bodies)]
        decoded = [message for message in messages if message.disposition is None]
        measurements: list[Measurement] = []
        if request.dry_run:
            self.poster.decide(decoded, deadline)
        elif decoded:
            measurements = self.poster.post(decoded, deadline)
        return Answer([_outcome(message) for message in messages], measurements)

    def _message(self, body: str, message_id: str, sent_by: str, now: datetime) -> QueuedTransaction:
        message: QueuedTransaction = QueueMessage(message_id, "", body, PERHAPS_POSTED, now, {}, sent_by)
        try:
            message.content = self.decode(body)
        except Exception as error:  # noqa: BLE001 (an error of any type is this message's alone)
            message.disposition = disposition_of(error)
        return message


def _outcome(message: QueuedTransaction) -> dict[str, Any]:
    ids: dict[str, Any] = {"transaction_id": None, "account_id": None}
    if transaction := message.content:
        ids = {"transaction_id": transaction.transaction_id, "account_id": transaction.account_ids[0]}
    match message.disposition:
        case Done(Outcome() as outcome):
            return {**ids, "state": State(outcome.status.lower()), **outcome_to_json(outcome)}
        case Dead(code, reason, details):
            return {**ids, "state": State.INVALID, "reason_code": code, "reason": reason, **details}
        case Waiting(code, reason):
            return {**ids, "state": State.WAITING, "reason_code": code, "reason": reason}
        case PerhapsDone(reason):
            return {**ids, "state": State.UNKNOWN, "reason": reason}
        case Again(reason):
            return {**ids, "state": State.BUSY, "reason": reason}
    raise AssertionError(f"{message.message_id} was given no disposition")
