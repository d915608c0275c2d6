"""Reads a pool as one account: its balance is the sum of its shards'."""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec.structs import replace

from conditional_writes import Deadline, read
from ledger.account_reading import account_in
from ledger.core.accounts import Account
from ledger.core.money import WIDE
from ledger.core.pools import Pool, shard_id
from ledger.tables import LedgerTables

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


def shards_of(
    client: "DynamoDBClient", tables: LedgerTables, account_id: str, pool: Pool, deadline: Deadline
) -> list[Account]:
    """The pool's shards as they are now, but for those that no transaction has made yet. One request per 100 shards.

    Each transaction is on one shard of a pool, so the shards are those of some moment between the first and the last
    read, less or more transactions that were posted meanwhile. Raises RequestRefused and what `read` raises.
    """
    keys = [tables.account_key(shard_id(account_id, number)) for number in range(pool.shards)]
    found = read(client, keys, deadline, {tables.accounts: Account.__struct_fields__})
    return [account_in(item) for item in map(found.get, keys) if item]


def summed(pool: Account, shards: Sequence[Account]) -> Account:
    """The pool with the sum of its shards' balances, and the time of the last posting on any of them."""
    balance = Decimal(0)
    for shard in shards:
        balance = WIDE.add(balance, shard.balance)
    times = [each.posted_at for each in (pool, *shards) if each.posted_at]
    return replace(pool, balance=balance, posted_at=max(times, default=None))
