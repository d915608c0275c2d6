"""A journal entry: the outcome of a transaction on one account, and its idempotency record. Entries never change.

As the rules see it, as an item of the Journal table, the outcome in JSON, and the entry's seal.

A transaction's id is unique under its home account: the one that its message names first, which pays in a transfer. On
its home the entry's sort key is the id. On any other account it is made of home and id, in a namespace that no id has:
whatever ids producers choose, no transaction can take the key of another one's entry.

A seal is a hash over the account's seal before and the entry's canonical form. So an entry can't be changed, removed,
swapped or put elsewhere without a change of all seals after it, and of the account, which has the newest one.
docs/seals.md defines the canonical form, with test vectors.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ledger.core.decoding import OTHER_SIDE
from ledger.core.limits import Exceeded, exceeded_from_item
from ledger.core.pools import on_shard
from ledger.core.reversals import Reversal, reversal_from_item, reversal_item
from ledger.core.values import attribute, format_decimal

FORMAT = 2
"""Of the entries that this release writes and reads. It changes when an earlier release would misread an entry."""


ACCOUNT_FIELDS = ("account_id", "from_account_id", "to_account_id")
"""The fields that hold account ids, in the order of a transaction's accounts. Only `legs` have others."""


def ids_in_legs(legs: Any) -> list[Any]:
    """The account ids in the `legs` of a request, in which there may be anything."""
    return [leg.get("account_id") for leg in legs if isinstance(leg, dict)] if isinstance(legs, list) else []


class EntryId(NamedTuple):
    """The key of a journal entry. `transaction_id` is the transaction's own only on its home."""

    account_id: str
    transaction_id: str

    @classmethod
    def on(cls, account_id: str, home_account_id: str, transaction_id: str) -> "EntryId":
        """The key of a transaction's entry on this account."""
        if account_id == home_account_id:
            return cls(account_id, transaction_id)
        named = json.dumps([home_account_id, transaction_id]).encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(named).digest()).decode().rstrip("=")
        return cls(account_id, OTHER_SIDE + digest)


class Outcome(Struct, frozen=True):
    """A transaction's outcome on one account. `replayed`: an earlier delivery was decided, and this is its outcome.

    `status` is POSTED, or REJECTED with a `reason`. If one of the transaction's several accounts gave the reason by its
    state, it is `rejecting_account_id`, on all of them. `amount` is the effect on the balance; `account_version` is the
    version that the decision made; `posted_at` is ISO 8601; `currency` is the account's. `held_after` is the sum of the
    open holds afterwards. `decimal_places` are those of the account, if the transaction opened it under the rule of
    minor units. `reversal` is that of a `reverse`. `exceeded` is the account's limit for which it rejected.
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
    rejecting_account_id: str | None = None
    exceeded: Exceeded | None = None
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


class Sent(Struct, frozen=True):
    """The sending of a message, as SQS reports it: the principal's id, the message's id, and when, in ISO 8601."""

    sent_by: str
    message_id: str
    sent_at: str


class Sender(Struct, frozen=True):
    """The sending of the message that was decided: its sender asked for the transaction.

    If that message is a dead letter that was sent again, `first` is the sending of the message that died, as whoever
    sent it again says: it is worth as much as its sender.
    """

    sent: Sent
    first: Sent | None = None


class JournalEntry(Struct, frozen=True):
    """The transaction `transaction_id` of its home account, on one of its accounts.

    `request` is the message's canonical payload, `rules` the number of the rule set that decided. `shards` has the
    numbers of the transaction's shards, by their pools.
    """

    account_id: str
    home_account_id: str
    transaction_id: str
    request: dict[str, Any]
    outcome: Outcome
    sender: Sender
    rules: int
    seal: str = ""
    shards: Mapping[str, int] = {}

    @property
    def entry_id(self) -> EntryId:
        return EntryId.on(self.account_id, self.home_account_id, self.transaction_id)

    @property
    def home_entry_id(self) -> EntryId:
        """The id of the transaction's entry on its home: under it is what was reversed of the transaction."""
        return EntryId(self.home_account_id, self.transaction_id)

    @property
    def account_ids(self) -> tuple[str, ...]:
        """The transaction's accounts: those that the request names, and the others of a reversal. Of a pool it is the
        shard."""
        named = [self.request[field] for field in ACCOUNT_FIELDS if field in self.request]
        if "legs" in self.request:
            named += ids_in_legs(self.request["legs"])
        others = self.outcome.reversal.other_account_ids if self.outcome.reversal else ()
        texts = [each for each in (*named, self.account_id, *others) if isinstance(each, str)]
        if self.shards:
            texts = [on_shard(each, self.shards) for each in texts]
        return tuple(dict.fromkeys(texts))

    def on(self, account_id: str) -> EntryId:
        """The id of the transaction's entry on this account."""
        return EntryId.on(account_id, *self.home_entry_id)


def entry_item(entry: JournalEntry) -> dict[str, Any]:
    """The entry as an item. It has a `reason` only if the transaction was rejected, `held_after` unless it is 0, and
    `home_account_id` only if it isn't on its home.
    """
    outcome = entry.outcome
    item = {
        **entry.entry_id._asdict(),
        "format": FORMAT,
        "rules": entry.rules,
        "request": entry.request,
        "sent": asdict(entry.sender.sent),
        "seal": entry.seal,
        "status": outcome.status,
        "amount": outcome.amount,
        "balance_after": outcome.balance_after,
        "currency": outcome.currency,
        "account_version": outcome.account_version,
        "posted_at": outcome.posted_at,
    }
    if entry.account_id != entry.home_account_id:
        item["home_account_id"] = entry.home_account_id
    if entry.sender.first:
        item["first_sent"] = asdict(entry.sender.first)
    if entry.shards:
        item["shards"] = dict(entry.shards)
    if outcome.reason:
        item["reason"] = outcome.reason
    if outcome.rejecting_account_id:
        item["rejecting_account_id"] = outcome.rejecting_account_id
    if outcome.held_after:
        item["held_after"] = outcome.held_after
    if outcome.decimal_places is not None:
        item["decimal_places"] = outcome.decimal_places
    if outcome.reversal:
        item["reversal"] = reversal_item(outcome.reversal)
    if outcome.exceeded:
        item["exceeded"] = asdict(outcome.exceeded)
    return item


