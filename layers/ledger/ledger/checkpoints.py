"""The checkpoints of the nightly reconciliation, each an account as it was when no mismatch was found, and their root.

They are in a table of their own: a write to an account may cancel a commit in progress. A missing checkpoint costs a
replay of the whole journal, and an old one costs a longer replay: docs/decisions/checkpoints.md. They are under one
partition key, sorted by the hashes of their accounts' ids: so a query has them in the order of the night's root.

The root is one hash over all checkpoints, that is over each entry that the night has checked. It is published in the
run's report. The next run begins with the root of the table as it is then: if that isn't the published one, somebody
else has changed the table. So whoever makes the chain of an account anew must change the published root, too.
docs/seals.md defines the root, and how an entry is proven by it.
"""

import hashlib
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from conditional_writes import Deadline, Item, Put, key, read
from conditional_writes.core.items import to_dynamodb
from conditional_writes.core.unconditional import projection, read_one, read_page, write_all
from ledger.core.accounts import Account, account_from_item, account_item
from ledger.core.mismatches import quoted, quoted_id
from ledger.core.totals import CHARACTERS, HashTree, Turnovers, hash_of, hash_of_values
from ledger.core.values import attribute

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

KIND = "account"
"""The partition key of all checkpoints. One run at a time reads and writes them: less than a partition takes."""
CYCLE_DAYS = 30
"""Each account's journal is replayed whole once in so many days."""
RECORD = "reconcile_accounts root"
"""The key of the newest root's record in the Locks table."""
RECORD_SECONDS = 10
MOST_RANGES, MOST_ACCOUNTS = 3, 5
"""Of ranges that a sentence names, and of the accounts of one."""


class Checkpoint(NamedTuple):
    """The account as it was when no mismatch was found, and the day on which its journal was last replayed whole.

    `seals` is the tree of its entries' seals, `turnovers` what they did. None: that isn't known.
    """

    account: Account
    whole_on: date
    seals: HashTree
    turnovers: Turnovers | None = None

    def is_whole_due(self, day: date) -> bool:
        """Whether the whole journal is due on this day: the account's day of the cycle has come since the last time.

        The account's id decides its day: so each night has about the same number of accounts, whichever are added. If
        nights are left out, the next one has theirs. A `whole_on` in the future is a mistake: the journal is due then.
        """
        digest = hashlib.sha256(self.account.account_id.encode()).digest()
        days_since_its_day = (day.toordinal() - int.from_bytes(digest[:8])) % CYCLE_DAYS
        return self.whole_on > day or days_since_its_day < (day - self.whole_on).days


class Checkpoints(NamedTuple):
    """The table of the checkpoints, and its client."""

    client: "DynamoDBClient"
    table: str

    def read(self, account_ids: Iterable[str], deadline: Deadline) -> dict[str, Checkpoint]:
        """The accounts' checkpoints, by account id. An account without one, or with a damaged one, is left out.

        One request per 100 accounts. Raises what `read` raises.
        """
        items = read(self.client, (key(self.table, **key_of(name)) for name in account_ids), deadline).values()
        checkpoints = [checkpoint for item in items if item and (checkpoint := _checkpoint(item))]
        return {checkpoint.account.account_id: checkpoint for checkpoint in checkpoints}

    def write(self, checkpoints: Mapping[str, Checkpoint | None], deadline: Deadline) -> None:
        """Saves the accounts' checkpoints, by account id; None deletes one. Without a condition: each is true.

        One request per 25 accounts. Raises DeadlinePassed if not all are written by then, and botocore's errors.
        """
        requests = itertools.starmap(_request, checkpoints.items())
        write_all(self.client, self.table, requests, deadline, "saving the checkpoints of accounts")


def key_of(account_id: str) -> Item:
    """The key of the account's checkpoint, as an item has it."""
    return {"kind": KIND, "account_hash": hash_of(account_id)}


def _request(account_id: str, checkpoint: Checkpoint | None) -> Any:
    if checkpoint is None:
        return {"DeleteRequest": {"Key": to_dynamodb(key_of(account_id))}}
    item = key_of(account_id) | account_item(checkpoint.account) | {"whole_on": checkpoint.whole_on.isoformat()}
    item["peaks"] = list(checkpoint.seals.peaks)
    if checkpoint.turnovers:
        item["turnovers"] = checkpoint.turnovers.as_item()
    return {"PutRequest": {"Item": to_dynamodb(item)}}


def _checkpoint(item: Item) -> Checkpoint | None:
    try:
        account, turnovers = account_from_item(item), _turnovers(item)
        known = turnovers if turnovers and turnovers.total.balance == account.balance else None
        return Checkpoint(account, date.fromisoformat(item["whole_on"]), tree_in(item), known)
    except (KeyError, TypeError, ValueError):
        return None


def _turnovers(item: Item) -> Turnovers | None:
    try:
        return Turnovers.from_item(item["turnovers"])
    except (KeyError, TypeError, ArithmeticError):
        return None


def tree_in(checkpoint: Item) -> HashTree:
    """The tree of the account's seals. Raises KeyError, TypeError or ValueError for an item that is no checkpoint."""
    size, peaks = attribute(checkpoint, "version", int), attribute(checkpoint, "peaks", list)
    if len(peaks) != size.bit_count() or not all(isinstance(peak, str) for peak in peaks):
        raise ValueError(f"peaks: expected {size.bit_count()} texts")
    return HashTree(size, tuple(peaks))


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

    @classmethod
    def read(cls, fields: Any) -> "Root":
        """From the record or the object of a root. One that can't be read is no run's. Texts that no run writes may be
        shortened: the report quotes them.
        """
        try:
            scheduled_time, root = (quoted(attribute(fields, name, str)) for name in ("scheduled_time", "root"))
            return cls(scheduled_time, root, list(map(str, attribute(fields, "ranges", list))))
        except (KeyError, TypeError):
            return cls("", "unreadable")


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
        query = {
            "TableName": self.checkpoints_table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": to_dynamodb(values),
        } | projection(("account_hash", "account_id", "version", "peaks"))
        start = {"kind": KIND, "account_hash": after} if after else None
        items, last = read_page(self.client, "query", query, start)
        return items, last["account_hash"] if last else None

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
        return Root.read(item) if item else None

    def record(self, root: Root) -> Put:
        return Put(key(self.locks_table, lock_key=RECORD), root._asdict() | {"ranges": list(root.ranges)})

    def difference(self, found: Root, published: Root) -> str:
        """A sentence: which ranges aren't as they were published, and which accounts they have now."""
        if not published.scheduled_time:
            return f"it is {found.root}, the record of the last one can't be read"
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
