"""A journal entry: the outcome of a transaction on one account, and its idempotency record. Entries never change."""

from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.decisions import Decision


class Outcome(Struct, frozen=True):
    """A transaction's outcome on one account. `replayed`: an earlier delivery was decided, and this is its outcome.

    `status` is POSTED, or REJECTED with a `reason`; `amount` is the effect on the balance; `account_version` is the
    version that the decision made; `posted_at` is ISO 8601.
    """

    status: str
    reason: str | None
    amount: Decimal
    balance_after: Decimal
    account_version: int
    posted_at: str
    replayed: bool = False

    @property
    def label(self) -> str:
        """The outcome in a word, for a log line."""
        return "replayed" if self.replayed else self.status.lower()

    @property
    def log_fields(self) -> dict[str, object]:
        return {"reason": self.reason, "account_version": self.account_version}

    def as_replayed(self) -> "Outcome":
        return replace(self, replayed=True)


class EntryId(NamedTuple):
    """The key of a journal entry."""

    account_id: str
    transaction_id: str


class JournalEntry(Struct, frozen=True):
    """`request` is the message's canonical payload, `payload_hash` Powertools' hash of it."""

    account_id: str
    transaction_id: str
    request: dict[str, Any]
    payload_hash: str
    outcome: Outcome

    @property
    def entry_id(self) -> EntryId:
        return EntryId(self.account_id, self.transaction_id)


def outcome_of(decision: Decision, account_version: int, posted_at: str) -> Outcome:
    """A decision as its journal entry records it."""
    return Outcome(
        status=str(decision.status),
        reason=str(decision.reason) if decision.reason else None,
        amount=decision.amount,
        balance_after=decision.balance,
        account_version=account_version,
        posted_at=posted_at,
    )
