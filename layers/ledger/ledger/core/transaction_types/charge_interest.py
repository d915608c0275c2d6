"""Debits a day's overdraft interest, if the balance is below zero when the transaction is decided.

The message has a rate and no amount: if it is sent again after the balance has moved, it still is the same message.
"""

from collections.abc import Sequence
from decimal import Decimal, Inexact, Overflow
from fractions import Fraction

from ledger.core.accounts import Account
from ledger.core.money import EXACT, normalized
from ledger.core.rules import Decision, RejectionReason, moved, posted, rejected
from ledger.core.transaction_types.base import AccountMessage, Context, Range

DAYS_PER_YEAR = 365
"""In a leap year, too."""
DECIMAL_PLACES = 2
"""Of the interest of an account without a rule for its amounts, in every currency."""


class ChargeInterest(AccountMessage, frozen=True, tag="charge_interest"):
    """A day's interest is rounded once, half to even, to the account's decimal places.

    Interest of zero, or of less than half a unit, is posted with the amount 0.
    """

    numbers = (("annual_rate", Range.RATE),)

    annual_rate: Decimal

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        exactly = -Fraction(account.balance) * Fraction(self.annual_rate) / DAYS_PER_YEAR
        places = DECIMAL_PLACES if account.decimal_places is None else account.decimal_places
        units = round(exactly * 10**places)
        if units <= 0:
            return (posted(account),)
        try:
            interest = normalized(EXACT.scaleb(EXACT.plus(Decimal(units)), -places))
        except (Inexact, Overflow):
            return (rejected(account, RejectionReason.BALANCE_OUT_OF_RANGE),)
        return (moved(account, interest.copy_negate()),)
