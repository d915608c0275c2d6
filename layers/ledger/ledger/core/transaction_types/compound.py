"""Moves amounts among 2 to 20 accounts in one decision: all legs are posted, or all are rejected.

A transfer is the case of two. So no fee is taken without its payment, and no payment made without its fee.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated, override

import msgspec
from msgspec.structs import force_setattr

from ledger.core.accounts import Account
from ledger.core.decoding import Id
from ledger.core.money import WIDE, exact, format_decimal
from ledger.core.rules import Decision, RejectionReason, all_or_none, all_rejected, moved
from ledger.core.transaction_types.base import Context, NumberRange, TransactionMessage, check_decimals

MOST_LEGS = 20
"""Each has an entry and an account in the commit, of whose 100 items a `compound` takes 40 at most."""


class Leg(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`amount` is added to the account's balance: below zero it is a debit."""

    account_id: Id
    amount: Decimal


Legs = Annotated[tuple[Leg, ...], msgspec.Meta(min_length=2, max_length=MOST_LEGS)]


class Compound(TransactionMessage, frozen=True, tag="compound"):
    """Its home is the account of the first leg."""

    account_fields = ()

    legs: Legs

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "legs", tuple(_exact(number, leg) for number, leg in enumerate(self.legs, 1)))
        for account_id, times in Counter(self.account_ids).items():
            if times > 1:
                raise ValueError(f"legs: expected each account once, got {times} legs of {account_id!r}")
        if amount := _sum(leg.amount for leg in self.legs):
            raise ValueError(f"legs: the amounts sum to {format_decimal(amount)}, expected 0")

    @property
    @override
    def account_ids(self) -> tuple[str, ...]:
        return tuple(leg.account_id for leg in self.legs)

    @override
    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        """If several accounts have a reason for a rejection, that of the first one in the legs' order counts."""
        moves = [(account, leg.amount) for account, leg in zip(accounts, self.legs, strict=True)]
        for currency in {account.currency for account in accounts}:
            if _sum(amount for account, amount in moves if account.currency == currency):
                return all_rejected(accounts, RejectionReason.CURRENCY_MISMATCH)
        return all_or_none(accounts, [moved(account, amount) for account, amount in moves])

    @override
    def _check_decimals_of(self, accounts: Sequence[Account]) -> None:
        """An amount keeps to the decimals of its own account."""
        for number, (leg, account) in enumerate(zip(self.legs, accounts, strict=True), 1):
            if account.decimal_places is not None:
                check_decimals(f"legs: {number}: amount", leg.amount, account.decimal_places, account.currency)

    @override
    def _field_of(self, account_id: str) -> str:
        return f"legs: {self.account_ids.index(account_id) + 1}: account_id"


def _exact(number: int, leg: Leg) -> Leg:
    field = f"legs: {number}: amount"
    amount = exact(field, leg.amount)
    if amount == 0:
        raise ValueError(f"{field}: expected {NumberRange.NOT_ZERO.value}")
    return Leg(leg.account_id, amount)


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    total = Decimal(0)
    for amount in amounts:
        total = WIDE.add(total, amount)
    return total
