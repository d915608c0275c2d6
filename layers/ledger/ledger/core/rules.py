"""A decision: what the rules make of a transaction for one account. Posted or rejected, and the balance afterwards."""

from collections.abc import Sequence
from decimal import Decimal, Inexact, Overflow
from enum import StrEnum

from msgspec import Struct

from ledger.core.accounts import Account, AccountStatus
from ledger.core.money import EXACT, normalized
from ledger.core.reversals import Reversal


class Status(StrEnum):
    POSTED = "POSTED"
    REJECTED = "REJECTED"


class RejectionReason(StrEnum):
    """Why a transaction was rejected. A rejection is recorded, and never decided again."""

    ACCOUNT_CLOSED = "ACCOUNT_CLOSED"
    ACCOUNT_EXISTS = "ACCOUNT_EXISTS"
    ALREADY_REVERSED = "ALREADY_REVERSED"
    BALANCE_NOT_ZERO = "BALANCE_NOT_ZERO"
    BALANCE_OUT_OF_RANGE = "BALANCE_OUT_OF_RANGE"  # the balance, or the sum of the holds, would need over 38 digits
    CURRENCY_MISMATCH = "CURRENCY_MISMATCH"
    HOLDS_OPEN = "HOLDS_OPEN"
    HOLD_EXCEEDED = "HOLD_EXCEEDED"
    HOLD_NOT_EXPIRED = "HOLD_NOT_EXPIRED"
    HOLD_NOT_OPEN = "HOLD_NOT_OPEN"
    NOT_REVERSIBLE = "NOT_REVERSIBLE"
    OVERDRAFT_LIMIT = "OVERDRAFT_LIMIT"
    REVERSAL_EXCEEDED = "REVERSAL_EXCEEDED"
    TOO_MANY_HOLDS = "TOO_MANY_HOLDS"


class Decision(Struct, frozen=True):
    """`amount` is the effect on the balance (0 if rejected), `balance` the account's balance afterwards.

    `reason` is a RejectionReason, or None if the transaction is posted. `decimal_places` are those of the account that
    the transaction opens. `reversal` is that of a `reverse`, posted or rejected.
    """

    amount: Decimal
    balance: Decimal
    reason: str | None = None
    decimal_places: int | None = None
    reversal: Reversal | None = None

    @property
    def status(self) -> Status:
        return Status.REJECTED if self.reason else Status.POSTED


def common_rejection(accounts: Sequence[Account]) -> tuple[Decision, ...] | None:
    """The rules of every transaction type: a decision for each account, if one of these rules rejects."""
    if any(account.status is AccountStatus.CLOSED for account in accounts):
        return all_rejected(accounts, RejectionReason.ACCOUNT_CLOSED)
    return None


def posted(account: Account) -> Decision:
    """Posted, with no effect on the balance."""
    return Decision(Decimal(0), account.balance)


def rejected(account: Account, reason: str) -> Decision:
    """Rejected with a RejectionReason, with no effect on the balance."""
    return Decision(Decimal(0), account.balance, reason)


def all_rejected(accounts: Sequence[Account], reason: str) -> tuple[Decision, ...]:
    """Rejected on each of the accounts."""
    return tuple(rejected(account, reason) for account in accounts)


def moved(account: Account, amount: Decimal) -> Decision:
    """A debit (`amount` < 0) or a credit.

    A debit below the overdraft limit, or of held money, is rejected. So is a balance that DynamoDB can't hold exactly.
    """
    try:
        balance = normalized(EXACT.add(account.balance, amount))
    except (Inexact, Overflow):
        return rejected(account, RejectionReason.BALANCE_OUT_OF_RANGE)
    if amount < 0 and account.available < amount.copy_negate():
        return rejected(account, RejectionReason.OVERDRAFT_LIMIT)
    return Decision(amount, balance)
