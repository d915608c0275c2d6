"""The replay of a whole journal from values in memory."""

import itertools
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from ledger.core.accounts import Account
from ledger.core.journal import EntryId, JournalEntry
from ledger.core.mismatches import Mismatch
from ledger.core.replay import OtherSide, Replay
from ledger.core.reversals import Reversed


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
