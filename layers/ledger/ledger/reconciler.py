"""Reads accounts with their journals, while others post transactions, for the journal replay (`core/replay.py`).

Whatever one account is like, the others are checked: the memory and the time for an account are bounded, and an account
that can't be checked within them is skipped, with a reason. Trouble of AWS's own is raised.
"""

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from msgspec.structs import replace

from conditional_writes import Deadline, DeadlinePassed, Item, read
from conditional_writes.client import SLOWEST_CALL_SECONDS
from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.reading import read_one
from conditional_writes.sizes import item_bytes
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import EntryId, JournalEntry, entry_from_item
from ledger.core.replay import Mismatch, OtherSide, mismatches, other_account_id
from ledger.tables import LedgerTables
from workers.parallel import in_parallel

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class Bounds(NamedTuple):
    """For one account: the entries of its journal, the pages, which DynamoDB ends at 1 MB, and the seconds."""

    entries: int
    pages: int
    seconds: float


MAX_PARALLEL = 8
"""Accounts that are checked at the same time: one journal is read while another is replayed."""
IN_PARALLEL = Bounds(entries=15_000, pages=5, seconds=30)
ALONE = Bounds(entries=250_000, pages=100, seconds=60)
"""An entry takes 1.6 KB of memory, or four times its size if that is more: at most 400 MB of the function's 1 GB."""
LARGEST_ACCOUNT_BYTES = 32_768
"""Of an account's item. One that Teller writes has less than 1 KB."""
STEP_SECONDS = 5
"""Of accounts in parallel: none begins after this time."""
LONGEST_ALONE_SECONDS = ALONE.seconds + 2 * SLOWEST_CALL_SECONDS
"""Of an account alone: the last call begins within its time, and then AWS may be tried with an account that isn't."""
PAUSES_SECONDS = (0.05, 0.2, 1.0)
"""Pauses before an account with mismatches is checked again, and before failed reads are tried again."""
MOST_MISMATCHES = 100
"""Of one account. Further ones aren't looked for."""
LONGEST_SENTENCE = 1_000
"""Characters of a mismatch's sentence, which may quote the items, or of a reason."""
TRANSFERS_AT_ONCE = 25
"""Transfers whose other sides are read in one request, and in memory at the same time: some 10 MB at most."""


class JournalTooLong(Exception):
    """The journal has more entries or pages than the bounds."""


AWS_ERRORS = (BotoCoreError, ClientError, DeadlinePassed)


class Checked(NamedTuple):
    """The result for one account: its mismatches, or if it was skipped the reason, a sentence."""

    account_id: str
    mismatches: Sequence[Mismatch] = ()
    skipped: str | None = None


