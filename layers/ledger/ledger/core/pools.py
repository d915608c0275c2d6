"""A pool: an account that many transactions share. Its money is on its shards, which are accounts of their own.

A shard has a version, a journal and a seal. It is made by its first transaction. The pool's own item says how many
shards there are, and has no money. If the home of a transaction is another account, the worker chooses the shard, among
a few that it keeps to: the entry on the home makes sure that the transaction is posted once. If the pool itself is the
home, the shard follows from the transaction's id, and from the number of shards with which the pool was opened: the id
is unique on the pool, so it must never have another shard. docs/decisions/pools.md
"""

import hashlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ledger.core.decoding import MOST_ID_CHARACTERS, SHARD

if TYPE_CHECKING:
    from ledger.core.accounts import Account

NUMBERS_OF_SHARDS = (2, 4, 8, 16, 32, 64, 128, 256)
"""Powers of two: payers that share a shard of a large pool share one of a small pool, too. So compounds with both make
no larger groups."""
MOST_POOL_ID_CHARACTERS = MOST_ID_CHARACTERS - len(f"{SHARD}{NUMBERS_OF_SHARDS[-1] - 1}:")
"""So that a shard's id is one, too."""
SHARDS_OF_A_WORKER = 8
"""Of each pool. Transactions of different homes rarely share a shard in a batch, and workers rarely share one."""
LOWEST_LIMIT = Decimal(f"-{'9' * 38}E+88")
"""DynamoDB's lowest number: no balance is below it, so a shard never lacks money."""


class Pool(Struct, frozen=True):
    """Its number of `shards`, and the number with which it was `opened`. Raises ValueError unless both are possible."""

    shards: int
    opened: int

    def __post_init__(self) -> None:
        if not (self.shards in NUMBERS_OF_SHARDS and self.opened in NUMBERS_OF_SHARDS and self.opened <= self.shards):
            raise ValueError(f"pool: {self.shards} shards, opened with {self.opened}")

    def with_shards(self, shards: int) -> "Pool":
        """The pool with so many shards, unless it has more."""
        return Pool(max(shards, self.shards), self.opened)


def shard_id(pool_id: str, number: int) -> str:
    """The account id of a shard. No message can give it to an account."""
    return f"{SHARD}{number}:{pool_id}"


def on_shard(account_id: str, numbers: Mapping[str, int]) -> str:
    """The account's shard, if it is one of these pools."""
    return shard_id(account_id, numbers[account_id]) if account_id in numbers else account_id


def pool_of(account_id: str) -> str | None:
    """The id of the pool whose shard this is; None for any other account."""
    return account_id.removeprefix(SHARD).partition(":")[2] if account_id.startswith(SHARD) else None


def shards_of(
    account_ids: Sequence[str], transaction_id: str, pools: Mapping[str, Pool], first_shard: int = 0
) -> dict[str, int]:
    """The number of its shard for each of the accounts that is a pool. The first account is the home.

    `first_shard` is the first of the worker's own shards, which may be more than a pool has.
    """
    home, *others = account_ids
    numbers: dict[str, int] = {}
    if home in pools:
        numbers[home] = home_number(transaction_id, pools[home])
        home = shard_id(home, numbers[home])
    number = first_shard + _hash(home) % SHARDS_OF_A_WORKER
    return numbers | {other: number % pools[other].shards for other in others if other in pools}


def home_number(transaction_id: str, pool: Pool) -> int:
    """The number of the shard of a transaction whose home is the pool. It never changes."""
    return _hash(transaction_id) % pool.opened


def _hash(text: str) -> int:
    return hashlib.sha256(text.encode()).digest()[0]


def opened_shard(account_id: str, pool: "Account") -> "Account":
    """The shard of the pool at version 0."""
    return msgspec.structs.replace(pool, account_id=account_id, version=0, posted_at=None, seal="", pool=None)
