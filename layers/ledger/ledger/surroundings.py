"""The surroundings of a journal: the other sides of transfers, and the entries that requests refer to."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from conditional_writes import Deadline, Item, Key, Observed, read
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import EntryId, JournalEntry, entry_from_item
from ledger.core.replay import OtherSide, other_account_id, referred_entry_ids
from ledger.tables import LedgerTables

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

ENTRIES_AT_ONCE = 25
"""Entries whose surroundings are read in one request, and in memory at the same time: some 10 MB at most."""


class _Needed(NamedTuple):
    """The keys of an entry's surroundings."""

    other_account: Key | None
    other_entry: Key | None
    referred: Mapping[EntryId, Key]

    @property
    def keys(self) -> list[Key]:
        return [key for key in (self.other_account, self.other_entry, *self.referred.values()) if key]


class JournalSurroundings:
    """The surroundings of an account's entries, read in the entries' order as the replay asks for them.

    Each read raises what `conditional_writes.read` raises.
    """

    def __init__(
        self, client: "DynamoDBClient", tables: LedgerTables, entries: Sequence[JournalEntry], deadline: Deadline
    ) -> None:
        self._client, self._tables, self._deadline = client, tables, deadline
        needed = ((entry, needed) for entry in entries if (needed := self._needed(entry)).keys)
        self._batches = itertools.batched(needed, ENTRIES_AT_ONCE, strict=False)
        self._other_sides: dict[EntryId, OtherSide] = {}
        self._referred: dict[EntryId, JournalEntry | None] = {}

    def other_side(self, entry: JournalEntry) -> OtherSide | None:
        while entry.entry_id not in self._other_sides and self._read_on():
            pass
        return self._other_sides.get(entry.entry_id)

    def referred_entry(self, entry_id: EntryId) -> JournalEntry | None:
        while entry_id not in self._referred and self._read_on():
            pass
        return self._referred.get(entry_id)

    def _read_on(self) -> bool:
        """Reads the next batch. Whether there was one."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        keys = itertools.chain.from_iterable(needed.keys for _, needed in batch)
        items = read(self._client, keys, self._deadline, {self._tables.accounts: Account.__struct_fields__})
        self._other_sides = dict(_other_sides(batch, items))
        self._referred = {
            entry_id: _entry_or_none(items[key]) for _, needed in batch for entry_id, key in needed.referred.items()
        }
        return True

    def _needed(self, entry: JournalEntry) -> _Needed:
        referred = {entry_id: self._tables.entry_key(entry_id) for entry_id in referred_entry_ids(entry)}
        other_id = other_account_id(entry)
        if other_id is None:
            return _Needed(None, None, referred)
        other_entry = self._tables.entry_key(EntryId(other_id, entry.transaction_id))
        return _Needed(self._tables.account_key(other_id), other_entry, referred)


def readable_entry(item: Item) -> JournalEntry:
    """The entry in an item. Raises ValueError, which names the entry."""
    try:
        return entry_from_item(item)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"entry {item['transaction_id']!r}: {type(error).__name__}: {error}") from None


def _other_sides(batch: Sequence[tuple[JournalEntry, _Needed]], items: Observed) -> Iterator[tuple[EntryId, OtherSide]]:
    for entry, needed in batch:
        if needed.other_account and needed.other_entry:
            account, other_entry = items[needed.other_account], items[needed.other_entry]
            yield entry.entry_id, OtherSide(_account_or_none(account), _entry_or_none(other_entry))


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
