"""Sets the annual rate of an account's overdraft interest. An account has none unless it is set."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.rules import Decision, posted
from ledger.core.transaction_types.base import AccountMessage, Context, Door, NumberRange


class SetInterest(AccountMessage, frozen=True, tag="set_interest"):
    """Interest that has accrued at the rate before becomes due. A rate of 0 ends the interest."""

    door = Door.ADMINISTRATION
    numbers = (("annual_rate", NumberRange.RATE),)
    posted_event = "InterestRateSet"

    annual_rate: Decimal

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        return tuple(map(posted, accounts))

    def changes(self, account: Account) -> Mapping[str, Any]:
        return {"interest": replace(account.interest.made_due(account.decimal_places), rate=self.annual_rate)}
