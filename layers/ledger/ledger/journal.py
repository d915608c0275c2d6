"""A journal entry: a transaction's outcome for an account, and its idempotency record. Written once, never changed."""

import json
from decimal import Decimal
from typing import Any

from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import STATUS_CONSTANTS, DataRecord
from msgspec import Struct

from conditional_writes import Item
from ledger.messages import plain


class Outcome(Struct, frozen=True):
    """What became of a transaction. `replayed`: it was decided before, and this is the answer it got then.

    `status` is POSTED, or REJECTED with a `reason`; `amount` the effect on the balance; `posted_at` ISO 8601.
    """

    status: str
    reason: str | None
    amount: Decimal
    balance_after: Decimal
    account_version: int
    posted_at: str
    replayed: bool = False


class Entry(Struct, frozen=True):
    """`request` is the message in one spelling (`Message.request`), `payload_hash` Powertools' hash of it."""

    account_id: str
    transaction_id: str
    request: dict[str, Any]
    payload_hash: str
    outcome: Outcome


def entry_item(entry: Entry) -> Item:
    outcome = entry.outcome
    item = {
        "account_id": entry.account_id,
        "transaction_id": entry.transaction_id,
        "request": entry.request,
        "payload_hash": entry.payload_hash,
        "status": outcome.status,
        "amount": outcome.amount,
        "balance_after": outcome.balance_after,
        "account_version": outcome.account_version,
        "posted_at": outcome.posted_at,
    }
    return item | ({"reason": outcome.reason} if outcome.reason else {})


def entry_from_item(item: Item) -> Entry:
    return Entry(
        account_id=item["account_id"],
        transaction_id=item["transaction_id"],
        request=item["request"],
        payload_hash=item["payload_hash"],
        outcome=Outcome(
            status=item["status"],
            reason=item.get("reason"),
            amount=item["amount"],
            balance_after=item["balance_after"],
            account_version=int(item["account_version"]),
            posted_at=item["posted_at"],
        ),
    )


def completed_record(entry: Entry) -> DataRecord:
    """The entry as Powertools' completed idempotency record. It doesn't expire."""
    return DataRecord(
        idempotency_key=f"{entry.account_id}#{entry.transaction_id}",
        status=STATUS_CONSTANTS["COMPLETED"],
        response_data=json.dumps(outcome_to_json(entry.outcome)),
        payload_hash=entry.payload_hash,
    )


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "reason": outcome.reason,
        "amount": plain(outcome.amount),
        "balance_after": plain(outcome.balance_after),
        "account_version": outcome.account_version,
        "posted_at": outcome.posted_at,
    }


def outcome_from_json(fields: dict[str, Any]) -> Outcome:
    return Outcome(**fields | {"amount": Decimal(fields["amount"]), "balance_after": Decimal(fields["balance_after"])})
