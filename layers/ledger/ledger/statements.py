"""Reads accounts: an account, its statement, its balance at a time, and what became of a transaction.

The account is read first, strongly consistently. A statement then has an entry of each version up to the account's, or
names the versions without one. So no transaction that was acknowledged before is left out, though the index is late.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import asdict, replace

from conditional_writes import Deadline, DeadlinePassed, Item
from conditional_writes.core.unconditional import read, read_one
from ledger.account_reading import (
    Answer,
    ErrorCode,
    RequestRefused,
    answer_or_error,
    entry_in,
    read_account,
    unreadable,
)
from ledger.core.accounts import CLOCK_SKEW, LONGEST_POSTING, Account, time_of, timestamp
from ledger.core.holds import OpenHold
from ledger.core.interest import Interest
from ledger.core.journal import EntryId, JournalEntry, entry_to_json
from ledger.core.limits import AccountLimit
from ledger.core.pools import LOWEST_LIMIT, Pool, on_shard, shards_of
from ledger.core.read_requests import (
    DEFAULT_ENTRIES,
    ReadAccount,
    ReadBalance,
    ReadRequest,
    ReadStatement,
    ReadTransaction,
    decode_request,
)
from ledger.core.refusal_record import refusal_from_item
from ledger.core.reversals import reversed_from_item
from ledger.core.values import format_decimal, sum_of
from ledger.journal_times import Boundary, boundary
from ledger.pool_reading import PoolEntries, from_the_first_of, page_of, read_shards, summed
from ledger.table_reading import MOST_TABLE_PAGES, JournalVersions
from ledger.tables import LedgerTables

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

LARGEST_PAGE_BYTES = 4_000_000
"""Of a statement's entries in JSON. Lambda answers with 6 MB at most."""