class Reconciler(NamedTuple):
    """The ledger's tables, and the client that reads them: nothing is written."""

    client: "DynamoDBClient"
    tables: LedgerTables

    def check(self, items: Sequence[Item]) -> list[Checked]:
        """Checks accounts, given as their items, in parallel. Returns the results of the first of them, in order.

        The next account, if there is one, should be checked alone: it took more than the bounds for one of several, or
        a read failed, or no time was left.
        """
        until, stopped = Deadline.after(STEP_SECONDS), threading.Event()

        def begin(item: Item) -> Checked | None:
            if stopped.is_set() or until.remaining_seconds <= 0:
                return None
            try:
                return self._checked(item, IN_PARALLEL, Deadline.after(IN_PARALLEL.seconds))
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

    def check_alone(self, item: Item) -> Checked:
        """Checks one account, within wider bounds, or skips it.

        If its reads fail, an account that doesn't exist is read in the same way: if that fails, too, the trouble is
        AWS's, and botocore's error or DeadlinePassed is raised.
        """
        deadline = Deadline.after(ALONE.seconds)
        for pause_seconds in (*PAUSES_SECONDS, None):
            try:
                return self._checked(item, ALONE, deadline)
            except JournalTooLong as error:
                return _skipped(item, str(error))
            except AWS_ERRORS as error:
                reason = f"its items couldn't be read: {type(error).__name__}: {error}"
                if pause_seconds is None or isinstance(error, DeadlinePassed):
                    break
            time.sleep(pause_seconds)
        self._read_an_account_that_does_not_exist()
        return _skipped(item, reason)

    def _read_an_account_that_does_not_exist(self) -> None:
        """Makes both requests of a check, side by side, so that the two take no longer than the slowest call."""
        account_id, deadline = f"none-{uuid.uuid4()}", Deadline.after(SLOWEST_CALL_SECONDS)
        keys = [self.tables.account_key(account_id), self.tables.entry_key(EntryId(account_id, "none"))]
        requests: list[Callable[[], object]] = [
            lambda: self._entries(account_id, IN_PARALLEL, deadline),
            lambda: read(self.client, keys, deadline),
        ]
        in_parallel(lambda request: request(), requests)

    def _checked(self, item: Item, bounds: Bounds, deadline: Deadline) -> Checked:
        """Raises JournalTooLong, DeadlinePassed, and botocore's errors. An account that can't be read is skipped."""
        try:
            size = item_bytes(item)
            if size > LARGEST_ACCOUNT_BYTES:
                return _skipped(item, f"its item has {size:,} bytes, expected at most {LARGEST_ACCOUNT_BYTES:,}")
            return Checked(item["account_id"], self._lasting_mismatches(item, bounds, deadline))
        except (JournalTooLong, *AWS_ERRORS):
            raise
        except Exception as error:  # noqa: BLE001 (an account's items may be anything)
            return _skipped(item, f"it can't be read: {type(error).__name__}: {error}")

    def _lasting_mismatches(self, item: Item, bounds: Bounds, deadline: Deadline) -> list[Mismatch]:
        """Mismatches that are found again and again: a commit may be visible in one table before the other."""
        found = self._found_mismatches(item, bounds, deadline)
        for pause_seconds in PAUSES_SECONDS:
            if not found:
                break
            time.sleep(pause_seconds)
            try:
                item = read_one(self.client, self.tables.account_key(item["account_id"]), deadline) or item
                again = self._found_mismatches(item, bounds, deadline)
            except DeadlinePassed as error:
                raise DeadlinePassed(f"{error}, again, after this was found: {found[0].sentence}") from None
            found = [mismatch for mismatch in again if any(mismatch.is_like(before) for before in found)]
        return found

    def _found_mismatches(self, item: Item, bounds: Bounds, deadline: Deadline) -> list[Mismatch]:
        """The first mismatches of one replay."""
        account = account_from_item(item)
        entries = self._snapshot(account, self._entries(account.account_id, bounds, deadline), deadline)
        entries.sort(key=lambda entry: entry.outcome.account_version)
        found = mismatches(account, entries, _OtherSides(self, entries, deadline), datetime.now(UTC))
        return [
            replace(mismatch, sentence=mismatch.sentence[:LONGEST_SENTENCE])
            for mismatch in itertools.islice(found, MOST_MISMATCHES)
        ]

    def _entries(self, account_id: str, bounds: Bounds, deadline: Deadline) -> list[JournalEntry]:
        """The account's journal. Raises JournalTooLong, after as much as the bounds was read."""
        entries: list[JournalEntry] = []
        start: dict[str, Any] = {}
        for _ in range(bounds.pages):
            deadline.check("reading the journal")
            page = self.client.query(
                TableName=self.tables.journal,
                KeyConditionExpression="account_id = :account_id",
                ExpressionAttributeValues=to_dynamodb({":account_id": account_id}),
                ConsistentRead=True,
                **start,
            )
            entries += (_entry(from_dynamodb(item)) for item in page["Items"])
            if "LastEvaluatedKey" not in page:
                return entries
            if len(entries) > bounds.entries:
                break
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
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


class _OtherSides:
    """The other sides of the transfers among the entries, read in the entries' order as the replay asks for them."""

    def __init__(self, reconciler: Reconciler, entries: Iterable[JournalEntry], deadline: Deadline) -> None:
        self._reconciler, self._deadline = reconciler, deadline
        transfers = ((entry, other_id) for entry in entries if (other_id := other_account_id(entry)))
        self._batches = itertools.batched(transfers, TRANSFERS_AT_ONCE, strict=False)
        self._read: dict[str, OtherSide] = {}

    def get(self, transaction_id: str) -> OtherSide | None:
        while transaction_id not in self._read:
            batch = next(self._batches, None)
            if batch is None:
                return None
            self._read = dict(self._sides(batch))
        return self._read[transaction_id]

    def _sides(self, batch: Sequence[tuple[JournalEntry, str]]) -> Iterator[tuple[str, OtherSide]]:
        client, tables = self._reconciler
        keys = {
            entry.transaction_id: (
                tables.account_key(other_id),
                tables.entry_key(EntryId(other_id, entry.transaction_id)),
            )
            for entry, other_id in batch
        }
        items = read(
            client, itertools.chain(*keys.values()), self._deadline, {tables.accounts: Account.__struct_fields__}
        )
        for transaction_id, (account_key, entry_key) in keys.items():
            yield transaction_id, _other_side(items[account_key], items[entry_key])


def _other_side(account: Item | None, entry: Item | None) -> OtherSide:
    """The two items as values. An unreadable item counts as missing: its own account is skipped, and reported."""
    try:
        return OtherSide(account_from_item(account) if account else None, _entry(entry) if entry else None)
    except Exception:  # noqa: BLE001 (another account's items may be anything)
        return OtherSide(None, None)


def _entry(item: Item) -> JournalEntry:
    """Raises ValueError, which names the entry."""
    try:
        return entry_from_item(item)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"entry {item['transaction_id']!r}: {type(error).__name__}: {error}") from None


def _skipped(item: Item, reason: str) -> Checked:
    return Checked(item["account_id"], skipped=reason[:LONGEST_SENTENCE])
