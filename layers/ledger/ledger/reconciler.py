"""Checks accounts against the replay of their journals (`core/replay.py`), while others post transactions.

An account that hasn't changed since its checkpoint is compared with the checkpoint. If it has changed, its new entries
are replayed from there. Its whole journal is replayed once in thirty days, and whenever anything is wrong: only the
replay of a whole journal reports mismatches. It is then compared with the account's items of the Reversals table, too.

Whatever one account is like, the others are checked: the memory and the time for an account are bounded, and an account
that can't be checked within them is skipped, with a reason. Trouble of AWS's own is raised.
"""

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, NamedTuple

from conditional_writes import Deadline, DeadlinePassed, Item, read
from conditional_writes.client import SLOWEST_CALL_SECONDS
from conditional_writes.reading import read_one
from conditional_writes.sizes import item_bytes
from ledger.checkpoints import Checkpoint, Checkpoints
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import EntryId, JournalEntry
from ledger.core.mismatches import Mismatch, first_mismatches, shortened
from ledger.core.replay import Replay
from ledger.journal_versions import AWS_ERRORS, JournalVersions
from ledger.long_journals import IndexDiffers, LongJournals, Position
from ledger.reversal_items import ReversalItems
from ledger.surroundings import JournalSurroundings, readable_entry
from ledger.tables import LedgerTables
from workers.parallel import in_parallel

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class Bounds(NamedTuple):
    """For one account: the entries that are replayed, their pages, which DynamoDB ends at 1 MB, and the seconds."""

    entries: int
    pages: int
    seconds: float


MAX_PARALLEL = 8
"""Accounts that are checked at the same time: one journal is read while another is replayed."""
IN_PARALLEL = Bounds(entries=15_000, pages=5, seconds=30)
ALONE = Bounds(entries=250_000, pages=100, seconds=55)
"""An entry takes 1.6 KB of memory, or four times its size if that is more: at most 400 MB of the function's 1 GB."""
LARGEST_ACCOUNT_BYTES = 32_768
"""Of an account's item. One that Teller writes has less than 1 KB, and up to 13 KB more if it has open holds."""
STEP_SECONDS = 5
"""Of accounts in parallel: none begins after this time."""
CHECKPOINTS_SECONDS = 5
"""To read the accounts' checkpoints of a step, and to save them. If that fails, the run does, and Lambda retries it."""
LONGEST_ALONE_SECONDS = ALONE.seconds + CHECKPOINTS_SECONDS + 2 * SLOWEST_CALL_SECONDS
"""Of an account alone: the last call of the check begins within its time, and the last of the saving within its own."""
LONGEST_REASON = 1_000
"""Characters of the reason for which an account is skipped."""
PAUSES_SECONDS = (0.05, 0.2, 1.0)
"""Pauses before an account with mismatches is checked again, and before failed reads are tried again."""


class JournalTooLong(Exception):
    """The journal has more entries or pages than the bounds."""


class Night(NamedTuple):
    """A run of the reconciliation: its day, and whether it replays every journal whole."""

    day: date
    whole: bool = False

    def is_whole(self, checkpoint: Checkpoint) -> bool:
        """Whether the journal of this checkpoint's account is replayed whole."""
        return self.whole or checkpoint.is_whole_due(self.day)


class Sound(NamedTuple):
    """An account that is as its journal says. Its checkpoint is a new one, or None if the one before is still true.

    `is_whole`: its whole journal was replayed.
    """

    account_id: str
    new_checkpoint: Checkpoint | None
    is_whole: bool


class Mismatched(NamedTuple):
    """An account with mismatches."""

    account_id: str
    mismatches: Sequence[Mismatch]
    is_whole: bool


class Skipped(NamedTuple):
    """An account that couldn't be checked. The reason is a sentence."""

    account_id: str
    reason: str


type Checked = Sound | Mismatched | Skipped


