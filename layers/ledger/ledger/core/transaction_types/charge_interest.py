"""Debits a day's overdraft interest, if the balance is below zero when the transaction is decided.

The message has a rate and no amount: if it is sent again after the balance has moved, it still is the same message.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, Inexact, Overflow
from fractions import Fraction
from typing import Self

from ledger.core.accounts import Account
from ledger.core.decoding import TELLERS_OWN
from ledger.core.rules import Decision, RejectionReason, moved_within_limit, posted, rejected, rounded_to_unit
from ledger.core.transaction_types.base import AccountMessage, Context, Door, NumberRange

DAYS_PER_YEAR = 365
"""In a leap year, too."""


class ChargeInterest(AccountMessage, frozen=True, tag="charge_interest"):
    """A day's interest is rounded once, half to even, to the account's decimal places.

    Interest of zero, or of less than half a unit, is posted with the amount 0.
    """

    door = Door.ADMINISTRATION
    numbers = (("annual_rate", NumberRange.RATE),)

    job_prefix = f"{TELLERS_OWN}overdraft-interest-"

    annual_rate: Decimal

    @classmethod
    def of_day(cls, account_id: str, day: date, annual_rate: Decimal) -> Self:
        """The job's message for a day. It depends on the arguments alone, so a second message is a repetition.

        Its transaction id ends with a short hash of the account id: the ids of one day's messages differ, as in a log.
        """
        account_hash = hashlib.sha256(account_id.encode()).hexdigest()[:16]
        return cls(
            transaction_id=f"{cls.job_prefix}{day}-{account_hash}",
            account_id=account_id,
            annual_rate=annual_rate,
            occurred_at=datetime(day.year, day.month, day.day, tzinfo=UTC),
            description=f"Overdraft interest for {day}",
        )

    @property
    def of_job(self) -> Self | None:
        """That of the day of `occurred_at`, at the message's own rate: the job's is not known here."""
        if self.occurred_at is None:
            return None
        return self.of_day(self.account_id, self.occurred_at.astimezone(UTC).date(), self.annual_rate)

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        exactly = -Fraction(account.balance) * Fraction(self.annual_rate) / DAYS_PER_YEAR
        if exactly <= 0:
            return (posted(account),)
        try:
            interest = rounded_to_unit(account, exactly)
        except (Inexact, Overflow):
            return (rejected(account, RejectionReason.BALANCE_OUT_OF_RANGE),)
        return (moved_within_limit(account, interest.copy_negate()) if interest else posted(account),)
