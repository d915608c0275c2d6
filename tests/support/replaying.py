"""The replay of whole journals from values in memory, and a ledger in memory whose journals they are."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.currencies import MINOR_UNITS, no_minor_units
from ledger.core.journal import EntryId, JournalEntry
from ledger.core.mismatches import Mismatch
from ledger.core.reason_codes import NotYet, Refusal
from ledger.core.replay import Replay
from ledger.core.reversals import Reversed
from ledger.core.totals import ReversalSum
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers.books import Books
from tests.checkers.small_books import post_messages
from tests.support.samples import NOW


class Alone(NamedTuple):
    """The surroundings of a journal of which no other account is known."""

    entries: Mapping[EntryId, JournalEntry] = {}

    def account(self, _: str) -> None:
        return None

    def entry(self, entry_id: EntryId) -> JournalEntry | None:
        return self.entries.get(entry_id)

    def reversed(self, _: EntryId) -> None:
        return None


def mismatches(
    account: Account, entries: Iterable[JournalEntry], now: datetime, saved: Account | None = None
) -> list[Mismatch]:
    """The mismatches of the account with these entries, in any order."""
    in_order = sorted(entries, key=lambda entry: entry.outcome.account_version)
    around = Alone({entry.entry_id: entry for entry in in_order})
    return list(Replay(account, saved=saved).mismatches(in_order, account.version, around, now))


class Ledger(NamedTuple):
    """The items of a ledger. `states` has each account by its versions, from 1 on."""

    accounts: dict[str, Account]
    entries: dict[EntryId, JournalEntry]
    reversals: dict[EntryId, Reversed]
    states: dict[str, list[Account]]

    @classmethod
    def of(cls, messages: Sequence[TransactionMessage], *, minor_units: bool = True) -> "Ledger":
        """After these messages. Those that can't be decided are left out."""
        books, states = Books({}, {}, {}), defaultdict[str, list[Account]](list)
        rule = MINOR_UNITS.get if minor_units else no_minor_units
        for message in messages:
            with contextlib.suppress(NotYet, Refusal):
                books = post_messages(books, [message], posted_at=NOW, minor_units=rule)
            for name, account in books.accounts.items():
                states[name] += [] if account in states[name] else [account]
        return cls.with_books(books)._replace(states=states)

    @classmethod
    def with_books(cls, books: Books) -> "Ledger":
        entries = {entry.entry_id: entry for entry in books.entries}
        return cls(books.accounts, entries, dict(books.reversals or {}), {})

    def account(self, account_id: str) -> Account | None:
        return self.accounts.get(account_id)

    def entry(self, entry_id: EntryId) -> JournalEntry | None:
        return self.entries.get(entry_id)

    def reversed(self, entry_id: EntryId) -> Reversed | None:
        return self.reversals.get(entry_id)

    def mismatches(self, since: Mapping[str, Account] = {}) -> list[Mismatch]:
        """The mismatches of each account's journal, from its state in `since` on; else from its beginning."""
        return [found for account_id in self.accounts for found in self._mismatches_of(account_id, since)]

    def _mismatches_of(self, account_id: str, since: Mapping[str, Account]) -> list[Mismatch]:
        before, target = since.get(account_id), self.accounts[account_id]
        replay = Replay(target, before)
        own = (entry for entry in self.entries.values() if entry.account_id == account_id)
        entries = sorted(own, key=lambda entry: entry.outcome.account_version)
        new = [entry for entry in entries if replay.version < entry.outcome.account_version <= target.version]
        found = list(replay.mismatches(new, target.version, self, datetime.fromisoformat(NOW)))
        items = ReversalSum()
        for item in self.reversals.values():
            items = items.with_item(item) if item.account_id == account_id else items
        if before is None and replay.is_known and items != replay.reversals:
            found.append(Mismatch(account_id, "wrong reversals", 0, "the sums differ"))
        return found

    def damaged(self, entry_id: EntryId, **changes: object) -> "Ledger":
        """The ledger with these attributes of an entry's outcome changed."""
        entry = self.entries[entry_id]
        changed = replace(entry, outcome=replace(entry.outcome, **changes))
        return self._replace(entries=self.entries | {entry_id: changed})
