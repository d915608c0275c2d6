"""Checks an account against the replay of its journal (`core/replay.py`), while others post transactions.

An account that hasn't changed since its checkpoint is compared with it. If it has changed, its new entries are
replayed from there. Its whole journal is replayed once in thirty days, and whenever anything is wrong: only a whole
replay has mismatches.

A replay goes on page by page, in constant memory, and from one invocation to the next. A short journal is one page,
from the table. Of a longer one the index has the entries in their order, and the table has the truth: so they are
replayed from the index, and added up in a sum that doesn't depend on their order. Then the table's entries are added
up. If the sums are equal, the replay was one of the table.
"""

import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from conditional_writes import Deadline, DeadlinePassed, Item, read
from conditional_writes.core.items import item_bytes
from conditional_writes.core.unconditional import read_one
from ledger.checkpoints import Checkpoint
from ledger.core.accounts import Account, account_from_item, account_item
from ledger.core.journal import JournalEntry, entry_from_item
from ledger.core.mismatches import MOST_MISMATCHES, Mismatch, quoted_id
from ledger.core.replay import Needs, Replay
from ledger.core.reversals import Reversed, reversed_from_item
from ledger.core.totals import SUMS, HashTree, ReversalSum, Turnover, Turnovers, number_of
from ledger.core.values import attribute
from ledger.table_reading import AWS_ERRORS, MOST_TABLE_PAGES, IndexIsLate, JournalSurroundings, JournalVersions
from ledger.tables import ACCOUNT_ATTRIBUTES, LedgerTables
from workers.parallel import in_parallel

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

MOST_ENTRIES, MOST_PAGES = 15_000, 5
"""Of a short journal, and of its pages of 1 MB. An entry takes 1.6 KB of memory, or four times its size if it is more.
"""
LARGEST_ACCOUNT_BYTES = 32_768
"""Of an account with a long journal: its position is in the lock's record. One that Teller writes has less than 14 KB.
"""
LONGEST_REASON = 1_000
"""Characters of the reason for which an account is skipped."""
PAUSES_SECONDS = (0.05, 0.2, 1.0)
"""Before a page with mismatches is read again: a commit may be visible in one table before the other."""


class Night(NamedTuple):
    """A run of the reconciliation: its day, whether it replays every journal whole, and the moment of its sums."""

    day: date
    whole: bool = False
    as_of: str = ""

    def is_whole(self, checkpoint: Checkpoint) -> bool:
        """Whether the journal of this checkpoint's account is replayed whole."""
        return self.whole or checkpoint.is_whole_due(self.day)


class Sound(NamedTuple):
    """An account that is as its journal says. Its checkpoint is a new one, or None if the one before is still true.

    `is_whole`: its whole journal was replayed. `turnover` is what its entries did before the night's moment; None if
    that isn't known.
    """

    account_id: str
    new_checkpoint: Checkpoint | None
    is_whole: bool
    currency: str
    turnover: Turnover | None


class Mismatched(NamedTuple):
    """An account with mismatches. Its whole journal was replayed."""

    account_id: str
    mismatches: Sequence[Mismatch]


class Skipped(NamedTuple):
    """An account that couldn't be checked. The reason is a sentence."""

    account_id: str
    reason: str


type Checked = Sound | Mismatched | Skipped


