"""The surroundings of a journal: the other sides of transfers, the entries that requests refer to, and how much was
reversed of transactions.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from conditional_writes import Deadline, Item, Key, Observed, read
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import EntryId, JournalEntry, entry_from_item
from ledger.core.replay import OtherSide, other_account_id, referred_entry_ids, reversed_ids
from ledger.core.reversals import Reversed, reversed_from_item
from ledger.tables import LedgerTables

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

ENTRIES_AT_ONCE = 25
"""Entries whose surroundings are read together, and in memory at the same time: some 10 MB at most."""


class JournalSurroundings:
    """The surroundings of an account's entries, read some entries ahead, in the entries' order.

    An entry that only some decisions depend on is read when it is asked for. Each read raises what
    `conditional_writes.read` raises.
    """

    def __init__(
        self, client: "DynamoDBClient", tables: LedgerTables, entries: Sequence[JournalEntry], deadline: Deadline
    ) -> None:
        self._client, self._tables, self._deadline = client, tables, deadline
        needed = (keys for entry in entries if (keys := self._keys(entry)))
        self._batches = itertools.batched(needed, ENTRIES_AT_ONCE, strict=False)
        self._items: Observed = {}

    def other_side(self, entry: JournalEntry) -> OtherSide | None:
        other_id = other_account_id(entry)
        if other_id is None:
            return None
        account = self._item(entry, self._tables.account_key(other_id))
        other_entry = self._item(entry, self._tables.entry_key(EntryId(other_id, entry.transaction_id)))
        return OtherSide(_account_or_none(account), _entry_or_none(other_entry))

    def referred_entry(self, entry: JournalEntry, entry_id: EntryId) -> JournalEntry | None:
        return _entry_or_none(self._item(entry, self._tables.entry_key(entry_id)))

    def reversed(self, entry: JournalEntry, entry_id: EntryId) -> Reversed | None:
        """None for an unreadable item, too: a posted reversal has one that can be read."""
        item = self._item(entry, self._tables.reversed_key(entry_id))
        try:
            return reversed_from_item(item) if item else None
        except Exception:  # noqa: BLE001 (the item may be anything)
            return None

    def _item(self, entry: JournalEntry, key: Key) -> Item | None:
        if key in self._keys(entry):
            while key not in self._items and (batch := next(self._batches, None)):
                self._items = self._read(itertools.chain.from_iterable(batch))
        if key in self._items:
            return self._items[key]
        return self._read([key])[key]

    def _read(self, keys: Iterable[Key]) -> Observed:
        return read(self._client, keys, self._deadline, {self._tables.accounts: Account.__struct_fields__})

    def _keys(self, entry: JournalEntry) -> list[Key]:
        """The keys of what each replay of the entry asks for."""
        keys = [self._tables.entry_key(entry_id) for entry_id in referred_entry_ids(entry)]
        keys += map(self._tables.reversed_key, reversed_ids(entry))
        other_id = other_account_id(entry)
        if other_id is None:
            return keys
        other_entry = self._tables.entry_key(EntryId(other_id, entry.transaction_id))
        return [self._tables.account_key(other_id), other_entry, *keys]


def readable_entry(item: Item) -> JournalEntry:
    """The entry in an item. Raises ValueError, which names the entry."""
    try:
        return entry_from_item(item)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"entry {item['transaction_id']!r}: {type(error).__name__}: {error}") from None


def _account_or_none(item: Item | None) -> Account | None:
    """None for an unreadable item, too: the check of that account skips and reports it."""
    try:
        return account_from_item(item) if item else None
    except Exception:  # noqa: BLE001 (another account's items may be anything)
        return None


def _entry_or_none(item: Item | None) -> JournalEntry | None:
    try:
        return entry_from_item(item) if item else None
    except Exception:  # noqa: BLE001 (another account's items may be anything)
        return None
