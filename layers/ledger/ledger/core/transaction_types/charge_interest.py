"""Debits the overdraft interest that is due, whatever the overdraft limit."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, Inexact, Overflow
from typing import Any, Self

from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.decoding import TELLERS_OWN, Time
from ledger.core.money import normalized
from ledger.core.rules import Decision, RejectionReason, moved_whatever_the_limit, posted, rejected
from ledger.core.transaction_types.base import AccountMessage, Context, Door


class ChargeInterest(AccountMessage, frozen=True, tag="charge_interest"):
    """Charges all that is due at its posting. `until` is the end of the month for which the job sent the message.

    If nothing is due, it is posted with the amount 0.
    """

    door = Door.ADMINISTRATION
    job_prefix = f"{TELLERS_OWN}overdraft-interest-"

    until: Time

    @classmethod
    def at(cls, account_id: str, month_end: datetime) -> Self:
        """The job's message at the end of a month. It depends on the arguments alone, so a second one is a repetition.

        Its transaction id ends with a short hash of the account id: the ids of one day's messages differ, as in a log.
        """
        account_hash = hashlib.sha256(account_id.encode()).hexdigest()[:16]
        day = month_end.astimezone(UTC).date()
        return cls(
            transaction_id=f"{cls.job_prefix}{day}-{account_hash}",
            account_id=account_id,
            until=datetime(day.year, day.month, day.day, tzinfo=UTC),
            description=f"Overdraft interest until {day}",
        )

    @property
    def of_job(self) -> Self:
        return self.at(self.account_id, self.until)

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        if not account.interest.due:
            return (posted(account),)
        try:
            amount = normalized(account.interest.due.copy_negate())
        except (Inexact, Overflow):
            return (rejected(account, RejectionReason.BALANCE_OUT_OF_RANGE),)
        return (moved_whatever_the_limit(account, amount),)

    def changes(self, account: Account) -> Mapping[str, Any]:
        return {"interest": replace(account.interest, due=Decimal(0))}