class Position(NamedTuple):
    """How far the replay of a journal has come. Its size doesn't depend on the journal's.

    `target` is the account as it was when the replay began, `replayed` the account as the entries so far give it, and
    `reversals`, `seals` and `turnovers` are those of these entries. The replay `is_whole` if it began with the first
    entry. What comes next is another page of `entries`, one of the `table` to be added up, or the `end`; nothing if it
    is `done`.

    `index_sum` has the entries of the index, `table_sum` those of the table until `after`, a transaction id. `last` is
    the version and the transaction id of the last one of the table's entries so far, in the order of versions.
    """

    target: Account
    replayed: Account | None
    is_whole: bool
    seals: HashTree = HashTree()
    next: Literal["entries", "table", "end", "done"] = "entries"
    reversals: ReversalSum = ReversalSum()
    index_sum: int = 0
    table_sum: int = 0
    after: str | None = None
    last: tuple[int, str] = (0, "")
    turnovers: Turnovers | None = None

    @property
    def version(self) -> int:
        return self.replayed.version if self.replayed else 0

    def as_item(self) -> Item:
        replayed = account_item(self.replayed) if self.replayed else None
        turnovers = self.turnovers.as_item() if self.turnovers else None
        return self._asdict() | {"target": account_item(self.target), "replayed": replayed, "turnovers": turnovers}

    @classmethod
    def from_item(cls, item: Item) -> "Position":
        return cls(
            target=account_from_item(item["target"]),
            replayed=account_from_item(item["replayed"]) if item["replayed"] else None,
            is_whole=item["is_whole"],
            seals=HashTree(int(item["seals"][0]), tuple(item["seals"][1])),
            next=item["next"],
            reversals=ReversalSum(*map(int, item["reversals"])),
            index_sum=int(item["index_sum"]),
            table_sum=int(item["table_sum"]),
            after=item["after"],
            last=(int(item["last"][0]), item["last"][1]),
            turnovers=Turnovers.from_item(item["turnovers"]) if item["turnovers"] else None,
        )


type Look = tuple[Position, Sequence[Mismatch]]
"""The position after the next page, and the page's mismatches."""


