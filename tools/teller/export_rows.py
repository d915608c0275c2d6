"""What is exported: rows of accounts, of open holds, of journal entries and of their metadata.

An amount is exact as a text. Beside it is a decimal number, by which SQL computes: of 38 digits, 10 of them decimals,
or nothing if the amount doesn't fit exactly.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from ledger.core.accounts import account_from_item
from ledger.core.journal import entry_from_item
from ledger.core.money import format_decimal

DECIMAL_PLACES = 10
WHOLE_DIGITS = 38 - DECIMAL_PLACES

_AMOUNT, _TEXT, _COUNT = "DECIMAL", "VARCHAR", "BIGINT"
COLUMNS: dict[str, dict[str, str]] = {
    "accounts": {
        **dict.fromkeys(("account_id", "currency", "status"), _TEXT),
        "version": _COUNT,
        "posted_at": _TEXT,
        **dict.fromkeys(("balance", "held", "overdraft_limit"), _AMOUNT),
        "decimal_places": _COUNT,
        "seal": _TEXT,
    },
    "holds": {"account_id": _TEXT, "hold_id": _TEXT, "remaining": _AMOUNT, "expires_at": _TEXT},
    "journal": {
        "day": _TEXT,
        "account_id": _TEXT,
        "account_version": _COUNT,
        **dict.fromkeys(("posted_at", "transaction_id", "home_account_id", "type", "status", "reason"), _TEXT),
        "currency": _TEXT,
        **dict.fromkeys(("amount", "balance_after", "held_after"), _AMOUNT),
        **dict.fromkeys(("occurred_at", "description", "source_reference", "request"), _TEXT),
        **dict.fromkeys(("sent_by", "sent_at", "seal"), _TEXT),
        "rules": _COUNT,
    },
    "metadata": {"day": _TEXT, "account_id": _TEXT, "account_version": _COUNT, "name": _TEXT, "value": _TEXT},
}
"""By table: its columns and their types. Beside an amount there is a column more, `amount_decimal` of `amount`."""


def account_rows(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The table and the fields of each row. Raises KeyError, TypeError or ValueError for an item that is no account."""
    account = account_from_item(item)
    yield (
        "accounts",
        {
            "account_id": account.account_id,
            "currency": account.currency,
            "status": str(account.status),
            "version": account.version,
            "posted_at": account.posted_at,
            "balance": account.balance,
            "held": account.held,
            "overdraft_limit": account.overdraft_limit,
            "decimal_places": account.decimal_places,
            "seal": account.seal,
        },
    )
    for hold_id, hold in account.open_holds.items():
        named = {"account_id": account.account_id, "hold_id": hold_id}
        yield "holds", named | {"remaining": hold.remaining, "expires_at": hold.expires_at}


def entry_rows(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """As `account_rows`, of a journal entry."""
    entry = entry_from_item(item)
    outcome, request = entry.outcome, entry.request
    key = {
        "day": outcome.posted_at[:10],
        "account_id": entry.account_id,
        "account_version": outcome.account_version,
    }
    yield (
        "journal",
        key
        | {
            "posted_at": outcome.posted_at,
            "transaction_id": entry.transaction_id,
            "home_account_id": entry.home_account_id,
            "type": request.get("type"),
            "status": outcome.status,
            "reason": outcome.reason,
            "currency": outcome.currency,
            "amount": outcome.amount,
            "balance_after": outcome.balance_after,
            "held_after": outcome.held_after,
            **{name: request.get(name) for name in ("occurred_at", "description", "source_reference")},
            "request": msgspec.json.encode(request).decode(),
            "sent_by": entry.sender.sent.sent_by,
            "sent_at": entry.sender.sent.sent_at,
            "seal": entry.seal,
            "rules": entry.rules,
        },
    )
    for name, value in (request.get("metadata") or {}).items():
        yield "metadata", key | {"name": name, "value": value}


def spelled(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its amounts as texts, and beside each the same as a decimal number if it fits."""
    written: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Decimal):
            written[name] = format_decimal(value)
            written[f"{name}_decimal"] = written[name] if fits(value) else None
        else:
            written[name] = value
    return written


def fits(amount: Decimal) -> bool:
    exponent = amount.normalize().as_tuple().exponent if amount else 0
    return int(exponent) >= -DECIMAL_PLACES and amount.adjusted() < WHOLE_DIGITS


def types_of(table: str) -> dict[str, str]:
    """The types of the columns in SQL."""
    types: dict[str, str] = {}
    for name, kind in COLUMNS[table].items():
        types[name] = _TEXT if kind == _AMOUNT else kind
        if kind == _AMOUNT:
            types[f"{name}_decimal"] = f"DECIMAL(38, {DECIMAL_PLACES})"
    return types
