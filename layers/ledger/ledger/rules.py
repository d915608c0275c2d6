"""The rules: what a message does to an account. Pure functions: change these to your own.

Every decision, a rejection too, is about one version of the account and makes the next one. So the journal in version
order is the account's whole story, and `decide` replays it.
"""

from decimal import Decimal, Inexact, Overflow
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from conditional_writes import EXACT
from ledger.accounts import Account, AccountStatus
from ledger.messages import CloseAccount, Message, OpenAccount, SetOverdraftLimit, Transaction


class Status(StrEnum):
    POSTED = "POSTED"
    REJECTED = "REJECTED"


class Reason(StrEnum):
    """Why a transaction was rejected. Recorded, and never decided again."""

    ACCOUNT_CLOSED = "ACCOUNT_CLOSED"
    ACCOUNT_EXISTS = "ACCOUNT_EXISTS"
    BALANCE_NOT_ZERO = "BALANCE_NOT_ZERO"
    BALANCE_OUT_OF_RANGE = "BALANCE_OUT_OF_RANGE"  # it would need more than 38 digits
    CURRENCY_MISMATCH = "CURRENCY_MISMATCH"
    OVERDRAFT_LIMIT = "OVERDRAFT_LIMIT"


class UnknownAccount(Exception):
    """There is no such account, or not yet: its opening may still be on the way, so nothing is decided."""


class Decision(Struct, frozen=True):
    """`account` is as it is afterwards, one version on; `amount` is the effect on its balance, 0 for a rejection."""

    account: Account
    amount: Decimal
    reason: Reason | None = None

    @property
    def status(self) -> Status:
        return Status.REJECTED if self.reason else Status.POSTED


def decide(message: Message, account: Account | None) -> Decision:
    """What becomes of `message`, the account being as it is. Raises UnknownAccount."""
    if account is None:
        if not isinstance(message, OpenAccount):
            raise UnknownAccount(f"account_id: no account {message.account_id!r} has been opened")
        return _posted(_opened(message))
    match message:
        case OpenAccount():
            return _rejected(account, Reason.ACCOUNT_EXISTS)
        case _ if account.status is AccountStatus.CLOSED:
            return _rejected(account, Reason.ACCOUNT_CLOSED)
        case Transaction():
            return _transaction(account, message)
        case SetOverdraftLimit(overdraft_limit=limit):
            if account.balance < limit:
                return _rejected(account, Reason.OVERDRAFT_LIMIT)
            return _posted(replace(account, overdraft_limit=limit))
        case CloseAccount():
            if account.balance != 0:
                return _rejected(account, Reason.BALANCE_NOT_ZERO)
            return _posted(replace(account, status=AccountStatus.CLOSED))
    raise AssertionError(f"no rule for {type(message).__name__}")


def _opened(message: OpenAccount) -> Account:
    return Account(
        account_id=message.account_id,
        balance=Decimal(0),
        overdraft_limit=message.overdraft_limit,
        currency=message.currency,
        status=AccountStatus.OPEN,
        version=0,
    )


def _transaction(account: Account, message: Transaction) -> Decision:
    if message.currency not in (None, account.currency):
        return _rejected(account, Reason.CURRENCY_MISMATCH)
    try:
        balance = EXACT.add(account.balance, message.amount)
    except (Inexact, Overflow):
        return _rejected(account, Reason.BALANCE_OUT_OF_RANGE)
    if message.amount < 0 and balance < account.overdraft_limit:
        return _rejected(account, Reason.OVERDRAFT_LIMIT)
    return _posted(replace(account, balance=balance), message.amount)


def _posted(account: Account, amount: Decimal = Decimal(0)) -> Decision:
    assert account.balance >= account.overdraft_limit, f"{account} would be below its limit"
    return Decision(replace(account, version=account.version + 1), amount)


def _rejected(account: Account, reason: Reason) -> Decision:
    return Decision(replace(account, version=account.version + 1), Decimal(0), reason)
