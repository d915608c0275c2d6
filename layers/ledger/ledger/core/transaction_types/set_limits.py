"""Sets an account's limits: they take the place of all that it had."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, override

import msgspec

from ledger.core.accounts import Account
from ledger.core.limits import MOST_LIMITS, Limit, set_limits
from ledger.core.rules import Decision, posted
from ledger.core.transaction_types.base import AccountMessage, Context, Door, check_decimals

AllLimits = Annotated[tuple[Limit, ...], msgspec.Meta(max_length=MOST_LIMITS)]


class SetLimits(AccountMessage, frozen=True, tag="set_limits"):
    door = Door.ADMINISTRATION
    nested = ("limits",)
    posted_event = "LimitsSet"

    limits: AllLimits

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [limit.name for limit in self.limits]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"limits: expected each name once, got {name!r} {names.count(name)} times")

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        return (posted(account),)

    @override
    def changes(self, account: Account) -> Mapping[str, Any]:
        return {"limits": set_limits(self.limits, account.limits, account.posted_at or "")}

    @override
    def _check_decimals(self, accounts: Sequence[Account]) -> None:
        [account] = accounts
        for place, limit in enumerate(self.limits):
            if limit.amount is not None:
                check_decimals(f"limits[{place}].amount", limit.amount, account)
