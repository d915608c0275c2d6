"""Moves an amount from one account to another: both sides are posted, or both are rejected. It may be `forced`."""

from collections.abc import Sequence
from decimal import Decimal
from typing import override

from ledger.core.accounts import Account
from ledger.core.decoding import Id
from ledger.core.rules import Decision, RejectionReason, all_or_none, all_rejected, forced, moved
from ledger.core.transaction_types.base import Context, Door, NumberRange, TransactionMessage


class Transfer(TransactionMessage, frozen=True, tag="transfer"):
    account_fields = ("from_account_id", "to_account_id")
    pool_fields = account_fields
    numbers = (("amount", NumberRange.ABOVE_ZERO),)

    from_account_id: Id
    to_account_id: Id
    amount: Decimal
    forced: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to_account_id == self.from_account_id:
            raise ValueError("to_account_id: expected another account than from_account_id")

    @property
    @override
    def own_door(self) -> Door:
        return Door.ADMINISTRATION if self.forced else self.door

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        """If both accounts have a reason for a rejection, the payer's counts."""
        payer, payee = accounts
        if payer.currency != payee.currency:
            return all_rejected(accounts, RejectionReason.CURRENCY_MISMATCH)
        if self.forced:
            return all_or_none(accounts, [forced(payer, self.amount.copy_negate()), forced(payee, self.amount)])
        return all_or_none(accounts, [moved(payer, self.amount.copy_negate()), moved(payee, self.amount)])
