"""Reads accounts and their journals, while transactions go on, and replays them."""

import itertools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import Deadline, DeadlinePassed, Item, Key, read
from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.reading import MAXIMUM_KEYS, read_one
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import EntryId, JournalEntry, entry_from_item
from ledger.core.replay import Mismatch, OtherSide, mismatches, other_account_id
from ledger.tables import LedgerTables

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

MAX_PARALLEL = 8
"""Accounts at a time: one journal is read while another is replayed."""
PAUSES_SECONDS = (0.05, 0.2, 1.0)
"""Before an account with mismatches is checked again."""
READ_SECONDS = 20
"""For a batch of keys, throttling included."""


class Reconciler(NamedTuple):
    """The ledger's tables, and the client that reads them: nothing is written."""

    client: "DynamoDBClient"
    tables: LedgerTables

    def accounts(self, after: str | None, limit: int) -> tuple[list[Item], str | None]:
        """At most `limit` accounts' items, in the table's order; and the last one's id, None if there are no more."""
        start: dict[str, Any] = {"ExclusiveStartKey": to_dynamodb({"account_id": after})} if after is not None else {}
        page = self.client.scan(TableName=self.tables.accounts, Limit=limit, ConsistentRead=True, **start)
        last = page.get("LastEvaluatedKey")
        return [from_dynamodb(item) for item in page["Items"]], from_dynamodb(last)["account_id"] if last else None

    def check(self, items: Sequence[Item]) -> list[Mismatch]:
        """The mismatches of these accounts."""
        with ThreadPoolExecutor(MAX_PARALLEL) as pool:
            return [mismatch for found in pool.map(self._check, items) for mismatch in found]

    def _check(self, item: Item) -> list[Mismatch]:
        """Mismatches that stay: a commit in progress may be visible in one table and not yet in the other."""
        found = self._look(item)
        for pause_seconds in PAUSES_SECONDS:
            if not found:
                break
            time.sleep(pause_seconds)
            item = read_one(self.client, self.tables.account_key(item["account_id"]), _deadline()) or item
            again = self._look(item)
            found = [mismatch for mismatch in again if any(mismatch.is_like(before) for before in found)]
        return found

    def _look(self, item: Item) -> list[Mismatch]:
        try:
            return self._compare(item)
        except (BotoCoreError, ClientError, DeadlinePassed):
            raise
        except Exception as error:  # noqa: BLE001 (whatever this account's items are, the others are checked)
            return [Mismatch(item["account_id"], "unreadable", 0, f"{type(error).__name__}: {error}")]

    def _compare(self, item: Item) -> list[Mismatch]:
        """Entries commit with the account, and never change: those up to its version are a consistent snapshot."""
        account = account_from_item(item)
        entries = [entry_from_item(found) for found in self._journal(account.account_id)]
        snapshot = self._without_later_ones(account, entries)
        return list(mismatches(account, snapshot, self._other_sides(snapshot)))

    def _journal(self, account_id: str) -> list[Item]:
        pages = self.client.get_paginator("query").paginate(
            TableName=self.tables.journal,
            KeyConditionExpression="account_id = :account_id",
            ExpressionAttributeValues=to_dynamodb({":account_id": account_id}),
            ConsistentRead=True,
        )
        return [from_dynamodb(item) for page in pages for item in page["Items"]]

    def _without_later_ones(self, account: Account, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        """The entries without those of versions that the account has reached since it was read."""
        moved_to = account.version
        if any(entry.outcome.account_version > account.version for entry in entries):
            now = read_one(self.client, self.tables.account_key(account.account_id), _deadline())
            moved_to = int(now["version"]) if now else moved_to
        return [entry for entry in entries if not account.version < entry.outcome.account_version <= moved_to]

    def _other_sides(self, entries: Sequence[JournalEntry]) -> dict[str, OtherSide]:
        transfers = {entry.transaction_id: name for entry in entries if (name := other_account_id(entry))}
        keys = {
            transaction_id: (self.tables.account_key(name), self.tables.entry_key(EntryId(name, transaction_id)))
            for transaction_id, name in transfers.items()
        }
        there: dict[Key, Item | None] = {}
        for batch in itertools.batched(itertools.chain(*keys.values()), MAXIMUM_KEYS, strict=False):
            there |= read(self.client, batch, _deadline())
        return {transaction_id: _other_side(there[one], there[two]) for transaction_id, (one, two) in keys.items()}


def _other_side(account: Item | None, entry: Item | None) -> OtherSide:
    """An unreadable item counts as missing here. The check of its own account reports what it is."""
    try:
        return OtherSide(account_from_item(account) if account else None, entry_from_item(entry) if entry else None)
    except Exception:  # noqa: BLE001
        return OtherSide(None, None)


def _deadline() -> Deadline:
    return Deadline.after(READ_SECONDS)