class Reconciler(NamedTuple):
    """The ledger's tables, and the client that reads them."""

    client: "DynamoDBClient"
    tables: LedgerTables

    def check(
        self, item: Item, checkpoint: Checkpoint | None, night: Night, deadline: Deadline, begun: Position | None = None
    ) -> Checked | Position:
        """Checks an account, given as its item, until the deadline. Then returns the position to go on from.

        Whatever the account is like, the memory is bounded, and an account that can't be read is skipped. If not even
        a page can be read, raises AWS_ERRORS.
        """
        start = position = begun
        saved = checkpoint.account if checkpoint else None
        try:
            account = account_from_item(item)
            if checkpoint and checkpoint.account == account and not night.is_whole(checkpoint):
                return _sound_as_before(checkpoint, night)
            if position is None or not (position.is_whole or checkpoint):  # what it began with is gone: it was wrong
                start = position = _beginning(account, checkpoint, night)
            while True:
                further, found = self._look(position, saved, night, deadline)
                if found:
                    return Mismatched(account.account_id, found)
                position = further
                if position.next == "done":
                    return _sound(position, checkpoint, night)
        except AWS_ERRORS:
            if position is None or position is start:
                raise
            if (size := item_bytes(item)) <= LARGEST_ACCOUNT_BYTES:
                return position
            reason = f"its item has {size:,} bytes, expected at most {LARGEST_ACCOUNT_BYTES:,} with a long journal"
            return Skipped(item["account_id"], reason)
        except Exception as error:  # noqa: BLE001 (an account's items may be anything)
            return Skipped(item["account_id"], f"it can't be read: {type(error).__name__}: {error}"[:LONGEST_REASON])

    def read_nothing(self, deadline: Deadline) -> None:
        """The requests of a check for an account that doesn't exist. Raises AWS_ERRORS: then the trouble is AWS's."""
        account_id = f"none-{uuid.uuid4()}"
        reads: list[Callable[[], object]] = [
            lambda: list(self._journal.table_pages(account_id, deadline, most_pages=1)),
            lambda: read(self.client, [self.tables.account_key(account_id)], deadline),
        ]
        in_parallel(lambda read: read(), reads)

    def _look(self, position: Position, saved: Account | None, night: Night, deadline: Deadline) -> Look:
        """Only a whole replay has mismatches, and only those that last."""
        match position:
            case Position(is_whole=False):
                further, found = self._replayed(position, None, deadline)
                begun_anew = Position(position.target, None, is_whole=True, turnovers=Turnovers(night.as_of))
                return (begun_anew if found else further), []
            case Position(next="entries"):
                return _lasting(lambda: self._replayed(position, saved, deadline))
            case Position(next="table"):
                return self._added_up(position, deadline), []
            case _:
                return _lasting(
                    lambda: (position._replace(next="done"), list(self._at_the_end(position, saved, deadline)))
                )

    def _replayed(self, position: Position, saved: Account | None, deadline: Deadline) -> Look:
        """The next page of entries, replayed."""
        further, entries, through = self._page(position, deadline)
        replay = Replay(position.target, position.replayed, saved, position.reversals)
        around = JournalSurroundings(self.client, self.tables, map(Needs.of, entries), deadline)
        mismatches = replay.mismatches(entries, through, around, datetime.now(UTC))
        found = list(itertools.islice(mismatches, MOST_MISMATCHES))
        seals = position.seals.with_leaves(entry.seal for entry in entries)
        turnovers = position.turnovers and position.turnovers.with_entries(entries)
        further = further._replace(replayed=replay.account, reversals=replay.reversals, seals=seals)
        further = further._replace(turnovers=turnovers)
        if through < position.target.version:
            return further._replace(next="entries"), found
        return (further if position.is_whole else further._replace(next="done")), found

    def _page(self, position: Position, deadline: Deadline) -> tuple[Position, list[JournalEntry], int]:
        """The next entries in the order of their versions, through which version, and the position after them."""
        account_id, target, so_far = position.target.account_id, position.target.version, position.version
        if position.is_whole and so_far == 0 and target <= MOST_ENTRIES:
            pages = list(self._journal.table_pages(account_id, deadline, MOST_PAGES))
            if pages[-1].after is None:
                entries = sorted((_readable(item, entry_from_item) for page in pages for item in page.items), key=_id)
                last = _id(entries[-1]) if entries else position.last
                within = [entry for entry in entries if entry.outcome.account_version <= target]
                return position._replace(next="end", last=last), within, target
        page = self._journal.page(account_id, so_far + 1, target, deadline, MOST_TABLE_PAGES)
        if page.missing and not page.is_certain:
            raise page.index_error or IndexIsLate(f"its index lacks version {page.missing[0]:,}")
        entries = [_readable(item, entry_from_item) for item in page.items]
        index_sum = _sum(position.index_sum, page.items) if position.is_whole else 0
        return position._replace(next="table", index_sum=index_sum), entries, page.through

    def _added_up(self, position: Position, deadline: Deadline) -> Position:
        """The position after the next page of the table. Raises ValueError if the table has other entries."""
        [page] = self._journal.table_pages(position.target.account_id, deadline, most_pages=1, after=position.after)
        last = max([position.last, *(_readable(item, _id_in) for item in page.items)])
        within = (item for item in page.items if item["account_version"] <= position.target.version)
        table_sum = _sum(position.table_sum, within)
        if page.after:
            return position._replace(after=page.after, table_sum=table_sum, last=last)
        if table_sum != position.index_sum:
            raise ValueError("its index has other entries than its journal")
        return position._replace(next="end", last=last)

    def _at_the_end(self, position: Position, saved: Account | None, deadline: Deadline) -> Iterator[Mismatch]:
        """The mismatches of what is no entry up to the target's version.

        An item of the Reversals table that is newer says nothing of that version, but that its transaction had been
        reversed no more often than by now.
        """
        account, journals = position.target, position.reversals
        then, newer, newest = ReversalSum(), 0, Reversed("", "")
        for page in self._journal.reversals_pages(account.account_id, deadline):
            for found in (_readable(item, reversed_from_item) for item in page.items):
                if found.account_version <= account.version:
                    then = then.with_item(found)
                else:
                    newer, newest = newer + found.number, max(newest, found, key=lambda each: each.account_version)
        versions = [
            (position.last[0], "entry beyond", f"entry {quoted_id(position.last[1])}"),
            (saved.version if saved else 0, "wrong checkpoint", "it"),
            (newest.account_version, "wrong reversals", f"what was reversed of {quoted_id(newest.transaction_id)}"),
        ]
        yield from self._beyond(account, versions, deadline)
        if then != journals if newer == 0 else not then.number <= journals.number <= then.number + newer:
            number = f"{then.number:,}" + (f" to {then.number + newer:,}" if newer else "")
            sentence = f"the table Reversals has {number} reversals of its transactions, the journal gives"
            given = "other amounts" if then.number == journals.number else f"{journals.number:,}"
            yield Mismatch(account.account_id, "wrong reversals", 0, f"{sentence} {given}")

    def _beyond(
        self, account: Account, versions: Iterable[tuple[int, str, str]], deadline: Deadline
    ) -> Iterator[Mismatch]:
        """Those of the versions that are beyond even the account's present version, as mismatches."""
        later = [each for each in versions if each[0] > account.version]
        if not later:
            return
        present = read_one(self.client, self.tables.account_key(account.account_id), deadline, ACCOUNT_ATTRIBUTES)
        present_version = account_from_item(present).version if present else account.version
        for number, what, of in later:
            if number > present_version:
                sentence = f"{of} is of version {number}, the account is at version {present_version}"
                yield Mismatch(account.account_id, what, number, sentence)

    @property
    def _journal(self) -> JournalVersions:
        return JournalVersions(self.client, self.tables)


