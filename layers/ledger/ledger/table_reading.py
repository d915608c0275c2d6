"""Reads the ledger's tables page by page: accounts, an account's journal, and the surroundings of its entries.

**A journal in the order of versions** comes from the index, or from the table if the index is late. An entry commits to
the table, and the index has it a moment later. The versions of an account have no gaps. So a gap in the index says what
it doesn't have yet: it is waited for, and then looked for in the table.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import Deadline, DeadlinePassed, Item, Key, Observed, read
from conditional_writes.core.items import to_dynamodb
from conditional_writes.core.steps import Request
from conditional_writes.core.unconditional import found_items, read_page
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import EntryId, JournalEntry, entry_from_item
from ledger.core.reversals import Reversed, reversed_from_item
from ledger.tables import JOURNAL_INDEX, LedgerTables

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

    from ledger.core.replay import Needs


class IndexIsLate(Exception):
    """The index lacks entries, and the journal is too long to be searched for them."""


AWS_ERRORS = (BotoCoreError, ClientError, DeadlinePassed, IndexIsLate)
"""The errors of reads that may succeed at another time."""
PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Before the index is read again. Most of the time it has an entry within a second."""
MOST_TABLE_PAGES = 25
"""Of an account's journal, of 1 MB each: readers search no more of it for what the index doesn't have."""
ENTRIES_AT_ONCE = 25
"""Entries whose surroundings are read together, and in memory at the same time: some 10 MB at most."""
MOST_VERSIONS = 5_000
"""Of a page. An account's version may be any number, if others have changed it."""


class VersionPage(NamedTuple):
    """The entries of the versions from the first that was asked for `through` this one, in order, as items.

    `missing` has the versions without an entry. If `is_certain`, the table has no entries of them. Else the journal is
    too long to be searched, and the table may have them. `index_error` is the error of the index, if it has failed.
    """

    items: Sequence[Item]
    through: int
    missing: Sequence[int]
    is_certain: bool = True
    index_error: ClientError | None = None


class TablePage(NamedTuple):
    """Items of a table, in its order. Further ones come `after` this account or transaction id; None: no more."""

    items: Sequence[Item]
    after: str | None


def account_page(
    client: "DynamoDBClient", accounts_table: str, after: str | None, limit: int, **filters: Any
) -> TablePage:
    """The next `limit` accounts, as they are now. From page to page, each account is read once.

    One strongly consistent request. `filters` has further parameters of DynamoDB's Scan: an account that they leave out
    counts towards `limit`. Raises botocore's errors.
    """
    scan = {"TableName": accounts_table, "Limit": limit, **filters}
    items, last = read_page(client, "scan", scan, {"account_id": after} if after else None)
    return TablePage(items, last["account_id"] if last else None)


