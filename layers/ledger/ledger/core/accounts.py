"""An account, as the rules (`rules.py`) see it and as an item of the Accounts table."""

from decimal import Decimal
from enum import StrEnum
from typing import Any

from msgspec import Struct

from ledger.core.attributes import attribute, version


class AccountStatus(StrEnum):
    OPEN = "OPEN"
    CLOSED = "CLOSED"


class Account(Struct, frozen=True):
    """`overdraft_limit` is at most 0, and `balance` never below it. Every journal entry takes the next `version`.

    `posted_at` is that of the last journal entry; None if an earlier release wrote the account last.
    """

    account_id: str
    balance: Decimal
    overdraft_limit: Decimal
    currency: str
    status: AccountStatus
    version: int
    posted_at: str | None = None


def account_item(account: Account) -> dict[str, Any]:
    """The account as an item, without the attributes that `conditional_writes` adds."""
    item = {
        "account_id": account.account_id,
        "balance": account.balance,
        "overdraft_limit": account.overdraft_limit,
        "currency": account.currency,
        "status": str(account.status),
        "version": account.version,
    }
    return item | ({"posted_at": account.posted_at} if account.posted_at else {})


def account_from_item(item: dict[str, Any]) -> Account:
    """The account in an item. Raises KeyError, TypeError or ValueError for an item that is no account."""
    return Account(
        account_id=item["account_id"],
        balance=attribute(item, "balance", Decimal),
        overdraft_limit=attribute(item, "overdraft_limit", Decimal),
        currency=attribute(item, "currency", str),
        status=AccountStatus(item["status"]),
        version=version(item, "version"),
        posted_at=attribute(item, "posted_at", str) if "posted_at" in item else None,
    )
