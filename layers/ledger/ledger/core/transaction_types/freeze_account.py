"""Freezes an account for debits, for credits or for both, or ends that."""

from collections.abc import Mapping, Sequence
from typing import Any

from ledger.core.accounts import Account, Frozen
from ledger.core.rules import Decision, posted
from ledger.core.transaction_types.base import AccountMessage, Context, Door


class FreezeAccount(AccountMessage, frozen=True, tag="freeze_account"):
    """`debits` and `credits` say what the account doesn't take from now on. Both are false to end it."""

    door = Door.ADMINISTRATION
    posted_event = "FreezeSet"

    debits: bool
    credits: bool

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        return (posted(account),)

    def changes(self, account: Account) -> Mapping[str, Any]:
        return {"frozen": Frozen(debits=self.debits, credits=self.credits)}
