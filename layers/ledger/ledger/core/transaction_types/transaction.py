"""A debit (`amount` < 0) or a credit (`amount` > 0) of one account."""

from collections.abc import Sequence
from decimal import Decimal

from ledger.core.accounts import Account
from ledger.core.rules import Decision, RejectionReason, moved, rejected
from ledger.core.transaction_types.base import AccountMessage, Context, Currency, NumberRange


class Transaction(AccountMessage, frozen=True, tag="transaction"):
    """`currency` is optional; if it is given, it must be the account's."""

    numbers = (("amount", NumberRange.NOT_ZERO),)

    amount: Decimal
    currency: Currency | None = None

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        if self.currency not in (None, account.currency):
            return (rejected(account, RejectionReason.CURRENCY_MISMATCH),)
        return (moved(account, self.amount),)
