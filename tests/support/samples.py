"""Sample accounts and messages, so that a test spells out only the fields that matter to it."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.transaction_types import (
    ChargeInterest,
    CloseAccount,
    ExpireHold,
    Hold,
    OpenAccount,
    PostHold,
    Reverse,
    SetOverdraftLimit,
    Transaction,
    Transfer,
    VoidHold,
)

NOW = "2026-01-31T12:00:00.000+00:00"

ALICE = Account(
    account_id="alice",
    balance=Decimal(100),
    overdraft_limit=Decimal(-50),
    currency="EUR",
    status=AccountStatus.OPEN,
    version=7,
)
BOB = replace(ALICE, account_id="bob", balance=Decimal(5), overdraft_limit=Decimal(0), version=3)
CLOSED = replace(ALICE, balance=Decimal(0), status=AccountStatus.CLOSED)


def opening(
    limit: str = "0", currency: str = "EUR", transaction_id: str = "open", account_id: str = "alice"
) -> OpenAccount:
    return OpenAccount(
        transaction_id=transaction_id, account_id=account_id, currency=currency, overdraft_limit=Decimal(limit)
    )


def payment(
    amount: str | int = 1, currency: str | None = None, transaction_id: str = "t-1", account_id: str = "alice"
) -> Transaction:
    return Transaction(transaction_id=transaction_id, account_id=account_id, amount=Decimal(amount), currency=currency)


def transfer(
    amount: str | int = 1, transaction_id: str = "t-1", from_account_id: str = "alice", to_account_id: str = "bob"
) -> Transfer:
    return Transfer(
        transaction_id=transaction_id,
        from_account_id=from_account_id,
        to_account_id=to_account_id,
        amount=Decimal(amount),
    )


def limit(overdraft_limit: str | int, transaction_id: str = "t-1") -> SetOverdraftLimit:
    return SetOverdraftLimit(
        transaction_id=transaction_id, account_id="alice", overdraft_limit=Decimal(overdraft_limit)
    )


def closing(transaction_id: str = "t-1") -> CloseAccount:
    return CloseAccount(transaction_id=transaction_id, account_id="alice")


def interest(annual_rate: str = "0.12", transaction_id: str = "t-1", account_id: str = "alice") -> ChargeInterest:
    return ChargeInterest(transaction_id=transaction_id, account_id=account_id, annual_rate=Decimal(annual_rate))


def hold(
    amount: str | int = 1,
    transaction_id: str = "h-1",
    account_id: str = "alice",
    expires_at: str | None = None,
) -> Hold:
    return Hold(
        transaction_id=transaction_id,
        account_id=account_id,
        amount=Decimal(amount),
        expires_at=datetime.fromisoformat(expires_at) if expires_at else None,
    )


def posting(
    amount: str | int | None = None,
    *,
    final: bool = True,
    to_account_id: str | None = None,
    transaction_id: str = "p-1",
    hold_id: str = "h-1",
    account_id: str = "alice",
) -> PostHold:
    return PostHold(
        transaction_id=transaction_id,
        account_id=account_id,
        hold_id=hold_id,
        amount=None if amount is None else Decimal(amount),
        final=final,
        to_account_id=to_account_id,
    )


def voiding(transaction_id: str = "v-1", hold_id: str = "h-1", account_id: str = "alice") -> VoidHold:
    return VoidHold(transaction_id=transaction_id, account_id=account_id, hold_id=hold_id)


def expiring(
    as_of: str = NOW, transaction_id: str = "x-1", hold_id: str = "h-1", account_id: str = "alice"
) -> ExpireHold:
    return ExpireHold(
        transaction_id=transaction_id, account_id=account_id, hold_id=hold_id, as_of=datetime.fromisoformat(as_of)
    )


def reversing(
    of_transaction_id: str = "t-1",
    amount: str | int | None = None,
    transaction_id: str = "r-1",
    account_id: str = "alice",
) -> Reverse:
    return Reverse(
        transaction_id=transaction_id,
        account_id=account_id,
        of_transaction_id=of_transaction_id,
        amount=None if amount is None else Decimal(amount),
    )


LARGEST: dict[str, Any] = {
    "amount": Decimal(f"{'1' * 38}e-130"),
    "occurred_at": datetime(2026, 2, 28, 12, 0, 0, 1, tzinfo=UTC),
    "description": "\U0001f3e6" * 500,
    "metadata": {chr(0x1F300 + name) * 64: "\U0001f3e6" * 256 for name in range(20)},
}
"""Each field with its maximum length, in characters of four bytes."""


def largest_transaction(number: int = 0) -> Transaction:
    """Each number gives another transaction id."""
    return Transaction(
        transaction_id=chr(0x20000 + number) * 128, account_id="\U0001f3e6" * 128, currency="EUR", **LARGEST
    )


def largest_transfer(number: int = 0) -> Transfer:
    """Each number gives another transaction id."""
    return Transfer(
        transaction_id=chr(0x20000 + number) * 128,
        from_account_id="\U0001f3e6" * 128,
        to_account_id="\U0001f3e7" * 128,
        **LARGEST,
    )


def transaction_body(**fields: str | None) -> str:
    """A transaction's body. Fields are given in JSON, or as None to leave one out."""
    return _body({"transaction_id": '"t-1"', "account_id": '"alice"', "amount": "1"} | fields)


