"""The replay of whole journals from values in memory, and a ledger in memory whose journals they are."""

import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.journal import EntryId, JournalEntry
from ledger.core.mismatches import Mismatch, first_mismatches
from ledger.core.reason_codes import NotYet, Refusal
from ledger.core.replay import OtherSide, Replay, other_account_id
from ledger.core.reversal_sums import ReversalSum
from ledger.core.reversals import Reversed
from ledger.core.transaction_types.base import TransactionMessage
from tests.support import rules
from tests.support.samples import NOW


class Known(NamedTuple):
    """The surroundings of a journal: the other sides by transaction id, all entries that may be referred to, and how
    much was reversed of transactions.
    """

    other_sides: Mapping[str, OtherSide] = {}
    entries: Mapping[EntryId, JournalEntry] = {}
    reversals: Mapping[EntryId, Reversed] = {}

    def other_side(self, entry: JournalEntry) -> OtherSide | None:
        return self.other_sides.get(entry.transaction_id)

    def referred_entry(self, _: JournalEntry, entry_id: EntryId) -> JournalEntry | None:
        return self.entries.get(entry_id)

    def reversed(self, _: JournalEntry, entry_id: EntryId) -> Reversed | None:
        return self.reversals.get(entry_id)


def mismatches(
    account: Account, entries: Iterable[JournalEntry], other_sides: Mapping[str, OtherSide], now: datetime
) -> list[Mismatch]:
    """The mismatches of the account with these entries, in any order."""
    in_order = sorted(entries, key=lambda entry: entry.outcome.account_version)
    replay = Replay(account)
    known = Known(other_sides, {entry.entry_id: entry for entry in in_order})
    return list(itertools.chain(replay.mismatches(in_order, known, now), replay.last_mismatches()))


class Ledger(NamedTuple):
    """The items of a ledger. `states` has each account by its versions, from 1 on."""

    accounts: dict[str, Account]
    entries: dict[EntryId, JournalEntry]
    reversals: dict[EntryId, Reversed]
    states: dict[str, list[Account]]

    @classmethod
    def of(cls, messages: Sequence[TransactionMessage], *, minor_units: bool = True) -> "Ledger":
        """After these messages. Those that can't be decided are left out."""
        ledger = rules.Ledger(minor_units=minor_units)
        for message in messages:
            with contextlib.suppress(NotYet, Refusal):
                ledger.decide(message)
        return cls(ledger.accounts, ledger.entries, ledger.reversed, ledger.states)

    def other_side(self, entry: JournalEntry) -> OtherSide | None:
        other_id = other_account_id(entry)
        if other_id is None:
            return None
        return OtherSide(self.accounts.get(other_id), self.entries.get(EntryId(other_id, entry.transaction_id)))

    def referred_entry(self, _: JournalEntry, entry_id: EntryId) -> JournalEntry | None:
        return self.entries.get(entry_id)

    def reversed(self, _: JournalEntry, entry_id: EntryId) -> Reversed | None:
        return self.reversals.get(entry_id)

    def mismatches(self, since: Mapping[str, Account] = {}) -> list[Mismatch]:
        """The mismatches of each account's journal, from its state in `since` on; else from its beginning."""
        return [found for account_id in self.accounts for found in self._mismatches_of(account_id, since)]

    def _mismatches_of(self, account_id: str, since: Mapping[str, Account]) -> list[Mismatch]:
        before = since.get(account_id)
        replay = Replay(self.accounts[account_id], before)
        own = (entry for entry in self.entries.values() if entry.account_id == account_id)
        entries = sorted(own, key=lambda entry: entry.outcome.account_version)
        new = [entry for entry in entries if entry.outcome.account_version > replay.version]
        now = datetime.fromisoformat(NOW)
        found = first_mismatches(itertools.chain(replay.mismatches(new, self, now), replay.last_mismatches()))
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
