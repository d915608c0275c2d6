"""A debit (`amount` < 0) or a credit (`amount` > 0) of one account."""

from collections.abc import Sequence
from decimal import Decimal
from typing import override

from ledger.core.accounts import Account
from ledger.core.rules import Decision, RejectionReason, forced, moved, rejected
from ledger.core.transaction_types.base import AccountMessage, Context, Currency, Door, NumberRange


class Transaction(AccountMessage, frozen=True, tag="transaction"):
    """`currency` is optional; if it is given, it must be the account's. A debit may be `forced`."""

    pool_fields = ("account_id",)
    numbers = (("amount", NumberRange.NOT_ZERO),)

    amount: Decimal
    currency: Currency | None = None
    forced: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.forced and self.amount > 0:
            raise ValueError("forced: expected a debit, whose amount is below zero")

    @property
    @override
    def own_door(self) -> Door:
        return Door.ADMINISTRATION if self.forced else self.door

    @property
    @override
    def missing_side(self) -> str:
        return "type: expected a transfer or a compound"

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        if self.currency not in (None, account.currency):
            return (rejected(account, RejectionReason.CURRENCY_MISMATCH),)
        return (forced(account, self.amount) if self.forced else moved(account, self.amount),)