def transfer_body(**fields: str | None) -> str:
    start = {
        "type": '"transfer"',
        "transaction_id": '"t-1"',
        "from_account_id": '"alice"',
        "to_account_id": '"bob"',
        "amount": "1",
    }
    return _body(start | fields)


def opening_body(**fields: str | None) -> str:
    start = {"type": '"open_account"', "transaction_id": '"t-1"', "account_id": '"alice"', "currency": '"EUR"'}
    return _body(start | fields)


def limit_body(**fields: str | None) -> str:
    start = {
        "type": '"set_overdraft_limit"',
        "transaction_id": '"t-1"',
        "account_id": '"alice"',
        "overdraft_limit": "0",
    }
    return _body(start | fields)


def interest_body(**fields: str | None) -> str:
    start = {"type": '"charge_interest"', "transaction_id": '"t-1"', "account_id": '"alice"', "annual_rate": "0.12"}
    return _body(start | fields)


def hold_body(**fields: str | None) -> str:
    start = {"type": '"hold"', "transaction_id": '"t-1"', "account_id": '"alice"', "amount": "1"}
    return _body(start | fields)


def posting_body(**fields: str | None) -> str:
    start = {"type": '"post_hold"', "transaction_id": '"t-1"', "account_id": '"alice"', "hold_id": '"h-1"'}
    return _body(start | fields)


def expiry_body(**fields: str | None) -> str:
    return posting_body(**{"type": '"expire_hold"', "as_of": '"2026-03-01T12:00:00Z"'} | fields)


def reversal_body(**fields: str | None) -> str:
    start = {"type": '"reverse"', "transaction_id": '"t-1"', "account_id": '"alice"', "of_transaction_id": '"t-0"'}
    return _body(start | fields)


def profile_body(**fields: str | None) -> str:
    return _body({"account_id": '"alice"', "path": '["preferences"]', "entries": '{"theme": "dark"}'} | fields)


def erasure_body(**fields: str | None) -> str:
    return _body({"type": '"erase_profile"', "account_id": '"alice"'} | fields)


def _body(fields: dict[str, str | None]) -> str:
    return "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items() if value is not None) + "}"


def in_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def life_of(account_id: str) -> list[dict[str, Any]]:
    """The messages of an account from its opening to its closing, of all types with one account: all are posted.

    A message has the number of its step as its id, unless the step gives another.
    """
    steps: list[dict[str, Any]] = [
        {"type": "open_account", "currency": "EUR"},
        {"type": "set_overdraft_limit", "overdraft_limit": -1},
        {"type": "transaction", "amount": 50},
        {"type": "hold", "amount": 10, "expires_at": "2026-01-31T00:00:00Z"},
        {"type": "expire_hold", "hold_id": "3", "as_of": "2026-01-31T00:00:00Z"},
        {"type": "hold", "amount": 10},
        {"type": "void_hold", "hold_id": "5"},
        {"type": "hold", "amount": 10},
        {"type": "post_hold", "hold_id": "7"},
        {"type": "reverse", "of_transaction_id": "8"},
        {"type": "charge_interest", "annual_rate": "0.12"},
        {"type": "transaction", "amount": -50},
        {"type": "close_account"},
    ]
    return [{"account_id": account_id, "transaction_id": str(number)} | step for number, step in enumerate(steps)]
