"""Reads a pool as one account: the sum of its shards' balances, and their entries in the order of their times.

An entry of a pool is one of its own journal, which has its opening, or of a shard's. Each has a version there. A
statement has those of certain versions of each: its next page, which the answer names, has the others.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from conditional_writes import Deadline, Item, read
from ledger.account_reading import Answer, account_in, entry_in
from ledger.core.accounts import Account
from ledger.core.journal import JournalEntry, entry_to_json
from ledger.core.pools import Pool, shard_id
from ledger.core.values import sum_of
from ledger.journal_times import Boundary, boundary
from ledger.table_reading import MOST_TABLE_PAGES, JournalVersions
from ledger.tables import LedgerTables
from workers.parallel import in_parallel

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

type Versions = Mapping[str, tuple[int, int]]
"""The first and the last version of each account, by its id. None, if the first is after the last."""

LEAST_READ = 10
"""Entries of an account that are read together."""


def read_shards(
    client: "DynamoDBClient", tables: LedgerTables, account_id: str, pool: Pool, deadline: Deadline
) -> list[Account]:
    """The pool's shards as they are now, but for those that no transaction has made yet. One request per 100 shards.

    Each transaction is on one shard of a pool, so the shards are those of some moment between the first and the last
    read, less or more transactions that were posted meanwhile. Raises RequestRefused and what `read` raises.
    """
    keys = [tables.account_key(shard_id(account_id, number)) for number in range(pool.shards)]
    found = read(client, keys, deadline, {tables.accounts: Account.__struct_fields__})
    return [account_in(item) for item in map(found.get, keys) if item]


def summed(pool: Account, shards: Sequence[Account]) -> Account:
    """The pool with the sum of its shards' balances, and the time of the last posting on any of them."""
    balance = sum_of(shard.balance for shard in shards)
    times = [each.posted_at for each in (pool, *shards) if each.posted_at]
    return replace(pool, balance=balance, posted_at=max(times, default=None))


class Merged(NamedTuple):
    """Entries in the order of their times, and the versions that have none, each with its account."""

    entries: Sequence[JournalEntry]
    missing: Sequence[tuple[str, int]]


