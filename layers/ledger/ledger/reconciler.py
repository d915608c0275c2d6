"""Reads accounts with their journals, while others post transactions, for the journal replay (`core/replay.py`)."""

import itertools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

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
"""Accounts that are checked at the same time: one journal is read while another is replayed."""
PAUSES_SECONDS = (0.05, 0.2, 1.0)
"""Pauses before an account with mismatches is checked again."""
READ_SECONDS = 20
"""The longest that a read of up to 100 keys may take, throttling included."""


class Reconciler(NamedTuple):
    """The ledger's tables, and the client that reads them: nothing is written."""

    client: "DynamoDBClient"
    tables: LedgerTables

    def check(self, items: Sequence[Item]) -> list[Mismatch]:
        """The mismatches of these accounts, given as their items. Raises DeadlinePassed and botocore's errors."""
        with ThreadPoolExecutor(MAX_PARALLEL) as pool:
            return list(itertools.chain.from_iterable(pool.map(self._lasting_mismatches, items)))

    def _lasting_mismatches(self, item: Item) -> list[Mismatch]:
        """Mismatches that are found again and again: a commit may be visible in one table before the other."""
        found = self._found_mismatches(item)
        for pause_seconds in PAUSES_SECONDS:
            if not found:
                break
            time.sleep(pause_seconds)
            item = read_one(self.client, self.tables.account_key(item["account_id"]), _deadline()) or item
            again = self._found_mismatches(item)
            found = [mismatch for mismatch in again if any(mismatch.is_like(before) for before in found)]
        return found

    def _found_mismatches(self, item: Item) -> list[Mismatch]:
        """The mismatches of one replay. An item that can't be read is one: the other accounts are still checked."""
        try:
            return self._replayed(item)
        except (BotoCoreError, ClientError, DeadlinePassed):
            raise
        except Exception as error:  # noqa: BLE001 (an account's items may be anything)
            return [Mismatch(item["account_id"], "unreadable", 0, f"{type(error).__name__}: {error}")]

    def _replayed(self, item: Item) -> list[Mismatch]:
        account = account_from_item(item)
        entries = self._snapshot(account, [entry_from_item(found) for found in self._journal(account.account_id)])
        return list(mismatches(account, entries, self._other_sides(entries)))

    def _journal(self, account_id: str) -> list[Item]:
        pages = self.client.get_paginator("query").paginate(
            TableName=self.tables.journal,
            KeyConditionExpression="account_id = :account_id",
            ExpressionAttributeValues=to_dynamodb({":account_id": account_id}),
            ConsistentRead=True,
        )
        return [from_dynamodb(item) for page in pages for item in page["Items"]]

    def _snapshot(self, account: Account, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        """The entries without those of versions that the account has reached since it was read.

        Entries commit with their account, and never change: those up to its version are a consistent snapshot. An entry
        that is beyond even the account's present version stays: it is a mismatch.
        """
        present_version = account.version
        if any(entry.outcome.account_version > account.version for entry in entries):
            present = read_one(self.client, self.tables.account_key(account.account_id), _deadline())
            present_version = int(present["version"]) if present else account.version
        return [entry for entry in entries if not account.version < entry.outcome.account_version <= present_version]

    def _other_sides(self, entries: Sequence[JournalEntry]) -> dict[str, OtherSide]:
        """The other side of each transfer among the entries, by transaction id."""
        others = [(entry, other_id) for entry in entries if (other_id := other_account_id(entry))]
        keys = {
            entry.transaction_id: (
                self.tables.account_key(other_id),
                self.tables.entry_key(EntryId(other_id, entry.transaction_id)),
            )
            for entry, other_id in others
        }
        items: dict[Key, Item | None] = {}
        for batch in itertools.batched(itertools.chain(*keys.values()), MAXIMUM_KEYS, strict=False):
            items |= read(self.client, batch, _deadline())
        return {
            transaction_id: _other_side(items[account_key], items[entry_key])
            for transaction_id, (account_key, entry_key) in keys.items()
        }


def _other_side(account: Item | None, entry: Item | None) -> OtherSide:
    """The two items as values. An unreadable item counts as missing: the check of its own account reports it."""
    try:
        return OtherSide(account_from_item(account) if account else None, entry_from_item(entry) if entry else None)
    except Exception:  # noqa: BLE001 (another account's items may be anything)
        return OtherSide(None, None)


def _deadline() -> Deadline:
    return Deadline.after(READ_SECONDS)