class AccountReader(NamedTuple):
    """The ledger's tables, and the client that reads them. It writes nothing."""

    client: "DynamoDBClient"
    tables: LedgerTables

    def answer(self, event: Any, deadline: Deadline) -> Answer:
        """The answer to an event of Lambda's, as JSON. If there is none, it has an `error` with a code and a reason.

        Raises DeadlinePassed if nothing can be said in time, and botocore's errors of the tables.
        """
        return answer_or_error(lambda: self._read(decode_request(event), deadline))

    def _read(self, request: ReadRequest, deadline: Deadline) -> Answer:
        if isinstance(request, ReadTransaction):
            return self._transaction(request, deadline)
        now = datetime.now(UTC)
        account = read_account(self.client, self.tables, request.account_id, deadline)
        if account.pool:
            return self._of_pool(request, account, account.pool, now, deadline)
        match request:
            case ReadAccount():
                return _account_json(replace(account.at(timestamp(now)), posted_at=account.posted_at))
            case ReadBalance():
                return self._balance(request, account, now, deadline)
            case ReadStatement(from_time=None):
                return self._statement_by_versions(request, account, deadline)
            case ReadStatement():
                return self._statement_by_times(request, account, now, deadline)
        raise AssertionError(request)

    def _of_pool(self, request: ReadRequest, account: Account, pool: Pool, now: datetime, deadline: Deadline) -> Answer:
        shards = read_shards(self.client, self.tables, account.account_id, pool, deadline)
        entries = PoolEntries(self._versions, [account, *shards], deadline)
        match request:
            case ReadAccount():
                used = list(map(_shard_json, shards))
                return _account_json(summed(account, shards)) | {"pool": {"shards": pool.shards, "used": used}}
            case ReadBalance():
                return self._balance_of_pool(request, entries, now)
            case ReadStatement():
                return self._statement_of_pool(request, entries, now)
        raise AssertionError(request)

    def _balance_of_pool(self, request: ReadBalance, entries: PoolEntries, now: datetime) -> Answer:
        """The sum of the accounts' balances at the time. Nothing of it is known if that of one isn't."""
        found = self._boundaries(entries, request.at)
        is_certain = all(each.is_certain for each in found.values())
        lasts = [last for each in found.values() if (last := _last_entry(each))] if is_certain else []
        balances = sum_of(Decimal(last["balance_after"]) for last in lasts)
        return {
            "account_id": request.account_id,
            "at": request.at.isoformat(),
            "balance": format_decimal(balances) if lasts else None,
            "held": "0" if lasts else None,
            "account_version": sum(each.before for each in found.values()) if is_certain else None,
            "posted_at": max((last["posted_at"] for last in lasts), default=None),
            "complete": is_certain,
            "final": _is_settled(request.at, now),
        }

    def _statement_of_pool(self, request: ReadStatement, entries: PoolEntries, now: datetime) -> Answer:
        """A page of the entries of the pool and its shards, in the order of their times. `next` has the versions of
        each that come after it.
        """
        if request.from_version:
            sentence = f"from_version: {request.account_id!r} is a pool: expected last or from, or one of its shards"
            raise RequestRefused(ErrorCode.INVALID_REQUEST, sentence)
        limit, wanted, is_certain = request.last or request.limit or DEFAULT_ENTRIES, entries.all_versions, True
        if request.from_time:
            begins = self._boundaries(entries, request.from_time)
            ends = self._boundaries(entries, request.to_time) if request.to_time else {}
            is_certain = all(each.is_certain for each in (*begins.values(), *ends.values()))
            wanted = {
                name: (begins[name].before + 1, ends[name].after - 1 if name in ends else last)
                for name, (_, last) in wanted.items()
            }
        elif request.versions:
            if not request.versions.keys() <= wanted.keys():
                sentence = f"versions: expected those of {request.account_id!r} and its shards, as an answer's next"
                raise RequestRefused(ErrorCode.INVALID_REQUEST, sentence)
            wanted = {name: (first, min(last, wanted[name][1])) for name, (first, last) in request.versions.items()}
        found = entries.merged(wanted, limit, newest=request.last is not None)
        if request.last:
            wanted = from_the_first_of(found.entries[-limit:], wanted)
        account_version = sum(each.version for each in entries.accounts)
        about: Answer = {"account_id": request.account_id, "account_version": account_version}
        answer = about | page_of(found, wanted, limit, LARGEST_PAGE_BYTES)
        if not is_certain:
            answer |= {"complete": False, "next": None}
            answer["entries"] = [entry for entry in answer["entries"] if _is_within(request, entry)]
        if request.from_time:
            answer["final"] = request.to_time is not None and _is_settled(request.to_time, now)
        return answer

    def _boundaries(self, entries: PoolEntries, time: datetime) -> dict[str, Boundary]:
        try:
            return entries.boundaries(time)
        except ValueError as error:
            raise RequestRefused(ErrorCode.UNREADABLE, str(error)) from None

    def _transaction(self, request: ReadTransaction, deadline: Deadline) -> Answer:
        """The entry, and how much was reversed of the transaction, which is counted on its home: one request for both.

        Without an entry, the transaction's last refusal is looked for: an entry that was made after a refusal comes
        first.
        """
        home_account_id = request.home_account_id or request.account_id
        home_entry_id = EntryId(home_account_id, request.transaction_id)
        entry_id = EntryId.on(request.account_id, *home_entry_id)
        entry_key, reversed_key = self.tables.entry_key(entry_id), self.tables.reversed_key(home_entry_id)
        found = read(self.client, [entry_key, reversed_key], deadline)
        answer: Answer = {
            "account_id": request.account_id,
            "home_account_id": home_account_id,
            "transaction_id": request.transaction_id,
            "state": "unknown",
            "entry": None,
            "reversed": None,
            "refusal": None,
        }
        if item := found[entry_key]:
            entry = entry_in(item)
            answer |= {"state": entry.outcome.status.lower(), "entry": entry_to_json(entry)}
            answer["reversed"] = _reversed_json(found[reversed_key], entry)
        elif on_shards := self._on_shards(request, home_account_id, deadline):
            return self._transaction(on_shards, deadline)
        elif item := read_one(self.client, self.tables.refusal_key(entry_id), deadline):
            answer |= {"state": "refused", "refusal": _refusal_json(item)}
        return answer

    def _on_shards(self, request: ReadTransaction, home_account_id: str, deadline: Deadline) -> ReadTransaction | None:
        """The request for the entry on a shard, if it names a pool, and the transaction has an entry.

        The shard of a home follows from the transaction's id, and the entry there names the others'.
        """
        keys = [self.tables.account_key(each) for each in (request.account_id, home_account_id)]
        pools = self.tables.pools_in(
            read(self.client, keys, deadline, {self.tables.accounts: Account.__struct_fields__})
        )
        if not pools:
            return None
        home_id = on_shard(home_account_id, shards_of([home_account_id], request.transaction_id, pools))
        home_entry_id = EntryId(home_id, request.transaction_id)
        [item] = read(self.client, [self.tables.entry_key(home_entry_id)], deadline).values()
        if item is None:
            return None
        account_id = on_shard(request.account_id, entry_in(item).shards)
        found = replace(request, account_id=account_id, home_account_id=home_id)
        return found if account_id not in pools else None

    def _balance(self, request: ReadBalance, account: Account, now: datetime, deadline: Deadline) -> Answer:
        found = self._boundary(account, request.at, deadline)
        last = _last_entry(found) if found.is_certain else None
        return {
            "account_id": account.account_id,
            "at": request.at.isoformat(),
            "balance": last and last["balance_after"],
            "held": last and last["held_after"],
            "account_version": found.before if found.is_certain else None,
            "posted_at": last and last["posted_at"],
            "complete": found.is_certain,
            "final": _is_final(request.at, account, now),
        }

    def _statement_by_versions(self, request: ReadStatement, account: Account, deadline: Deadline) -> Answer:
        if request.versions:
            raise RequestRefused(ErrorCode.INVALID_REQUEST, f"versions: {account.account_id!r} is no pool")
        if request.last:
            first, last, limit = max(1, account.version - request.last + 1), account.version, request.last
        else:
            first, last = request.from_version or 1, min(request.to_version or account.version, account.version)
            limit = request.limit or DEFAULT_ENTRIES
        return self._page(account, first, last, limit, deadline)

    def _statement_by_times(
        self, request: ReadStatement, account: Account, now: datetime, deadline: Deadline
    ) -> Answer:
        """As the statement of the versions between the two boundaries.

        If one of them isn't certain, the statement begins after the version that is known to be before it, or ends
        before the one that is known to be after it. It isn't complete then, has only entries of the time, and no `next`
        page: that would be one of versions.
        """
        assert request.from_time is not None
        begin = self._boundary(account, request.from_time, deadline)
        end = Boundary(account.version, account.version + 1)
        if request.to_time:
            end = self._boundary(account, request.to_time, deadline)
        limit = request.limit or DEFAULT_ENTRIES
        answer = self._page(account, begin.before + 1, end.after - 1, limit, deadline)
        if not (begin.is_certain and end.is_certain):
            answer["complete"], answer["next"] = False, None
            answer["entries"] = [entry for entry in answer["entries"] if _is_within(request, entry)]
        return answer | {"final": request.to_time is not None and _is_final(request.to_time, account, now)}

    def _page(self, account: Account, first: int, last: int, limit: int, deadline: Deadline) -> Answer:
        """The entries of the versions from `first` to `last`, or of the first of them: `next` has the others."""
        entries, missing, taken_bytes = list[Answer](), list[int](), 0
        beyond = first  # the first version that isn't in the answer
        for entry in self._found(account.account_id, first, min(last, first + limit - 1), deadline):
            if isinstance(entry, int):
                missing.append(entry)
                beyond = entry + 1
                continue
            taken_bytes += len(json.dumps(entry)) + len(", ")
            if taken_bytes > LARGEST_PAGE_BYTES and entries:
                beyond = entry["account_version"]
                break
            entries.append(entry)
            beyond = entry["account_version"] + 1
        return {
            "account_id": account.account_id,
            "account_version": account.version,
            "entries": entries,
            "complete": not missing,
            "missing_versions": missing,
            "next": {"from_version": beyond, "to_version": last} if beyond <= last else None,
        }

    def _found(self, account_id: str, first: int, last: int, deadline: Deadline) -> Iterator[Answer | int]:
        """The entry of each version in order, or the version if it has none. Fewer, if the deadline passes.

        If it passes before anything was found, all of them are missing.
        """
        begin = first
        while begin <= last:
            try:
                page = self._versions.page(account_id, begin, last, deadline, MOST_TABLE_PAGES)
            except DeadlinePassed:
                if begin == first:
                    yield from range(first, last + 1)
                return
            found = [(int(item["account_version"]), item) for item in page.items]
            for version, item in sorted([*found, *((version, None) for version in page.missing)], key=itemgetter(0)):
                yield entry_to_json(entry_in(item)) if item else version
            begin = page.through + 1

    def _boundary(self, account: Account, time: datetime, deadline: Deadline) -> Boundary:
        try:
            return boundary(self._versions, account, time, deadline, MOST_TABLE_PAGES)
        except ValueError as error:
            raise RequestRefused(ErrorCode.UNREADABLE, str(error)) from None

    @property
    def _versions(self) -> JournalVersions:
        return JournalVersions(self.client, self.tables)