class PoolEntries(NamedTuple):
    """The entries of a pool, whose `accounts` are itself and its shards, as they were read."""

    versions: JournalVersions
    accounts: Sequence[Account]
    deadline: Deadline

    @property
    def all_versions(self) -> Versions:
        return {account.account_id: (1, account.version) for account in self.accounts}

    def boundaries(self, time: datetime) -> dict[str, Boundary]:
        """Of each account, as `boundary` finds it. Raises ValueError, and botocore's errors of the table."""

        def of(account: Account) -> Boundary:
            return boundary(self.versions, account, time, self.deadline, MOST_TABLE_PAGES)

        return dict(zip((each.account_id for each in self.accounts), in_parallel(of, self.accounts), strict=True))

    def merged(self, wanted: Versions, limit: int, *, newest: bool = False) -> Merged:
        """The first of the entries of these versions, or the newest ones, and maybe more of them.

        Reads on with the accounts that may have one more of them, until none has. Raises RequestRefused,
        DeadlinePassed and botocore's errors.
        """
        left = {account_id: versions for account_id, versions in wanted.items() if versions[0] <= versions[1]}
        at_once = max(LEAST_READ, 2 * limit // max(1, len(left)))
        entries, missing, reached = list[JournalEntry](), list[tuple[str, int]](), dict[str, str]()
        while needed := _to_be_read(left, reached, entries, limit, newest=newest):
            parts = [(account_id, *_parted(left.pop(account_id), at_once, newest=newest)) for account_id in needed]
            for (account_id, _, rest), read_now in zip(parts, in_parallel(self._read, parts), strict=True):
                entries += read_now.entries
                missing += read_now.missing
                if read_now.entries:
                    reached[account_id] = read_now.entries[0 if newest else -1].outcome.posted_at
                if rest[0] <= rest[1]:
                    left[account_id] = rest
        return Merged(_in_time(entries), sorted(missing))

    def _read(self, part: tuple[str, tuple[int, int], tuple[int, int]]) -> Merged:
        account_id, (first, last), _ = part
        items, missing = list[Item](), list[tuple[str, int]]()
        while first <= last:
            page = self.versions.page(account_id, first, last, self.deadline, MOST_TABLE_PAGES)
            items += page.items
            missing += [(account_id, version) for version in page.missing]
            first = page.through + 1
        return Merged([entry_in(item) for item in items], missing)


def page_of(found: Merged, wanted: Versions, limit: int, most_bytes: int) -> Answer:
    """The first of the entries that are wanted, as many as a page takes. `next` has the versions of the others."""
    taken, entries, taken_bytes = list[JournalEntry](), list[Answer](), 0
    for entry in found.entries:
        if not _is_in(wanted, entry.account_id, entry.outcome.account_version):
            continue
        shown = entry_to_json(entry)
        taken_bytes += len(json.dumps(shown)) + len(", ")
        if len(entries) == limit or (taken_bytes > most_bytes and entries):
            break
        taken.append(entry)
        entries.append(shown)
    rest = _after(wanted, taken, found.missing)
    missing = [
        f"{account_id}#{version}"
        for account_id, version in found.missing
        if _is_in(wanted, account_id, version) and not _is_in(rest, account_id, version)
    ]
    return {
        "entries": entries,
        "complete": not missing,
        "missing_versions": missing,
        "next": {"versions": {name: list(versions) for name, versions in rest.items()}} if rest else None,
    }


def from_the_first_of(entries: Sequence[JournalEntry], wanted: Versions) -> Versions:
    """The versions of each account from its first one of these entries on."""
    firsts: dict[str, int] = {}
    for entry in entries:
        version = entry.outcome.account_version
        firsts[entry.account_id] = min(version, firsts.get(entry.account_id, version))
    return {name: (firsts[name], wanted[name][1]) for name in firsts}


def _is_in(versions: Versions, account_id: str, version: int) -> bool:
    first, last = versions.get(account_id, (1, 0))
    return first <= version <= last


def _after(wanted: Versions, taken: Iterable[JournalEntry], missing: Iterable[tuple[str, int]]) -> Versions:
    """Those of the versions that come after what was taken, and after missing ones next to it."""
    last = {account_id: first - 1 for account_id, (first, _) in wanted.items()}
    for entry in taken:
        last[entry.account_id] = max(last[entry.account_id], entry.outcome.account_version)
    for account_id, version in sorted(missing):
        if version == last[account_id] + 1:
            last[account_id] = version
    return {name: (last[name] + 1, end) for name, (_, end) in wanted.items() if last[name] < end}


def _to_be_read(
    left: Versions, reached: Mapping[str, str], entries: Sequence[JournalEntry], limit: int, *, newest: bool
) -> list[str]:
    """The accounts that may have one more of the entries: those that weren't read until the time of the last one."""
    if len(entries) < limit:
        return list(left)
    last = sorted((entry.outcome.posted_at for entry in entries), reverse=newest)[limit - 1]
    return [name for name in left if (reached.get(name, last) >= last if newest else reached.get(name, last) <= last)]


def _parted(versions: tuple[int, int], at_once: int, *, newest: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """The versions to read next, and the rest."""
    first, last = versions
    if newest:
        begin = max(first, last - at_once + 1)
        return (begin, last), (first, begin - 1)
    end = min(last, first + at_once - 1)
    return (first, end), (end + 1, last)


def _in_time(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """By their times, and those of one account by their versions, though a wrong clock may have set a time back."""
    latest: dict[str, str] = {}
    keys = []
    for entry in sorted(entries, key=lambda entry: entry.outcome.account_version):
        account_id, outcome = entry.account_id, entry.outcome
        latest[account_id] = max(latest.get(account_id, ""), outcome.posted_at)
        keys.append((latest[account_id], account_id, outcome.account_version, entry))
    return [entry for *_, entry in sorted(keys, key=lambda key: key[:3])]
