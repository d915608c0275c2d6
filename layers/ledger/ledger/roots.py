"""The root of a night: one hash over all accounts' checkpoints, that is over each entry that the night has checked.

It is published in the run's report. The next run begins with the root of the table Checkpoints as it is then: if that
isn't the published one, somebody else has changed the table. So whoever makes the chain of an account anew must change
the published root, too. docs/seals.md defines the root, and how an entry is proven by it.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from conditional_writes import Deadline, Item, Put, key
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.core.reading import projection, read_one
from ledger.checkpoints import KIND, tree_in
from ledger.core.hash_trees import CHARACTERS, HashTree, hash_of_values
from ledger.core.mismatches import quoted_id

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

RECORD = "reconcile_accounts root"
"""The key of the newest root's record in the Locks table."""
RECORD_SECONDS = 10
MOST_RANGES, MOST_ACCOUNTS = 3, 5
"""Of ranges that a sentence names, and of the accounts of one."""


class Walk(NamedTuple):
    """How far the table Checkpoints was read: after the account of this hash. None: its beginning or end.

    `accounts` is their number so far. `ranges` has the hashes of the whole ranges, `tree` is that of the next one so
    far. All accounts whose own hashes begin with the same character are a range.
    """

    after: str | None = None
    accounts: int = 0
    ranges: tuple[str, ...] = ()
    tree: HashTree = HashTree()

    def further(self, items: Sequence[Item], after: str | None) -> "Walk":
        """The walk after the next page of checkpoints."""
        walk = self._replace(after=after, accounts=self.accounts + len(items))
        for first, of_range in itertools.groupby(items, key=range_of):
            walk = walk._with_ranges(bisect_right(CHARACTERS, first) - 1)
            walk = walk._replace(tree=walk.tree.with_leaves(map(leaf_of, of_range)))
        return walk if after else walk._with_ranges(len(CHARACTERS))

    def _with_ranges(self, number: int) -> "Walk":
        """The walk at the end of so many ranges."""
        ranges, tree = list(self.ranges), self.tree
        while len(ranges) < number:
            ranges.append(range_hash(tree))
            tree = HashTree()
        return self._replace(ranges=tuple(ranges), tree=tree)


class Root(NamedTuple):
    """A root, the scheduled time of its run, in ISO 8601, and the hashes of the ranges that it is over.

    It is empty while that run isn't finished: then it is pending.
    """

    scheduled_time: str
    root: str = ""
    ranges: Sequence[str] = ()

    @property
    def is_pending(self) -> bool:
        return not self.root

    @classmethod
    def of(cls, scheduled_time: str, ranges: Sequence[str]) -> "Root":
        return cls(scheduled_time, hash_of_values(scheduled_time, HashTree().with_leaves(ranges).top), ranges)


class Roots(NamedTuple):
    """The tables that have the checkpoints and the newest root's record, and the client that reads them."""

    client: "DynamoDBClient"
    checkpoints_table: str
    locks_table: str

    def page(self, after: str | None, of_range: str = "") -> tuple[list[Item], str | None]:
        """1 MB of checkpoints, with what the root depends on, and the hash after which the next page begins.

        They are in the order of their accounts' hashes, all of them or those of a range. Strongly consistent. Raises
        botocore's errors.
        """
        condition, values = "kind = :kind", {":kind": KIND}
        if of_range:
            condition, values = f"{condition} AND begins_with(account_hash, :range)", values | {":range": of_range}
        start = {"ExclusiveStartKey": to_dynamodb({"kind": KIND, "account_hash": after})} if after else {}
        only = projection(("account_hash", "account_id", "version", "peaks"))
        response = self.client.query(
            TableName=self.checkpoints_table,
            ConsistentRead=True,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=to_dynamodb(values),
            **only,
            **start,  # type: ignore[arg-type]
        )
        last = response.get("LastEvaluatedKey")
        return list(map(from_dynamodb, response["Items"])), from_dynamodb(last)["account_hash"] if last else None

    def of_range(self, of_range: str) -> Iterator[Item]:
        """The checkpoints of a range, as `page` has them."""
        items, after = self.page(None, of_range)
        yield from items
        while after:
            items, after = self.page(after, of_range)
            yield from items

    def further(self, walk: Walk) -> Walk:
        """The walk after the next page."""
        return walk.further(*self.page(walk.after))

    def newest(self) -> Root | None:
        """The root that was recorded last: pending, if a run has begun since then. None before the first one."""
        item = read_one(self.client, key(self.locks_table, lock_key=RECORD), Deadline.after(RECORD_SECONDS))
        return Root(item["scheduled_time"], item["root"], item["ranges"]) if item else None

    def record(self, root: Root) -> Put:
        return Put(key(self.locks_table, lock_key=RECORD), root._asdict() | {"ranges": list(root.ranges)})

    def difference(self, found: Root, published: Root) -> str:
        """A sentence: which ranges aren't as they were published, and which accounts they have now."""
        sentence = f"it is {found.root}, the run for {published.scheduled_time} left {published.root}"
        pairs = zip(CHARACTERS, found.ranges, published.ranges, strict=False)
        wrong = [name for name, now, before in pairs if now != before]
        if Root.of(published.scheduled_time, published.ranges).root != published.root or not wrong:
            return f"{sentence}, which isn't that of the ranges in its record"
        named = "; ".join(f"{name!r} has {self._accounts_of(name)}" for name in wrong[:MOST_RANGES])
        more = f"; and {len(wrong) - MOST_RANGES} more" if len(wrong) > MOST_RANGES else ""
        return f"{sentence}; other ranges: {named}{more}"

    def _accounts_of(self, of_range: str) -> str:
        items, _ = self.page(None, of_range)
        named = ", ".join(quoted_id(str(item.get("account_id"))) for item in items[:MOST_ACCOUNTS])
        return f"{named} and more" if len(items) > MOST_ACCOUNTS else named or "no account"


def range_of(checkpoint: Item) -> str:
    """The range's name: the character that the hashes of its accounts begin with."""
    first: str = checkpoint["account_hash"][0]
    return first


def range_hash(accounts: HashTree) -> str:
    """`accounts` is the tree of the range's accounts."""
    return hash_of_values(accounts.size, accounts.top)


def leaf_of(checkpoint: Item) -> str:
    """The account's hash in the night's tree. One for all checkpoints that are none."""
    try:
        return account_leaf(checkpoint["account_id"], tree_in(checkpoint))
    except (KeyError, TypeError, ValueError):
        return ""


def account_leaf(account_id: str, seals: HashTree) -> str:
    """`seals` is the tree of the account's seals."""
    return hash_of_values(account_id, seals.size, seals.top)
