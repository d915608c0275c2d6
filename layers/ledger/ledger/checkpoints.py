"""The checkpoints of the nightly reconciliation: each account as it was when no mismatch was found.

They are in a table of their own: a write to an account may cancel a commit in progress. A missing checkpoint costs a
replay of the whole journal, and an old one costs a longer replay: docs/decisions/checkpoints.md. They are under one
partition key, sorted by the hashes of their accounts' ids: so a query has them in the order of the night's root.
"""

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from conditional_writes import Deadline, Item, key, read
from conditional_writes.core.items import to_dynamodb
from ledger.core.accounts import Account, account_from_item, account_item
from ledger.core.decoding import attribute, version
from ledger.core.hash_trees import HashTree, hash_of
from ledger.core.turnovers import Turnovers
from ledger.unconditional_writes import write_all

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

KIND = "account"
"""The partition key of all checkpoints. One run at a time reads and writes them: less than a partition takes."""
CYCLE_DAYS = 30
"""Each account's journal is replayed whole once in so many days."""


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
    size, peaks = version(checkpoint, "version"), attribute(checkpoint, "peaks", list)
    if len(peaks) != size.bit_count() or not all(isinstance(peak, str) for peak in peaks):
        raise ValueError(f"peaks: expected {size.bit_count()} texts")
    return HashTree(size, tuple(peaks))