def entry_from_item(item: dict[str, Any]) -> JournalEntry:
    """The journal entry in an item. Raises KeyError, TypeError or ValueError for an item that is none.

    An entry of another format is none: a later release may have written it, and only that one reads it right.
    """
    if (found := attribute(item, "format", int)) != FORMAT:
        raise ValueError(f"format: expected {FORMAT}, got {found}: a later release of Teller may have written it")
    account_id, transaction_id, request = item["account_id"], item["transaction_id"], attribute(item, "request", dict)
    home_account_id = account_id
    if "home_account_id" in item:
        home_account_id = attribute(item, "home_account_id", str)
        transaction_id = attribute(request, "transaction_id", str)
    entry = JournalEntry(
        account_id=account_id,
        home_account_id=home_account_id,
        transaction_id=transaction_id,
        request=request,
        sender=Sender(_sent(item, "sent"), _sent(item, "first_sent") if "first_sent" in item else None),
        rules=attribute(item, "rules", int),
        seal=attribute(item, "seal", str),
        shards=_shards(attribute(item, "shards", dict)) if "shards" in item else {},
        outcome=Outcome(
            status=attribute(item, "status", str),
            reason=attribute(item, "reason", str) if "reason" in item else None,
            amount=attribute(item, "amount", Decimal),
            balance_after=attribute(item, "balance_after", Decimal),
            account_version=attribute(item, "account_version", int),
            posted_at=attribute(item, "posted_at", str),
            currency=attribute(item, "currency", str),
            held_after=attribute(item, "held_after", Decimal) if "held_after" in item else Decimal(0),
            decimal_places=attribute(item, "decimal_places", int) if "decimal_places" in item else None,
            reversal=reversal_from_item(attribute(item, "reversal", dict)) if "reversal" in item else None,
            rejecting_account_id=(
                attribute(item, "rejecting_account_id", str) if "rejecting_account_id" in item else None
            ),
            exceeded=exceeded_from_item(attribute(item, "exceeded", dict)) if "exceeded" in item else None,
        ),
    )
    if home_account_id != account_id and entry.entry_id.transaction_id != item["transaction_id"]:
        raise ValueError("transaction_id: expected the key that is made of home_account_id and request.transaction_id")
    return entry


def _shards(item: dict[str, Any]) -> dict[str, int]:
    return {name: attribute(item, name, int) for name in item}


def _sent(item: dict[str, Any], name: str) -> Sent:
    sent = attribute(item, name, dict)
    found = Sent(sent["sent_by"], sent["message_id"], sent["sent_at"])
    if not (type(found.sent_by) is type(found.message_id) is type(found.sent_at) is str):
        raise TypeError(f"{name}: expected texts")
    return found


def entry_to_json(entry: JournalEntry) -> dict[str, Any]:
    """The entry as readers get it. Amounts are texts with all digits."""
    fields = sealed_fields(entry)
    sent = {name: asdict(fields[name]) for name in ("sent", "first_sent") if name in fields}
    return fields | sent | {"seal": entry.seal}


def sealed_fields(entry: JournalEntry) -> dict[str, Any]:
    """The sealed part of an entry: all that readers get, but for the seal."""
    fields = outcome_to_json(entry.outcome)
    if entry.outcome.reason is None:
        del fields["reason"]
    fields |= {
        "account_id": entry.account_id,
        "home_account_id": entry.home_account_id,
        "transaction_id": entry.transaction_id,
        "request": entry.request,
        "rules": entry.rules,
        "sent": entry.sender.sent,
    }
    if entry.sender.first:
        fields["first_sent"] = entry.sender.first
    if entry.shards:
        fields["shards"] = entry.shards
    return fields


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
    if outcome.rejecting_account_id:
        fields["rejecting_account_id"] = outcome.rejecting_account_id
    if outcome.decimal_places is not None:
        fields["decimal_places"] = outcome.decimal_places
    if outcome.reversal:
        reversed_after = format_decimal(outcome.reversal.reversed_after)
        fields["reversal"] = reversal_item(outcome.reversal) | {"reversed_after": reversed_after}
    if outcome.exceeded:
        fields["exceeded"] = {"limit": outcome.exceeded.limit, "left": format_decimal(outcome.exceeded.left)}
    return fields


def canonical_form(entry: JournalEntry) -> bytes:
    """The entry as it is sealed: as readers get it, without its seal, in one spelling of JSON.

    Raises TypeError or ValueError for a request of values that no message has.
    """
    return _encoder.encode(sealed_fields(entry))


def seal_of(before: str, entry: JournalEntry) -> str:
    """The entry's seal, 43 characters. `before` is the account's until then, empty before its first entry.

    Raises as `canonical_form`.
    """
    return seal_of_form(before, canonical_form(entry))


def seal_of_form(before: str, form: bytes) -> str:
    """The seal of the entry with this canonical form."""
    digest = hashlib.sha256(before.encode() + form).digest()
    return base64.urlsafe_b64encode(digest)[:43].decode()


_encoder = msgspec.json.Encoder(order="sorted")
"""Names in the order of their code points, no blanks, UTF-8: as Python's own `json` with `sort_keys`."""