def _last_entry(found: Boundary) -> Answer | None:
    """The entry of the version before the boundary; None before the opening. Raises RequestRefused."""
    if found.before == 0:
        return None
    if len(found.entries) > 1:
        names = " and ".join(repr(item["transaction_id"]) for item in found.entries)
        raise RequestRefused(ErrorCode.UNREADABLE, f"of version {found.before} are two entries: {names}")
    return entry_to_json(entry_in(found.entries[0]))


def _is_within(request: ReadStatement, entry: Answer) -> bool:
    time = time_of(entry["posted_at"])
    if time is None or request.from_time is None:
        return False
    return request.from_time <= time and (request.to_time is None or time < request.to_time)


def _is_settled(time: datetime, now: datetime) -> bool:
    return time <= now - CLOCK_SKEW - LONGEST_POSTING


def _is_final(time: datetime, account: Account, now: datetime) -> bool:
    """Whether no transaction that was posted since the account was read, just after `now`, can come before the time."""
    newest = time_of(account.posted_at) if account.posted_at else None
    return _is_settled(time, now) or (newest is not None and time <= newest <= now + CLOCK_SKEW)


def _shard_json(shard: Account) -> Answer:
    return {
        "account_id": shard.account_id,
        "balance": format_decimal(shard.balance),
        "version": shard.version,
        "posted_at": shard.posted_at,
        "seal": shard.seal or None,
    }