def _beginning(account: Account, checkpoint: Checkpoint | None, night: Night) -> Position:
    """If no entries were added since the checkpoint, and it isn't the account, only the whole journal can tell why."""
    if checkpoint is None or night.is_whole(checkpoint) or checkpoint.account.version >= account.version:
        return Position(account, None, is_whole=True, turnovers=Turnovers(night.as_of))
    turnovers = _turnovers_at(checkpoint, night)
    return Position(account, checkpoint.account, is_whole=False, seals=checkpoint.seals, turnovers=turnovers)


def _turnovers_at(checkpoint: Checkpoint, night: Night) -> Turnovers | None:
    return checkpoint.turnovers and checkpoint.turnovers.at(night.as_of, checkpoint.account.posted_at or "")


def _sound_as_before(checkpoint: Checkpoint, night: Night) -> Sound:
    account, turnovers = checkpoint.account, _turnovers_at(checkpoint, night)
    before = turnovers and turnovers.before
    return Sound(account.account_id, None, is_whole=False, currency=account.currency, turnover=before)


def _sound(last: Position, checkpoint: Checkpoint | None, night: Night) -> Sound:
    """The account after the last page of its replay."""
    whole_on = night.day if last.is_whole or checkpoint is None else checkpoint.whole_on
    new = Checkpoint(last.target, whole_on, last.seals, last.turnovers)
    saved, before = None if new == checkpoint else new, last.turnovers and last.turnovers.before
    return Sound(last.target.account_id, saved, last.is_whole, last.target.currency, before)


def _lasting(look: Callable[[], Look]) -> Look:
    """Looks again and again while there are mismatches. The last look counts."""
    further, found = look()
    for pause_seconds in PAUSES_SECONDS:
        if not found:
            break
        time.sleep(pause_seconds)
        try:
            further, found = look()
        except DeadlinePassed as error:
            raise DeadlinePassed(f"{error}, again, after this was found: {found[0].sentence}") from None
    return further, found


def _readable[Value](item: Item, from_item: Callable[[Item], Value]) -> Value:
    """The value in an item of the account's. Raises ValueError, which names the item."""
    try:
        return from_item(item)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"entry {item['transaction_id']!r}: {type(error).__name__}: {error}") from None


def _id(entry: JournalEntry) -> tuple[int, str]:
    return entry.outcome.account_version, entry.transaction_id


def _id_in(item: Item) -> tuple[int, str]:
    return attribute(item, "account_version", int), item["transaction_id"]


def _sum(so_far: int, items: Iterable[Item]) -> int:
    return (so_far + sum(map(number_of, items))) % SUMS
