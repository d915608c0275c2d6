"""The rules: what a message does to its accounts. Pure functions: change these to your own.

Every decision, a rejection too, is about one version of an account and makes the next one. So the journal in version
order is the account's whole story, and `decide` replays it.
"""

from collections.abc import Sequence
from decimal import Decimal, Inexact, Overflow
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from conditional_writes import EXACT
from ledger.accounts import Account, AccountStatus
from ledger.decoding import normalized
from ledger.messages import (
    ChargeInterest,
    CloseAccount,
    Message,
    OpenAccount,
    SetOverdraftLimit,
    Transaction,
    Transfer,
)

DAYS_PER_YEAR = 365
"""In a leap year, too."""
INTEREST_UNIT = Decimal("0.01")
"""A day's interest is rounded to a multiple of this, half to even. Whatever the currency."""


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


def decide(message: Message, *accounts: Account | None) -> tuple[Decision, ...]:
    """What becomes of `message`: a decision for each of its accounts. Raises UnknownAccount.

    `accounts` are those of `message.account_ids`, as they are and in that order; None for one that isn't there.
    """
    if isinstance(message, OpenAccount):
        [account] = accounts
        return (_posted(_opened(message)) if account is None else _rejected(account, Reason.ACCOUNT_EXISTS),)
    known = _known(message, accounts)
    if any(account.status is AccountStatus.CLOSED for account in known):
        return tuple(_rejected(account, Reason.ACCOUNT_CLOSED) for account in known)
    if isinstance(message, Transfer):
        return _transfer(message, *known)
    return (_change(message, *known),)


def _known(message: Message, accounts: Sequence[Account | None]) -> list[Account]:
    known = []
    for field, account_id, account in zip(message.account_fields, message.account_ids, accounts, strict=True):
        if account is None:
            raise UnknownAccount(f"{field}: no account {account_id!r} has been opened")
        known.append(account)
    return known


def _transfer(message: Transfer, payer: Account, payee: Account) -> tuple[Decision, Decision]:
    """A debit and a credit, both posted; or both rejected, for the first reason there is."""
    debit = _movement(payer, message.amount.copy_negate(), payee.currency)
    credit = _movement(payee, message.amount, payer.currency)
    reason = debit.reason or credit.reason
    return (_rejected(payer, reason), _rejected(payee, reason)) if reason else (debit, credit)


def _change(message: Message, account: Account) -> Decision:
    match message:
        case Transaction(amount=amount, currency=currency):
            return _movement(account, amount, currency or account.currency)
        case SetOverdraftLimit(overdraft_limit=limit):
            if account.balance < limit:
                return _rejected(account, Reason.OVERDRAFT_LIMIT)
            return _posted(replace(account, overdraft_limit=limit))
        case CloseAccount():
            if account.balance != 0:
                return _rejected(account, Reason.BALANCE_NOT_ZERO)
            return _posted(replace(account, status=AccountStatus.CLOSED))
        case ChargeInterest(annual_rate=annual_rate):
            return _interest(account, annual_rate)
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


def _movement(account: Account, amount: Decimal, currency: str) -> Decision:
    if currency != account.currency:
        return _rejected(account, Reason.CURRENCY_MISMATCH)
    try:
        balance = normalized(EXACT.add(account.balance, amount))
    except (Inexact, Overflow):
        return _rejected(account, Reason.BALANCE_OUT_OF_RANGE)
    if amount < 0 and balance < account.overdraft_limit:
        return _rejected(account, Reason.OVERDRAFT_LIMIT)
    return _posted(replace(account, balance=balance), amount)


def _interest(account: Account, annual_rate: Decimal) -> Decision:
    """A day's interest on what the account is below zero: a debit like another, rejected below the limit.

    Posted with the amount 0 where there is none, or less than half a unit.
    """
    exactly = -Fraction(account.balance) * Fraction(annual_rate) / DAYS_PER_YEAR
    units = round(exactly / Fraction(INTEREST_UNIT))  # once, and half to even
    if units <= 0:
        return _posted(account)
    try:
        debit = normalized(EXACT.multiply(Decimal(-units), INTEREST_UNIT))
    except (Inexact, Overflow):
        return _rejected(account, Reason.BALANCE_OUT_OF_RANGE)
    return _movement(account, debit, account.currency)


def _posted(account: Account, amount: Decimal = Decimal(0)) -> Decision:
    assert account.balance >= account.overdraft_limit, f"{account} would be below its limit"
    return Decision(replace(account, version=account.version + 1), amount)


def _rejected(account: Account, reason: Reason) -> Decision:
    return Decision(replace(account, version=account.version + 1), Decimal(0), reason)
