"""Gives a pool more shards. It never has fewer: each shard has a journal, and money."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from ledger.core.accounts import Account
from ledger.core.reason_codes import InvalidMessage
from ledger.core.rules import Decision, posted
from ledger.core.transaction_types.base import AccountMessage, Context, Door, NumberRange


class SetShards(AccountMessage, frozen=True, tag="set_shards"):
    """Transactions in progress may still go to the shards that they had before."""

    door = Door.ADMINISTRATION
    numbers = (("shards", NumberRange.SHARDS),)
    posted_event = "ShardsSet"
    is_of_pool: ClassVar[bool] = True

    shards: Decimal

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        """Raises InvalidMessage for an account that is no pool, and if the pool has so many shards already."""
        [account] = accounts
        if account.pool is None:
            raise InvalidMessage(f"account_id: {self.account_id!r} is no pool: an account is one from its opening on")
        if self.shards <= account.pool.shards:
            raise InvalidMessage(f"shards: {self.shards}, expected more than the {account.pool.shards} of the pool")
        return (posted(account),)

    def changes(self, account: Account) -> Mapping[str, Any]:
        return {"pool": account.pool and account.pool.with_shards(int(self.shards))}