class Reconciler(NamedTuple):
    """The ledger's tables and the checkpoints, and the client that reads them."""

    client: "DynamoDBClient"
    tables: LedgerTables
    checkpoints: Checkpoints

    def check(self, items: Sequence[Item], night: Night) -> list[Checked]:
        """Checks accounts, given as their items, in parallel. Returns the results of the first of them, in order.

        The next account, if there is one, should be checked alone: it took more than the bounds for one of several, or
        a read failed, or no time was left.
        """
        saved = self.checkpoints.read([item["account_id"] for item in items], Deadline.after(CHECKPOINTS_SECONDS))
        until, stopped = Deadline.after(STEP_SECONDS), threading.Event()

        def begin(item: Item) -> Checked | None:
            if stopped.is_set() or until.remaining_seconds <= 0:
                return None
            try:
                checkpoint = saved.get(item["account_id"])
                return self._checked(item, checkpoint, night, IN_PARALLEL, Deadline.after(IN_PARALLEL.seconds))
            except (JournalTooLong, *AWS_ERRORS):
                stopped.set()
                return None

        results: list[Checked] = []
        with ThreadPoolExecutor(MAX_PARALLEL) as pool:
            for result in pool.map(begin, items):
                if result is None:
                    stopped.set()
                    break
                results.append(result)
        return results

    def check_alone(self, item: Item, night: Night, position: Position | None = None) -> Checked | Position:
        """Checks one account within wider bounds, or skips it.

        If its journal is long, returns the position that its replay has reached: from there the next call goes on.

        If its reads fail, an account that doesn't exist is read in the same way: if that fails, too, the trouble is
        AWS's, and botocore's error or DeadlinePassed is raised.
        """
        deadline = Deadline.after(ALONE.seconds)
        for pause_seconds in (*PAUSES_SECONDS, None):
            try:
                return self._checked_alone(item, night, position, deadline)
            except AWS_ERRORS as error:
                reason = f"its items couldn't be read: {type(error).__name__}: {error}"
                if pause_seconds is None or isinstance(error, DeadlinePassed):
                    break
            time.sleep(pause_seconds)
        self._read_an_account_that_does_not_exist()
        return _skipped(item, reason)

    def save(self, checked: Sequence[Checked]) -> None:
        """Saves the checkpoints of sound accounts, and deletes those of accounts with mismatches, or that were skipped.

        So these are replayed whole each night until they are mended. Raises what `write` raises.
        """
        found: dict[str, Checkpoint | None] = {}
        for each in checked:
            match each:
                case Sound(account_id, Checkpoint() as new):
                    found[account_id] = new
                case Mismatched() | Skipped():
                    found[each.account_id] = None
        self.checkpoints.write(found, Deadline.after(CHECKPOINTS_SECONDS))

    def _read_an_account_that_does_not_exist(self) -> None:
        """Makes both requests of a check, side by side, so that the two take no longer than the slowest call."""
        account_id, deadline = f"none-{uuid.uuid4()}", Deadline.after(SLOWEST_CALL_SECONDS)
        keys = [self.tables.account_key(account_id), self.tables.entry_key(EntryId(account_id, "none"))]
        requests: list[Callable[[], object]] = [
            lambda: self._entries(account_id, IN_PARALLEL, deadline),
            lambda: read(self.client, keys, deadline),
        ]
        in_parallel(lambda request: request(), requests)

    def _checked_alone(
        self, item: Item, night: Night, position: Position | None, deadline: Deadline
    ) -> Checked | Position:
        """Raises DeadlinePassed and botocore's errors."""
        account_id = item["account_id"]
        checkpoint = self.checkpoints.read([account_id], deadline).get(account_id)
        if checkpoint is None and position and not position.is_whole:  # what it began with is gone, or was found wrong
            position = None
        if position is None:
            try:
                return self._checked(item, checkpoint, night, IN_PARALLEL, deadline)
            except JournalTooLong:
                pass
        try:
            position = position or _beginning(account_from_item(item), checkpoint, night)
            known = self._known_before(position, checkpoint, deadline)
            result = LongJournals(self._versions).replay_on(position, known, deadline)
        except IndexDiffers:  # so the table decides, as far as memory allows
            try:
                return self._checked(item, checkpoint, night._replace(whole=True), ALONE, deadline)
            except JournalTooLong as error:
                return _skipped(item, f"its index differs from its journal, and {error}")
        except AWS_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 (an account's items may be anything)
            return _unreadable(item, error)
        if isinstance(result, Position):
            return result
        whole_on = night.day if position.is_whole or checkpoint is None else checkpoint.whole_on
        return _result(position.target, result, checkpoint, whole_on, is_whole=position.is_whole)

    def _checked(
        self, item: Item, checkpoint: Checkpoint | None, night: Night, bounds: Bounds, deadline: Deadline
    ) -> Checked:
        """Raises JournalTooLong, DeadlinePassed, and botocore's errors. An account that can't be read is skipped."""
        try:
            size = item_bytes(item)
            if size > LARGEST_ACCOUNT_BYTES:
                return _skipped(item, f"its item has {size:,} bytes, expected at most {LARGEST_ACCOUNT_BYTES:,}")
            account = account_from_item(item)
            if checkpoint and not night.is_whole(checkpoint) and self._leads_to(account, checkpoint, bounds, deadline):
                return _result(account, [], checkpoint, checkpoint.whole_on, is_whole=False)
            found, account = self._lasting_mismatches(account, checkpoint, bounds, deadline)
            return _result(account, found, checkpoint, night.day, is_whole=True)
        except (JournalTooLong, *AWS_ERRORS):
            raise
        except Exception as error:  # noqa: BLE001 (an account's items may be anything)
            return _unreadable(item, error)

    def _leads_to(self, account: Account, checkpoint: Checkpoint, bounds: Bounds, deadline: Deadline) -> bool:
        """Whether the entries since the checkpoint lead to the account. If not, only the whole journal can tell why.

        Raises as `_checked`.
        """
        new_entries = account.version - checkpoint.account.version
        if new_entries > bounds.entries:
            raise JournalTooLong(f"its journal has {new_entries:,} entries since its checkpoint")
        replay = Replay(account, checkpoint.account)
        while replay.version < account.version:
            page = self._versions.page(account.account_id, replay.version + 1, account.version, deadline, bounds.pages)
            try:
                entries = list(map(readable_entry, page.items))
            except ValueError:
                return False
            around = JournalSurroundings(self.client, self.tables, entries, deadline)
            if page.missing or any(replay.mismatches(entries, around, datetime.now(UTC))):
                return False
        return not any(replay.last_mismatches())

    def _lasting_mismatches(
        self, account: Account, checkpoint: Checkpoint | None, bounds: Bounds, deadline: Deadline
    ) -> tuple[list[Mismatch], Account]:
        """Mismatches that are found again and again, and the account as it was read last.

        A commit may be visible in one table before the other.
        """
        found = self._found_mismatches(account, checkpoint, bounds, deadline)
        for pause_seconds in PAUSES_SECONDS:
            if not found:
                break
            time.sleep(pause_seconds)
            try:
                item = read_one(self.client, self.tables.account_key(account.account_id), deadline)
                account = account_from_item(item) if item else account
                again = self._found_mismatches(account, checkpoint, bounds, deadline)
            except DeadlinePassed as error:
                raise DeadlinePassed(f"{error}, again, after this was found: {found[0].sentence}") from None
            found = [mismatch for mismatch in again if any(mismatch.is_like(before) for before in found)]
        return found, account

    def _found_mismatches(
        self, account: Account, checkpoint: Checkpoint | None, bounds: Bounds, deadline: Deadline
    ) -> list[Mismatch]:
        """The first mismatches of one replay of the whole journal."""
        if account.version > bounds.entries:
            raise JournalTooLong(f"its journal has {account.version:,} entries")
        entries = self._snapshot(account, self._entries(account.account_id, bounds, deadline), deadline)
        entries.sort(key=lambda entry: entry.outcome.account_version)
        around = JournalSurroundings(self.client, self.tables, entries, deadline)
        replay = Replay(account, checkpoint=checkpoint.account if checkpoint else None)
        found = replay.mismatches(entries, around, datetime.now(UTC))
        at_the_end = itertools.chain(replay.last_mismatches(), self._wrong_reversals(replay, deadline))
        return first_mismatches(itertools.chain(found, at_the_end))

    def _wrong_reversals(self, replay: Replay, deadline: Deadline) -> Iterator[Mismatch]:
        """The mismatch of the replayed journal with the Reversals table, if there is one."""
        if replay.is_known:
            yield from ReversalItems(self.client, self.tables).mismatches(replay.target, replay.reversals, deadline)

    def _entries(self, account_id: str, bounds: Bounds, deadline: Deadline) -> list[JournalEntry]:
        """The account's journal. Raises JournalTooLong, after as much as the bounds was read."""
        entries: list[JournalEntry] = []
        for page in self._versions.table_pages(account_id, deadline, bounds.pages):
            entries += map(readable_entry, page.items)
            if page.after is None:
                return entries
            if len(entries) > bounds.entries:
                break
        raise JournalTooLong(
            f"its journal has more than {bounds.entries:,} entries or {bounds.pages} MB: {len(entries):,} were read"
        )

    def _snapshot(self, account: Account, entries: Sequence[JournalEntry], deadline: Deadline) -> list[JournalEntry]:
        """The entries without those of versions that the account has reached since it was read.

        Entries commit with their account, and never change: those up to its version are a consistent snapshot. An entry
        that is beyond even the account's present version stays: it is a mismatch.
        """
        present_version = account.version
        if any(entry.outcome.account_version > account.version for entry in entries):
            present = read_one(self.client, self.tables.account_key(account.account_id), deadline)
            present_version = int(present["version"]) if present else account.version
        return [entry for entry in entries if not account.version < entry.outcome.account_version <= present_version]

    def _known_before(self, position: Position, checkpoint: Checkpoint | None, deadline: Deadline) -> Account | None:
        """The account of the checkpoint. None if another run saved it after the replay began: it is beyond the replay.

        A checkpoint that is beyond even the account's present version is wrong.
        """
        if checkpoint is None:
            return None
        if position.target.version < checkpoint.account.version:
            present = read_one(self.client, self.tables.account_key(position.target.account_id), deadline)
            if present and checkpoint.account.version <= account_from_item(present).version:
                return None
        return checkpoint.account

    @property
    def _versions(self) -> JournalVersions:
        return JournalVersions(self.client, self.tables)


def _beginning(account: Account, checkpoint: Checkpoint | None, night: Night) -> Position:
    """The position from which the replay of a long journal begins.

    If no entries were added since the checkpoint, and it doesn't lead to the account, only the whole journal can tell.
    """
    is_whole = checkpoint is None or night.is_whole(checkpoint) or checkpoint.account.version >= account.version
    return Position(account, None if is_whole or checkpoint is None else checkpoint.account, is_whole)


def _result(
    account: Account, mismatches: Sequence[Mismatch], before: Checkpoint | None, whole_on: date, *, is_whole: bool
) -> Checked:
    if mismatches:
        return Mismatched(account.account_id, mismatches, is_whole)
    after = Checkpoint(account, whole_on)
    return Sound(account.account_id, None if after == before else after, is_whole)


def _unreadable(item: Item, error: Exception) -> Checked:
    return _skipped(item, f"it can't be read: {type(error).__name__}: {error}")


def _skipped(item: Item, reason: str) -> Checked:
    return Skipped(item["account_id"], shortened(reason, LONGEST_REASON))
