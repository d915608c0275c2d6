"""The surroundings of a journal: the other sides of transfers, the entries that requests refer to, and how much was
reversed of transactions.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from conditional_writes import Deadline, Item, Key, Observed, read
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import EntryId, JournalEntry, entry_from_item
from ledger.core.replay import other_account_ids, referred_entry_ids, reversed_ids
from ledger.core.reversals import Reversed, reversed_from_item
from ledger.tables import LedgerTables

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

ENTRIES_AT_ONCE = 25
"""Entries whose surroundings are read together, and in memory at the same time: some 10 MB at most."""


class JournalSurroundings:
    """The surroundings of an account's entries, read some entries ahead, in the entries' order.

    An item that only some decisions depend on is read when it is asked for. Each read raises what
    `conditional_writes.read` raises.
    """

    def __init__(
        self, client: "DynamoDBClient", tables: LedgerTables, entries: Sequence[JournalEntry], deadline: Deadline
    ) -> None:
        self._client, self._tables, self._deadline = client, tables, deadline
        needed = (keys for entry in entries if (keys := list(self._keys(entry))))
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

    def _keys(self, entry: JournalEntry) -> Iterator[Key]:
        """The keys of what each replay of the entry asks for."""
        for other_id in other_account_ids(entry):
            yield self._tables.account_key(other_id)
            yield self._tables.entry_key(entry.on(other_id))
        yield from map(self._tables.account_key, entry.shards)
        yield from map(self._tables.entry_key, referred_entry_ids(entry))
        for reversed_id in reversed_ids(entry):
            yield self._tables.reversed_key(reversed_id)
            if entry.outcome.reversal and entry.outcome.reversal.is_of_many:
                sides = (EntryId.on(account_id, *reversed_id) for account_id in entry.account_ids)
                yield from map(self._tables.entry_key, sides)
