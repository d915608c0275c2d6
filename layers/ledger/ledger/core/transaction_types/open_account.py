"""Opens an account, at balance 0."""

from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar

from msgspec.structs import replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.rules import Decision, RejectionReason, posted, rejected
from ledger.core.transaction_types.base import AccountMessage, Context, Currency, Door, NumberRange


class OpenAccount(AccountMessage, frozen=True, tag="open_account"):
    door = Door.ADMINISTRATION
    numbers: ClassVar[tuple[tuple[str, NumberRange], ...]] = (("overdraft_limit", NumberRange.ZERO_OR_LESS),)
    posted_event = "AccountOpened"

    currency: Currency
    overdraft_limit: Decimal = Decimal(0)

    def decide(self, accounts: Sequence[Account | None], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        if account is not None:
            return (rejected(account, RejectionReason.ACCOUNT_EXISTS),)
        decimal_places = context.minor_units(self.currency)
        self._check_decimals(decimal_places, self.currency)
        return (replace(posted(self.opened_account(decimal_places)), decimal_places=decimal_places),)

    def opened_account(self, decimal_places: int | None) -> Account:
        return Account(
            account_id=self.account_id,
            balance=Decimal(0),
            overdraft_limit=self.overdraft_limit,
            currency=self.currency,
            status=AccountStatus.OPEN,
            version=0,
            decimal_places=decimal_places,
        )