def _account_json(account: Account) -> Answer:
    is_unlimited = account.overdraft_limit == LOWEST_LIMIT
    return {
        "account_id": account.account_id,
        "balance": format_decimal(account.balance),
        "held": format_decimal(account.held),
        "available": None if is_unlimited else format_decimal(account.available_under_limits),
        "overdraft_limit": None if is_unlimited else format_decimal(account.overdraft_limit),
        "currency": account.currency,
        "decimal_places": account.decimal_places,
        "status": str(account.status),
        "frozen": asdict(account.frozen),
        "limits": [_limit_json(each, account) for each in account.limits],
        "version": account.version,
        "posted_at": account.posted_at,
        "seal": account.seal or None,
        "interest": _interest_json(account),
        "holds": [
            {"hold_id": hold_id, "remaining": format_decimal(hold.remaining), "expires_at": hold.expires_at}
            for hold_id, hold in sorted(account.open_holds.items(), key=_by_expiry)
        ],
    }


def _interest_json(account: Account) -> Answer | None:
    """None if the account has no interest. What has accrued is rounded down to the account's unit."""
    if account.interest == Interest():
        return None
    return {
        "annual_rate": format_decimal(account.interest.rate),
        "due": format_decimal(account.interest.due),
        "accrued": format_decimal(account.interest.accrued_amount(account.decimal_places)),
    }


def _limit_json(limit: AccountLimit, account: Account) -> Answer:
    """The limit as it was set, and what is left of it."""
    left = max(limit.left(account.balance, account.held), Decimal(0))
    fields = asdict(limit.rule) | {"left": left}
    return {name: format_decimal(value) if isinstance(value, Decimal) else value for name, value in fields.items()}


def _by_expiry(hold: tuple[str, OpenHold]) -> tuple[bool, datetime, str]:
    """The hold that expires first is first, and those that never expire are last."""
    hold_id, open_hold = hold
    never = datetime.max.replace(tzinfo=UTC)
    time = datetime.fromisoformat(open_hold.expires_at) if open_hold.expires_at else never
    return open_hold.expires_at is None, time, hold_id


def _reversed_json(item: Item | None, entry: JournalEntry) -> Answer | None:
    """The reversed part of the entry's amount; None if there is none. Raises RequestRefused for a damaged item."""
    if item is None:
        return None
    try:
        found = reversed_from_item(item)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(f"the amount reversed of {item['transaction_id']!r}", error) from None
    amount = format_decimal(found.of(entry.outcome.amount, len(entry.account_ids)))
    return {"amount": amount, "number": found.number, "reversed_by": found.reversed_by}


def _refusal_json(item: Item) -> Answer:
    """Raises RequestRefused for a damaged item."""
    try:
        return asdict(refusal_from_item(item))
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(f"the refusal of {item['transaction_id']!r}", error) from None
