"""Debits the overdraft interest that is due, whatever the overdraft limit: to an account, or out of the ledger."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, Inexact, Overflow
from typing import Any, Self, override

from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.decoding import TELLERS_OWN, Id, Time
from ledger.core.interest import Interest
from ledger.core.journal import Outcome
from ledger.core.rules import (
    Decision,
    RejectionReason,
    StandIn,
    Status,
    all_or_none,
    all_rejected,
    moved_whatever_the_limit,
    posted,
    too_much_for,
)
from ledger.core.transaction_types.base import AccountMessage, Context, Door, plain_stand_in
from ledger.core.values import normalized


class ChargeInterest(AccountMessage, frozen=True, tag="charge_interest"):
    """Charges all that is due at its posting. `until` is the end of the month for which the job sent the message.

    If nothing is due, it is posted with the amount 0. The account in `to_account_id` gets the interest.
    """

    door = Door.ADMINISTRATION
    account_fields = ("account_id", "to_account_id")
    pool_fields = ("to_account_id",)
    job_prefix = f"{TELLERS_OWN}overdraft-interest-"

    until: Time
    to_account_id: Id | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to_account_id == self.account_id:
            raise ValueError("to_account_id: expected another account than account_id")

    @classmethod
    def at(cls, account_id: str, month_end: datetime, to_account_id: str | None = None) -> Self:
        """The job's message at the end of a month. It depends on the arguments alone, so a second one is a repetition.

        Its transaction id ends with a short hash of the account id: the ids of one day's messages differ, as in a log.
        """
        account_hash = hashlib.sha256(account_id.encode()).hexdigest()[:16]
        day = month_end.astimezone(UTC).date()
        return cls(
            transaction_id=f"{cls.job_prefix}{day}-{account_hash}",
            account_id=account_id,
            to_account_id=to_account_id,
            until=datetime(day.year, day.month, day.day, tzinfo=UTC),
            description=f"Overdraft interest until {day}",
        )

    @property
    def of_job(self) -> Self:
        return self.at(self.account_id, self.until, self.to_account_id)

    @property
    @override
    def missing_side(self) -> str:
        return "to_account_id: expected one"

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        """If both accounts have a reason for a rejection, that of the account that is charged counts."""
        account, *payees = accounts
        if any(payee.currency != account.currency for payee in payees):
            return all_rejected(accounts, RejectionReason.CURRENCY_MISMATCH)
        if not account.interest.due:
            return tuple(map(posted, accounts))
        try:
            amount = normalized(account.interest.due)
        except (Inexact, Overflow):
            return all_rejected(accounts, RejectionReason.BALANCE_OUT_OF_RANGE, account)
        charged = moved_whatever_the_limit(account, amount.copy_negate())
        return all_or_none(accounts, [charged, *(moved_whatever_the_limit(payee, amount) for payee in payees)])

    def changes(self, account: Account) -> Mapping[str, Any]:
        if account.account_id != self.account_id:
            return {}
        return {"interest": replace(account.interest, due=Decimal(0))}

    def stand_in(self, account: Account, mine: Outcome) -> StandIn:
        """Of the account that is charged, as much is due as the payee got, or too much for the payee if that rejects.

        If the account itself rejects, anything is due.
        """
        stand_in = plain_stand_in(account, mine)
        if account.account_id != self.account_id or mine.status == Status.POSTED:
            return replace(stand_in, interest=Interest(due=mine.amount.copy_abs()))
        return replace(stand_in, interest=Interest(due=too_much_for(mine.balance_after)))
