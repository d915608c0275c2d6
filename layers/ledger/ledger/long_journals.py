"""The replay of a journal that is too long for memory or for one invocation: page by page, in constant memory.

The index has the entries in their order, and the table has the truth. So the entries are replayed from the index, and
added up in a sum that doesn't depend on their order. Then the table's entries are added up. If the sums are equal, the
replay was one of the table. At the end the reversals are compared with the Reversals table.
"""

import hashlib
import itertools
import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import Deadline, DeadlinePassed, Item
from conditional_writes.reading import read_one
from ledger.core.accounts import Account, account_from_item, account_item
from ledger.core.mismatches import Mismatch, first_mismatches, quoted_id
from ledger.core.replay import Replay
from ledger.core.reversal_sums import SUMS, ReversalSum
from ledger.journal_versions import MOST_TABLE_PAGES, JournalVersions
from ledger.reversal_items import ReversalItems
from ledger.surroundings import JournalSurroundings, readable_entry
from ledger.tables import ACCOUNT_ATTRIBUTES

PAUSE_SECONDS = 1.25
"""Before what has mismatches is read again: a commit may be visible in one table before the other."""


class IndexDiffers(Exception):
    """The index doesn't have the entries that the table has, or it is away and the journal is long."""


class Position(NamedTuple):
    """How far the replay of a long journal has come. Its size doesn't depend on the journal's.

    `target` is the account as it was when the replay began, `replayed` the account as the entries so far give it. The
    replay `is_whole` if it began with the first entry. Then the table's entries are added up `after` this transaction
    id. `beyond` has the version and the transaction id of the entry that is furthest beyond the target's version.
    `reversals` has the reversals so far, for the comparison with the Reversals table at the end.
    """

    target: Account
    replayed: Account | None
    is_whole: bool
    index_sum: int = 0
    table_sum: int = 0
    after: str | None = None
    beyond: tuple[int, str] | None = None
    reversals: ReversalSum = ReversalSum()

    @property
    def version(self) -> int:
        return self.replayed.version if self.replayed else 0

    def as_item(self) -> Item:
        replayed = account_item(self.replayed) if self.replayed else None
        items = {"target": account_item(self.target), "replayed": replayed}
        sums = {"index_sum": f"{self.index_sum:x}", "table_sum": f"{self.table_sum:x}"}
        beyond = list(self.beyond) if self.beyond else None
        reversals = {"reversals": [self.reversals.number, f"{self.reversals.states:x}"]}
        return items | sums | reversals | {"is_whole": self.is_whole, "after": self.after, "beyond": beyond}

    @classmethod
    def from_item(cls, item: Item) -> "Position":
        replayed = account_from_item(item["replayed"]) if item["replayed"] else None
        beyond = (int(item["beyond"][0]), str(item["beyond"][1])) if item["beyond"] else None
        sums = (int(item["index_sum"], 16), int(item["table_sum"], 16))
        number, states = item["reversals"]
        reversals = ReversalSum(int(number), int(states, 16))
        target, is_whole = account_from_item(item["target"]), item["is_whole"]
        return cls(target, replayed, is_whole, *sums, item["after"], beyond, reversals)


