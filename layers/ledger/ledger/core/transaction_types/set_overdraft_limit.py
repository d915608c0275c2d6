"""Changes an account's overdraft limit."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.rules import Decision, RejectionReason, posted, rejected
from ledger.core.transaction_types.base import AccountMessage, Context, Door, NumberRange


class SetOverdraftLimit(AccountMessage, frozen=True, tag="set_overdraft_limit"):
    door = Door.ADMINISTRATION
    numbers = (("overdraft_limit", NumberRange.ZERO_OR_LESS),)
    posted_event = "OverdraftLimitSet"

    overdraft_limit: Decimal

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        is_raised = self.overdraft_limit > account.overdraft_limit
        if is_raised and replace(account, overdraft_limit=self.overdraft_limit).available < 0:
            return (rejected(account, RejectionReason.OVERDRAFT_LIMIT),)
        return (posted(account),)

    def changes(self, account: Account) -> Mapping[str, Any]:
        return {"overdraft_limit": self.overdraft_limit}
