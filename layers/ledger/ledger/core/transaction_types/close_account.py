"""Closes an account at balance 0, without open holds and without interest to be charged. The account stays: its
versions must not begin anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ledger.core.accounts import Account, AccountStatus
from ledger.core.rules import Decision, RejectionReason, posted, rejected
from ledger.core.transaction_types.base import AccountMessage, Context, Door


class CloseAccount(AccountMessage, frozen=True, tag="close_account"):
    door = Door.ADMINISTRATION
    posted_event = "AccountClosed"

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        if account.balance != 0:
            return (rejected(account, RejectionReason.BALANCE_NOT_ZERO),)
        if account.open_holds:
            return (rejected(account, RejectionReason.HOLDS_OPEN),)
        if not account.interest.is_settled(account.decimal_places):
            return (rejected(account, RejectionReason.INTEREST_NOT_CHARGED),)
        return (posted(account),)

    def changes(self, account: Account) -> Mapping[str, Any]:
        return {"status": AccountStatus.CLOSED}