class LongJournals(NamedTuple):
    """The journal by its versions. The same client reads the table."""

    versions: JournalVersions

    def replay_on(
        self, position: Position, checkpoint: Account | None, deadline: Deadline
    ) -> Position | list[Mismatch]:
        """Goes on until the deadline. Returns the position that it reached, or at the end the mismatches.

        The first page with mismatches is the end: further ones aren't looked for. If the replay has to begin anew, as
        a whole one, the position is returned at once. If not even a page could be read, raises IndexDiffers,
        DeadlinePassed or botocore's errors; after a page the position is returned in place of these.
        """
        began_at = position
        try:
            while True:
                result = self._next_page(position, checkpoint, deadline)
                if not isinstance(result, Position):
                    return result
                position = result
                if position.is_whole != began_at.is_whole:
                    return position
        except (DeadlinePassed, IndexDiffers, BotoCoreError, ClientError):
            if position == began_at:
                raise
            return position

    def _next_page(
        self, position: Position, checkpoint: Account | None, deadline: Deadline
    ) -> Position | list[Mismatch]:
        if position.version < position.target.version:
            return self._replayed_page(position, checkpoint, deadline)
        return self._added_page(position, deadline) if position.is_whole else []

    def _replayed_page(
        self, position: Position, checkpoint: Account | None, deadline: Deadline
    ) -> Position | list[Mismatch]:
        """The position after the next page of the index, or the page's mismatches if they stay after a pause."""
        further, found = self._replayed_once(position, checkpoint, deadline)
        if found and not position.is_whole:  # the checkpoint may be wrong: the whole journal can tell
            return Position(position.target, None, is_whole=True)
        if found:
            time.sleep(PAUSE_SECONDS)
            further, found = self._replayed_once(position, checkpoint, deadline)
        return found or further

    def _replayed_once(
        self, position: Position, checkpoint: Account | None, deadline: Deadline
    ) -> tuple[Position, list[Mismatch]]:
        target = position.target
        page = self.versions.page(target.account_id, position.version + 1, target.version, deadline, MOST_TABLE_PAGES)
        if page.missing and not page.is_certain:
            raise IndexDiffers
        entries = list(map(readable_entry, page.items))
        replay = Replay(target, position.replayed, checkpoint, position.reversals)
        around = JournalSurroundings(*self.versions, entries, deadline)
        mismatches = replay.mismatches(entries, around, datetime.now(UTC))
        is_end = page.through == target.version
        after = replay.last_mismatches() if is_end else replay.missing(page.through + 1)
        found = first_mismatches(itertools.chain(mismatches, after))
        index_sum = (position.index_sum + _sum(page.items)) % SUMS
        return position._replace(replayed=replay.account, index_sum=index_sum, reversals=replay.reversals), found

    def _added_page(self, position: Position, deadline: Deadline) -> Position | list[Mismatch]:
        """The position after the next page of the table, or after the last page the mismatches: at most one."""
        account_id, version = position.target.account_id, position.target.version
        [page] = self.versions.table_pages(account_id, deadline, most_pages=1, after=position.after)
        later = [item for item in page.items if _version(item) > version]
        beyond = max([*filter(None, [position.beyond]), *map(_id, later)], default=None)
        table_sum = (position.table_sum + _sum(item for item in page.items if _version(item) <= version)) % SUMS
        further = position._replace(table_sum=table_sum, beyond=beyond, after=page.after)
        if page.after is not None:
            return further
        if further.table_sum != further.index_sum:
            raise IndexDiffers
        return self._beyond(further, deadline) or self._wrong_reversals(further, deadline)

    def _beyond(self, position: Position, deadline: Deadline) -> list[Mismatch]:
        """The entry of the highest version, if it is beyond the account's present version."""
        if position.beyond is None:
            return []
        version, transaction_id = position.beyond
        if version <= self._present_version(position.target, deadline):
            return []
        time.sleep(PAUSE_SECONDS)
        present_version = self._present_version(position.target, deadline)
        if version <= present_version:
            return []
        sentence = f"version {version}, {quoted_id(transaction_id)}: the account is at version {present_version}"
        return [Mismatch(position.target.account_id, "entry beyond", version, sentence)]

    def _wrong_reversals(self, position: Position, deadline: Deadline) -> list[Mismatch]:
        """The mismatch with the Reversals table, if it stays after a pause."""
        items = ReversalItems(*self.versions)
        if not items.mismatches(position.target, position.reversals, deadline):
            return []
        time.sleep(PAUSE_SECONDS)
        return first_mismatches(items.mismatches(position.target, position.reversals, deadline))

    def _present_version(self, account: Account, deadline: Deadline) -> int:
        client, tables = self.versions
        present = read_one(client, tables.account_key(account.account_id), deadline, ACCOUNT_ATTRIBUTES)
        return account_from_item(present).version if present else account.version


def _id(item: Item) -> tuple[int, str]:
    return _version(item), item["transaction_id"]


def _version(item: Item) -> int:
    """0 for an entry whose version is none: it isn't in the index, so that the sums differ."""
    version = item.get("account_version")
    return int(version) if isinstance(version, Decimal) else 0


def _sum(items: Iterable[Item]) -> int:
    """The sum of the items' hashes, whatever their order."""
    texts = (json.dumps(item, sort_keys=True, default=str).encode() for item in items)
    return sum(int.from_bytes(hashlib.sha256(text).digest()) for text in texts)
