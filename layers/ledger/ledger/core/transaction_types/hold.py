"""Holds an amount: it stays in the balance, and can't be spent until the hold is posted, voided or expired."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, override

from ledger.core.accounts import Account
from ledger.core.decoding import Time
from ledger.core.holds import MOST_OPEN_HOLDS, Holds, OpenHold, expiry, fit, total
from ledger.core.limits import Limits, Of, counted
from ledger.core.rules import Decision, RejectionReason, limited, posted, rejected
from ledger.core.transaction_types.base import AccountMessage, Context, NumberRange


class Hold(AccountMessage, frozen=True, tag="hold"):
    """Its `transaction_id` is the hold's id."""

    numbers = (("amount", NumberRange.ABOVE_ZERO),)
    posted_event = "HoldPlaced"

    amount: Decimal
    expires_at: Time | None = None

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        if account.frozen.debits:
            return (rejected(account, RejectionReason.ACCOUNT_FROZEN),)
        if self.transaction_id in account.open_holds:  # an imported one: it has no entry
            return (rejected(account, RejectionReason.HOLD_EXISTS),)
        if len(account.open_holds) >= MOST_OPEN_HOLDS:
            return (rejected(account, RejectionReason.TOO_MANY_HOLDS),)
        if not fit(self._with_others(account)):
            return (rejected(account, RejectionReason.BALANCE_OUT_OF_RANGE),)
        if account.available < self.amount:
            return (rejected(account, RejectionReason.OVERDRAFT_LIMIT),)
        return (limited(account, self.amount.copy_negate()) or posted(account),)

    @override
    def limits_after(self, account: Account, amount: Decimal, context: Context) -> Limits:
        return counted(account.limits, Of.DEBITS, Decimal(0))

    def changes(self, account: Account) -> Mapping[str, Any]:
        holds = self._with_others(account)
        return {"holds": holds, "held": total(holds)}

    def _with_others(self, account: Account) -> Holds:
        return {**account.open_holds, self.transaction_id: OpenHold(self.amount, expiry(self.expires_at))}
