"""A decision: what the rules make of a transaction for one account. Posted or rejected, and the balance afterwards."""

from collections.abc import Sequence
from decimal import Decimal, Inexact, Overflow
from enum import StrEnum

from msgspec import Struct

from ledger.core.accounts import Account, AccountStatus
from ledger.core.money import EXACT, normalized


class Status(StrEnum):
    POSTED = "POSTED"
    REJECTED = "REJECTED"


class RejectionReason(StrEnum):
    """Why a transaction was rejected. A rejection is recorded, and never decided again."""

    ACCOUNT_CLOSED = "ACCOUNT_CLOSED"
    ACCOUNT_EXISTS = "ACCOUNT_EXISTS"
    BALANCE_NOT_ZERO = "BALANCE_NOT_ZERO"
    BALANCE_OUT_OF_RANGE = "BALANCE_OUT_OF_RANGE"  # the balance would need more than 38 digits
    CURRENCY_MISMATCH = "CURRENCY_MISMATCH"
    OVERDRAFT_LIMIT = "OVERDRAFT_LIMIT"


class Decision(Struct, frozen=True):
    """`amount` is the effect on the balance (0 if rejected), `balance` the account's balance afterwards.

    `reason` is a RejectionReason, or None if the transaction is posted.
    """

    amount: Decimal
    balance: Decimal
    reason: str | None = None

    @property
    def status(self) -> Status:
        return Status.REJECTED if self.reason else Status.POSTED


def common_rejection(accounts: Sequence[Account]) -> tuple[Decision, ...] | None:
    """The rules of every transaction type: a decision for each account, if one of these rules rejects."""
    if any(account.status is AccountStatus.CLOSED for account in accounts):
        return tuple(rejected(account, RejectionReason.ACCOUNT_CLOSED) for account in accounts)
    return None


def posted(account: Account) -> Decision:
    """Posted, with no effect on the balance."""
    return Decision(Decimal(0), account.balance)


def rejected(account: Account, reason: str) -> Decision:
    """Rejected with a RejectionReason, with no effect on the balance."""
    return Decision(Decimal(0), account.balance, reason)


def moved(account: Account, amount: Decimal) -> Decision:
    """A debit (`amount` < 0) or a credit.

    A debit below the overdraft limit is rejected, and so is a balance that DynamoDB can't hold exactly.
    """
    try:
        balance = normalized(EXACT.add(account.balance, amount))
    except (Inexact, Overflow):
        return rejected(account, RejectionReason.BALANCE_OUT_OF_RANGE)
    if amount < 0 and balance < account.overdraft_limit:
        return rejected(account, RejectionReason.OVERDRAFT_LIMIT)
    return Decision(amount, balance)
