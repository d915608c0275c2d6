"""Reads accounts and their journals for the reconciliation, while transactions go on."""

import itertools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from msgspec import Struct

from conditional_writes import Deadline, DeadlinePassed, Item, Key, key, read
from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.reading import MAXIMUM_KEYS, read_one
from ledger.accounts import Account, account_from_item
from ledger.journal import Entry, entry_from_item
from ledger.reconciliation import Mismatch, OtherSide, mismatches, other_account_id

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

AT_ONCE = 8
"""Accounts looked at in parallel: one waits for its journal while another's is replayed."""
PAUSES_SECONDS = (0.05, 0.2, 1.0)
"""Before looking again where something seemed wrong."""
READ_SECONDS = 20
"""For a batch of keys, throttling included."""


class Reconciliation(Struct, frozen=True):
    """The two tables, and the way to them. It only reads."""

    client: "DynamoDBClient"
    accounts_table: str
    journal_table: str

    def accounts(self, after: str | None, limit: int) -> tuple[list[Item], str | None]:
        """At most `limit` accounts' items, in the table's order, and the last one's id where there may be more."""
        start: dict[str, Any] = {"ExclusiveStartKey": to_dynamodb({"account_id": after})} if after is not None else {}
        page = self.client.scan(TableName=self.accounts_table, Limit=limit, ConsistentRead=True, **start)
        last = page.get("LastEvaluatedKey")
        return [from_dynamodb(item) for item in page["Items"]], from_dynamodb(last)["account_id"] if last else None

    def check(self, items: Sequence[Item]) -> list[Mismatch]:
        """What is wrong with these accounts."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return [mismatch for found in pool.map(self._check, items) for mismatch in found]

    def _check(self, item: Item) -> list[Mismatch]:
        """What was wrong each time: a commit in progress may be seen in one table and not yet in the other."""
        found = self._look(item)
        for pause_seconds in PAUSES_SECONDS:
            if not found:
                break
            time.sleep(pause_seconds)
            item = read_one(self.client, self._account_key(item["account_id"]), _deadline()) or item
            again = self._look(item)
            found = [mismatch for mismatch in again if any(mismatch.is_like(before) for before in found)]
        return found

    def _look(self, item: Item) -> list[Mismatch]:
        try:
            return self._compare(item)
        except (BotoCoreError, ClientError, DeadlinePassed):
            raise
        except Exception as error:  # noqa: BLE001 (whatever is in the tables: the other accounts are checked all the same)
            return [Mismatch(item["account_id"], "unreadable", 0, f"{type(error).__name__}: {error}")]

    def _compare(self, item: Item) -> list[Mismatch]:
        """Entries are never changed, and were all there when the account came to its version: those are a picture."""
        account = account_from_item(item)
        entries = [entry_from_item(found) for found in self._journal(account.account_id)]
        picture = self._without_later_ones(account, entries)
        return list(mismatches(account, picture, self._other_sides(picture)))

    def _journal(self, account_id: str) -> list[Item]:
        pages = self.client.get_paginator("query").paginate(
            TableName=self.journal_table,
            KeyConditionExpression="account_id = :account_id",
            ExpressionAttributeValues=to_dynamodb({":account_id": account_id}),
            ConsistentRead=True,
        )
        return [from_dynamodb(item) for page in pages for item in page["Items"]]

    def _without_later_ones(self, account: Account, entries: Sequence[Entry]) -> list[Entry]:
        """An account that moved on has newer entries: as many versions of them as it has since, by its item now."""
        moved_to = account.version
        if any(entry.outcome.account_version > account.version for entry in entries):
            now = read_one(self.client, self._account_key(account.account_id), _deadline())
            moved_to = int(now["version"]) if now else moved_to
        return [entry for entry in entries if not account.version < entry.outcome.account_version <= moved_to]

    def _other_sides(self, entries: Sequence[Entry]) -> dict[str, OtherSide]:
        transfers = {entry.transaction_id: name for entry in entries if (name := other_account_id(entry))}
        keys = {
            transaction_id: (self._account_key(name), self._entry_key(name, transaction_id))
            for transaction_id, name in transfers.items()
        }
        there: dict[Key, Item | None] = {}
        for batch in itertools.batched(itertools.chain(*keys.values()), MAXIMUM_KEYS, strict=False):
            there |= read(self.client, batch, _deadline())
        return {transaction_id: _other_side(there[one], there[two]) for transaction_id, (one, two) in keys.items()}

    def _account_key(self, account_id: str) -> Key:
        return key(self.accounts_table, account_id=account_id)

    def _entry_key(self, account_id: str, transaction_id: str) -> Key:
        return key(self.journal_table, account_id=account_id, transaction_id=transaction_id)


def _other_side(account: Item | None, entry: Item | None) -> OtherSide:
    """What can't be read is as good as not there; on its own account it is reported as what it is."""
    try:
        return OtherSide(account_from_item(account) if account else None, entry_from_item(entry) if entry else None)
    except Exception:  # noqa: BLE001
        return OtherSide(None, None)


def _deadline() -> Deadline:
    return Deadline.after(READ_SECONDS)
