"""A credit or a debit of the time before an account was imported, as the other system posted it.

No queue takes it: `teller import --history` makes the entries, for new tables. They are closed: they explain the
balance with which the account is imported, and aren't part of it. The import's amount is the whole balance.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar, override

from ledger.core.accounts import Account, AccountStatus
from ledger.core.rules import Decision, RejectionReason, moved_whatever_the_limit, rejected
from ledger.core.transaction_types.base import AccountMessage, Context, Currency, NumberRange


class HistoricTransaction(AccountMessage, frozen=True, tag="historic_transaction"):
    """Its entry's `posted_at` is the other system's time."""

    numbers: ClassVar[tuple[tuple[str, NumberRange], ...]] = (("amount", NumberRange.ANY),)

    amount: Decimal
    currency: Currency

    @property
    @override
    def is_counted(self) -> bool:
        return False  # it was posted before any limit was set

    @override
    def decide(self, accounts: Sequence[Account | None], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        account = account or self.opened_account(None)
        if account.status is not AccountStatus.HISTORIC:
            return (rejected(account, RejectionReason.ACCOUNT_EXISTS),)
        if account.currency != self.currency:
            return (rejected(account, RejectionReason.CURRENCY_MISMATCH),)
        return (moved_whatever_the_limit(account, self.amount),)

    @override
    def opened_account(self, decimal_places: int | None) -> Account:
        zero = Decimal(0)
        return Account(self.account_id, zero, zero, self.currency, AccountStatus.HISTORIC, version=0)