class JournalVersions(NamedTuple):
    """The ledger's tables, and the client that reads them."""

    client: "DynamoDBClient"
    tables: LedgerTables

    def page(self, account_id: str, first: int, last: int, deadline: Deadline, most_table_pages: int) -> VersionPage:
        """The entries of the versions from `first` to `last`, or of the first ones: 1 MB of the index, at most.

        `last` is at most the account's version, so that an entry of each version exists. If two entries are of one
        version, the page has both. If the index lacks entries, at most `most_table_pages` of 1 MB of the account's
        journal are searched for them in the table. Raises DeadlinePassed, and botocore's errors of the table.
        """
        last = min(last, first + MOST_VERSIONS - 1)
        for pause_seconds in (*PAUSES_SECONDS, None):
            try:
                page = self._index_page(account_id, first, last, deadline)
            except ClientError as error:  # without the index, or if it is throttled: the table can tell, too
                page = VersionPage([], last, range(first, last + 1), index_error=error)
                break
            if not page.missing or pause_seconds is None:
                break
            time.sleep(min(pause_seconds, max(0.0, deadline.remaining_seconds)))
        return self._completed(account_id, page, deadline, most_table_pages) if page.missing else page

    def _index_page(self, account_id: str, first: int, last: int, deadline: Deadline) -> VersionPage:
        deadline.check("reading the journal by versions")
        query = {
            "TableName": self.tables.journal,
            "IndexName": JOURNAL_INDEX,
            "KeyConditionExpression": "account_id = :account_id AND account_version BETWEEN :first AND :last",
            "ExpressionAttributeValues": to_dynamodb({":account_id": account_id, ":first": first, ":last": last}),
        }
        response = Request(self.client, "query", query).take()
        items = [item for item in found_items(response) if item["account_version"] % 1 == 0]
        through = last
        if "LastEvaluatedKey" in response and items:
            newest = int(items[-1]["account_version"])
            # The next page begins with the newest version: there may be a second entry of it.
            through = newest - 1 if items[0]["account_version"] < newest else newest
            items = [item for item in items if item["account_version"] <= through]
        return VersionPage(items, through, _missing(items, first, through))

    def _completed(self, account_id: str, page: VersionPage, deadline: Deadline, most_table_pages: int) -> VersionPage:
        """The page with the missing entries that the table has. Raises DeadlinePassed and botocore's errors."""
        missing = set(page.missing)
        items, is_certain = list(page.items), False
        between = min(missing), max(missing)
        for found in self.table_pages(account_id, deadline, most_table_pages, between=between):
            items += (item for item in found.items if item["account_version"] in missing)
            is_certain = found.after is None
        items.sort(key=lambda item: int(item["account_version"]))
        left = sorted(missing.difference(int(item["account_version"]) for item in items))
        return VersionPage(items, page.through, left, is_certain, page.index_error)

    def table_pages(
        self,
        account_id: str,
        deadline: Deadline,
        most_pages: int,
        *,
        after: str | None = None,
        between: tuple[int, int] | None = None,
    ) -> Iterator[TablePage]:
        """The account's entries from the table, strongly consistent, at most so many pages of 1 MB.

        They begin `after` the entry of this transaction id; None: with the first one. If two versions are given, other
        entries than those `between` them are left out. Raises DeadlinePassed and botocore's errors.
        """
        query = _of_account(self.tables.journal, account_id)
        if between:
            query["FilterExpression"] = "account_version BETWEEN :first AND :last"
            first, last = between
            query["ExpressionAttributeValues"] |= to_dynamodb({":first": first, ":last": last})
        return itertools.islice(self._pages(query, account_id, after, deadline), most_pages)

    def reversals_pages(self, account_id: str, deadline: Deadline) -> Iterator[TablePage]:
        """The account's items of the Reversals table, as `table_pages`."""
        return self._pages(_of_account(self.tables.reversals, account_id), account_id, None, deadline)

    def _pages(
        self, query: dict[str, Any], account_id: str, after: str | None, deadline: Deadline
    ) -> Iterator[TablePage]:
        while True:
            deadline.check("reading a table")
            start = {"account_id": account_id, "transaction_id": after} if after is not None else None
            items, last = read_page(self.client, "query", query, start)
            after = last["transaction_id"] if last else None
            yield TablePage(items, after)
            if after is None:
                return


def _of_account(table: str, account_id: str) -> dict[str, Any]:
    values = to_dynamodb({":account_id": account_id})
    return {
        "TableName": table,
        "KeyConditionExpression": "account_id = :account_id",
        "ExpressionAttributeValues": values,
    }


def _missing(items: Sequence[Item], first: int, last: int) -> Sequence[int]:
    found = {int(item["account_version"]) for item in items}
    return [version for version in range(first, last + 1) if version not in found]


class JournalSurroundings:
    """The surroundings of an account's entries, read some entries ahead. `needs` are the entries', in their order.

    An item that only some decisions depend on is read when it is asked for. Each read raises what
    `conditional_writes.read` raises.
    """

    def __init__(
        self, client: "DynamoDBClient", tables: LedgerTables, needs: Iterable["Needs"], deadline: Deadline
    ) -> None:
        self._client, self._tables, self._deadline = client, tables, deadline
        needed = (keys for needs_of_entry in needs if (keys := self._keys(needs_of_entry)))
        self._batches = itertools.batched(needed, ENTRIES_AT_ONCE, strict=False)
        self._next = self._next_batch()
        self._items: Observed = {}

    def account(self, account_id: str) -> Account | None:
        return self._found(self._tables.account_key(account_id), account_from_item)

    def entry(self, entry_id: EntryId) -> JournalEntry | None:
        return self._found(self._tables.entry_key(entry_id), entry_from_item)

    def reversed(self, entry_id: EntryId) -> Reversed | None:
        return self._found(self._tables.reversed_key(entry_id), reversed_from_item)

    def _found[Found](self, key: Key, from_item: Callable[[Item], Found]) -> Found | None:
        if key not in self._items and key in self._next:
            self._items, self._next = self._read(self._next), self._next_batch()
        item = self._items[key] if key in self._items else self._read([key])[key]
        try:
            return from_item(item) if item else None
        except Exception:  # noqa: BLE001 (an item of another account may be anything: its own check names it)
            return None

    def _next_batch(self) -> list[Key]:
        return list(itertools.chain.from_iterable(next(self._batches, ())))

    def _read(self, keys: Sequence[Key]) -> Observed:
        return read(self._client, keys, self._deadline, {self._tables.accounts: Account.__struct_fields__})

    def _keys(self, needs: "Needs") -> list[Key]:
        return [
            *map(self._tables.account_key, needs.account_ids),
            *map(self._tables.entry_key, needs.entry_ids),
            *map(self._tables.reversed_key, needs.reversed_ids),
        ]
