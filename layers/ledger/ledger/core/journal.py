"""A journal entry: the outcome of a transaction on one account, and its idempotency record. Entries never change.

As the rules see it, as an item of the Journal table, and the outcome in JSON.
"""

import hashlib
import json
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.decoding import attribute, version
from ledger.core.money import format_decimal
from ledger.core.reversals import Reversal, reversal_from_item, reversal_item
from ledger.core.rules import Decision

FORMAT = 1
"""Of the entries that this release writes and reads. It changes when an earlier release would misread an entry."""


ACCOUNT_FIELDS = ("account_id", "from_account_id", "to_account_id")
"""The fields that hold account ids, in the order of a transaction's accounts. No type has others."""


class Outcome(Struct, frozen=True):
    """A transaction's outcome on one account. `replayed`: an earlier delivery was decided, and this is its outcome.

    `status` is POSTED, or REJECTED with a `reason`; `amount` is the effect on the balance; `account_version` is the
    version that the decision made; `posted_at` is ISO 8601; `currency` is the account's. `held_after` is the sum of the
    open holds afterwards. `decimal_places` are those of the account, if the transaction opened it under the rule of
    minor units. `reversal` is that of a `reverse`.
    """

    status: str
    reason: str | None
    amount: Decimal
    balance_after: Decimal
    account_version: int
    posted_at: str
    currency: str
    held_after: Decimal = Decimal(0)
    decimal_places: int | None = None
    reversal: Reversal | None = None
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
    """`request` is the message's canonical payload, `payload_hash` its hash."""

    account_id: str
    transaction_id: str
    request: dict[str, Any]
    payload_hash: str
    outcome: Outcome

    @property
    def entry_id(self) -> EntryId:
        return EntryId(self.account_id, self.transaction_id)

    @property
    def first_entry_id(self) -> EntryId:
        """The id of the transaction's entry on its first account: under it is what was reversed of the transaction."""
        return EntryId(self.account_ids[0], self.transaction_id)

    @property
    def account_ids(self) -> tuple[str, ...]:
        """The transaction's accounts: those that the request names, and the other one of a reversal."""
        named = [self.request.get(field) for field in ACCOUNT_FIELDS]
        other = self.outcome.reversal.other_account_id if self.outcome.reversal else None
        return tuple(dict.fromkeys(each for each in (*named, self.account_id, other) if isinstance(each, str)))


def payload_hash_of(request: dict[str, Any]) -> str:
    """The hash of a canonical payload.

    A value that no payload has is hashed as its `repr`, so that a damaged request is a mismatch and no error.
    """
    return hashlib.sha256(json.dumps(request, sort_keys=True, default=repr).encode()).hexdigest()


def outcome_of(decision: Decision, after: Account, posted_at: str) -> Outcome:
    """A decision as its journal entry records it. `after` is the account as the decision leaves it."""
    return Outcome(
        status=str(decision.status),
        reason=str(decision.reason) if decision.reason else None,
        amount=decision.amount,
        balance_after=decision.balance,
        account_version=after.version,
        posted_at=posted_at,
        currency=after.currency,
        held_after=after.held,
        decimal_places=decision.decimal_places,
        reversal=decision.reversal,
    )


def entry_item(entry: JournalEntry) -> dict[str, Any]:
    """The entry as an item. It has a `reason` only if the transaction was rejected, and `held_after` unless it is 0."""
    outcome = entry.outcome
    item = {
        "account_id": entry.account_id,
        "transaction_id": entry.transaction_id,
        "format": FORMAT,
        "request": entry.request,
        "payload_hash": entry.payload_hash,
        "status": outcome.status,
        "amount": outcome.amount,
        "balance_after": outcome.balance_after,
        "currency": outcome.currency,
        "account_version": outcome.account_version,
        "posted_at": outcome.posted_at,
    }
    if outcome.reason:
        item["reason"] = outcome.reason
    if outcome.held_after:
        item["held_after"] = outcome.held_after
    if outcome.decimal_places is not None:
        item["decimal_places"] = outcome.decimal_places
    if outcome.reversal:
        item["reversal"] = reversal_item(outcome.reversal)
    return item


def entry_from_item(item: dict[str, Any]) -> JournalEntry:
    """The journal entry in an item. Raises KeyError, TypeError or ValueError for an item that is none.

    An entry of another format is none: a later release may have written it, and only that one reads it right.
    """
    if (found := version(item, "format")) != FORMAT:
        raise ValueError(f"format: expected {FORMAT}, got {found}: a later release of Teller may have written it")
    return JournalEntry(
        account_id=item["account_id"],
        transaction_id=item["transaction_id"],
        request=attribute(item, "request", dict),
        payload_hash=attribute(item, "payload_hash", str),
        outcome=Outcome(
            status=attribute(item, "status", str),
            reason=attribute(item, "reason", str) if "reason" in item else None,
            amount=attribute(item, "amount", Decimal),
            balance_after=attribute(item, "balance_after", Decimal),
            account_version=version(item, "account_version"),
            posted_at=attribute(item, "posted_at", str),
            currency=attribute(item, "currency", str),
            held_after=attribute(item, "held_after", Decimal) if "held_after" in item else Decimal(0),
            decimal_places=version(item, "decimal_places") if "decimal_places" in item else None,
            reversal=reversal_from_item(attribute(item, "reversal", dict)) if "reversal" in item else None,
        ),
    )


def sound_entry(item: dict[str, Any]) -> JournalEntry:
    """The journal entry in an item, to decide by. Raises ValueError, too, if its request was changed."""
    entry = entry_from_item(item)
    if payload_hash_of(entry.request) != entry.payload_hash:
        raise ValueError(f"{entry.entry_id}: its payload_hash isn't that of its request")
    return entry


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "status": outcome.status,
        "reason": outcome.reason,
        "amount": format_decimal(outcome.amount),
        "balance_after": format_decimal(outcome.balance_after),
        "held_after": format_decimal(outcome.held_after),
        "currency": outcome.currency,
        "account_version": outcome.account_version,
        "posted_at": outcome.posted_at,
    }
    if outcome.decimal_places is not None:
        fields["decimal_places"] = outcome.decimal_places
    if outcome.reversal:
        reversed_after = format_decimal(outcome.reversal.reversed_after)
        fields["reversal"] = reversal_item(outcome.reversal) | {"reversed_after": reversed_after}
    return fields
