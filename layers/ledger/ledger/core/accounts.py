"""An account, as the rules see it."""

from decimal import Decimal
from enum import StrEnum

from msgspec import Struct


class AccountStatus(StrEnum):
    OPEN = "OPEN"
    CLOSED = "CLOSED"


class Account(Struct, frozen=True):
    """`overdraft_limit` is at most 0, and `balance` never below it. Every journal entry takes the next `version`."""

    account_id: str
    balance: Decimal
    overdraft_limit: Decimal
    currency: str
    status: AccountStatus
    version: int
