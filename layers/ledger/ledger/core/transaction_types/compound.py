"""Moves amounts among 2 to 20 accounts in one decision: all legs are posted, or all are rejected.

A transfer is the case of two. So no fee is taken without its payment, and no payment made without its fee.
"""

from collections.abc import Mapping, Sequence
from typing import Self, override

from msgspec.structs import force_setattr, replace

from ledger.core.accounts import Account
from ledger.core.rules import Decision, RejectionReason, all_or_none, all_rejected, moved
from ledger.core.transaction_types.base import Context, NumberRange, TransactionMessage
from ledger.core.transaction_types.legs import Legs, check_decimals_of_legs, checked_legs, field_of_leg, legs_on_shards
from ledger.core.values import format_decimal, sum_of


class Compound(TransactionMessage, frozen=True, tag="compound"):
    """Its home is the account of the first leg."""

    account_fields = ()
    nested = ("legs",)

    legs: Legs

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "legs", checked_legs(self.legs, NumberRange.NOT_ZERO))
        if amount := sum_of(leg.amount for leg in self.legs):
            raise ValueError(f"legs: the amounts sum to {format_decimal(amount)}, expected 0")

    @property
    @override
    def account_ids(self) -> tuple[str, ...]:
        return tuple(leg.account_id for leg in self.legs)

    @property
    @override
    def possible_pools(self) -> tuple[str, ...]:
        return self.account_ids

    @override
    def on_shards(self, numbers: Mapping[str, int]) -> Self:
        return replace(self, legs=legs_on_shards(self.legs, numbers)) if numbers else self

    @override
    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        """If several accounts have a reason for a rejection, that of the first one in the legs' order counts."""
        moves = [(account, leg.amount) for account, leg in zip(accounts, self.legs, strict=True)]
        for currency in {account.currency for account in accounts}:
            if sum_of(amount for account, amount in moves if account.currency == currency):
                return all_rejected(accounts, RejectionReason.CURRENCY_MISMATCH)
        return all_or_none(accounts, [moved(account, amount) for account, amount in moves])

    @override
    def _check_decimals(self, accounts: Sequence[Account]) -> None:
        check_decimals_of_legs(self.legs, accounts)

    @override
    def _field_of(self, account_id: str) -> str:
        return field_of_leg(self.legs, account_id)
