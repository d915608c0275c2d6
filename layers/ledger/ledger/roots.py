"""The root of a night: one hash over all accounts' checkpoints, that is over each entry that the night has checked.

It is published in the run's report. The next run begins with the root of the table Checkpoints as it is then: if that
isn't the published one, somebody else has changed the table. So whoever makes the chain of an account anew must change
the published root, too. docs/seals.md defines the root, and how an entry is proven by it.
"""

from typing import TYPE_CHECKING, NamedTuple

from conditional_writes import Deadline, Item, Put, key
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.core.reading import projection, read_one
from ledger.checkpoints import tree_in
from ledger.core.hash_trees import HashTree, hash_of_values

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

RECORD = "reconcile_accounts root"
"""The key of the newest root's record in the Locks table."""
RECORD_SECONDS = 10


class Walk(NamedTuple):
    """How far the table Checkpoints was read, after this account, and its tree so far. None: its beginning or end."""

    after: str | None = None
    tree: HashTree = HashTree()


class Root(NamedTuple):
    """A root, and the scheduled time of its run, in ISO 8601. It is empty while that run isn't finished."""

    scheduled_time: str
    root: str

    @classmethod
    def of(cls, scheduled_time: str, accounts: HashTree) -> "Root":
        return cls(scheduled_time, hash_of_values(scheduled_time, accounts.size, accounts.top))


class Roots(NamedTuple):
    """The tables that have the checkpoints and the newest root's record, and the client that reads them."""

    client: "DynamoDBClient"
    checkpoints_table: str
    locks_table: str

    def page(self, after: str | None) -> tuple[list[Item], str | None]:
        """1 MB of checkpoints, with what the root depends on, in the table's order, and where the next page begins.

        Strongly consistent. Raises botocore's errors.
        """
        start = {} if after is None else {"ExclusiveStartKey": to_dynamodb({"account_id": after})}
        only = projection(("account_id", "version", "peaks"))
        response = self.client.scan(TableName=self.checkpoints_table, ConsistentRead=True, **only, **start)  # type: ignore[arg-type]
        last = response.get("LastEvaluatedKey")
        return list(map(from_dynamodb, response["Items"])), from_dynamodb(last)["account_id"] if last else None

    def further(self, walk: Walk) -> Walk:
        """The walk after the next page."""
        items, after = self.page(walk.after)
        return Walk(after, walk.tree.with_leaves(map(leaf_of, items)))

    def newest(self) -> Root | None:
        """The root that was published last. None before the first one, and if a run has begun since then."""
        item = read_one(self.client, key(self.locks_table, lock_key=RECORD), Deadline.after(RECORD_SECONDS))
        return Root(item["scheduled_time"], item["root"]) if item and item["root"] else None

    def record(self, root: Root) -> Put:
        return Put(key(self.locks_table, lock_key=RECORD), root._asdict())


def leaf_of(checkpoint: Item) -> str:
    """The account's hash in the night's tree. One for all checkpoints that are none."""
    try:
        tree = tree_in(checkpoint)
    except (KeyError, TypeError, ValueError):
        return ""
    return account_leaf(checkpoint["account_id"], tree)


def account_leaf(account_id: str, seals: HashTree) -> str:
    """`seals` is the tree of the account's seals."""
    return hash_of_values(account_id, seals.size, seals.top)
