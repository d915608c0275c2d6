"""Publishes outcomes again: of a range of an account's versions or times, or of all accounts since a time.

An invocation works until its deadline, or until it has published MOST_PUBLISHED. Its answer has the requests that are
left. An entry of each version in the range, up to the account's own, is published, or goes to the dead-letter queue, or
the version is named. An entry is published if its seal follows from it and the entry before, or if that one is missing.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from conditional_writes import Deadline, Item
from conditional_writes.core.client import CONNECTIONS, SLOWEST_CALL_SECONDS
from conditional_writes.core.unconditional import projection
from ledger.account_reading import Answer, ErrorCode, RequestRefused, account_in, answer_or_error, read_account
from ledger.core.accounts import Account
from ledger.core.journal import entry_from_item, seal_of
from ledger.core.republish_requests import (
    RepublishAccount,
    RepublishAccounts,
    RepublishRequest,
    decode_republish_request,
    republish_event,
)
from ledger.core.transaction_types import HISTORIC
from ledger.journal_times import Boundary, boundary
from ledger.outcome_publisher import OutcomePublisher, Published, UnsealedEntry
from ledger.table_reading import AWS_ERRORS, MOST_TABLE_PAGES, JournalVersions, account_page
from ledger.tables import LedgerTables
from workers.parallel import in_parallel

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

PUBLISHING_SECONDS = 5
"""Left for the last entries that are read: otherwise they would often be read for nothing."""
MAX_PARALLEL = 8
"""Accounts whose entries are published at the same time: one journal is read while another is published."""
TABLE_PAGES_IN_PARALLEL = 5
"""Of a journal, as `MOST_TABLE_PAGES`. An account that needs more is left to an invocation of its own."""
MOST_PUBLISHED = 10_000
"""Entries after which an invocation begins no further page: some cents, and a second of EventBridge's quota."""
MOST_RANGES = 20
"""Of missing versions that are named of one page. The page ends before the next one."""
ACCOUNTS_OF_A_PAGE = 100
"""That one Scan reads."""
MOST_NAMED = 100
"""Missing and left ranges in one answer for all accounts. Accounts that aren't begun by then are left."""
NO_ENTRY = "the journal has no entry of these versions"
NOT_FOUND = "the index has no entry of these versions, and the journal is too long to be searched for them"


class NotPublished(Exception):
    """Nothing could be published: the text says why."""


class _NeedsMore(Exception):
    """More of the journal has to be searched than beside other accounts."""


class _AccountsInTurn:
    """The accounts that come after one in the table's order. Threads take them one by one.

    `taken` is the id of the account that was taken last; at first, of the one before them. None is the beginning of the
    table.
    """

    def __init__(self, client: "DynamoDBClient", accounts_table: str, after: str | None) -> None:
        self.taken = after
        self._client, self._accounts_table = client, accounts_table
        self._items: deque[Item] = deque()
        self._is_last_page = False
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        return self._is_last_page and not self._items

    def take(self, deadline: Deadline) -> Item | None:
        """The next account's item, with an account's attributes; None: there are no more.

        Raises DeadlinePassed and botocore's errors.
        """
        with self._lock:
            while not self._items:
                if self._is_last_page:
                    return None
                deadline.check("reading accounts")
                only = projection(Account.__struct_fields__)
                page = account_page(self._client, self._accounts_table, self.taken, ACCOUNTS_OF_A_PAGE, **only)
                self._items.extend(page.items)
                self._is_last_page = page.after is None
            deadline.check("beginning an account")
            item = self._items.popleft()
            self.taken = item["account_id"]
            return item


class Republisher(NamedTuple):
    """The ledger's tables, and the publisher."""

    client: "DynamoDBClient"
    tables: LedgerTables
    publisher: OutcomePublisher

    def answer(self, event: Any, deadline: Deadline) -> Answer:
        """The answer to an event of Lambda's, as JSON. If there is none, it has an `error` with a code and a reason.

        If AWS fails or the deadline passes before anything is done, raises NotPublished, DeadlinePassed or botocore's
        errors.
        """
        return answer_or_error(lambda: self._publish(decode_republish_request(event), deadline))

    def _publish(self, request: RepublishRequest, deadline: Deadline) -> Answer:
        if isinstance(request, RepublishAccounts):
            bus = self.publisher.bus._replace(parallel=CONNECTIONS // MAX_PARALLEL)
            shared = self._replace(publisher=self.publisher._replace(bus=bus))
            work = _Work(shared, TABLE_PAGES_IN_PARALLEL, deadline)
            work.publish_accounts(request)
        else:
            work = _Work(self, MOST_TABLE_PAGES, deadline)
            account = read_account(self.client, self.tables, request.account_id, work.until)
            work.publish_account(account, request)
        return work.answer()


class _Work:
    """The work on a request, and its results. Threads share it: they append to lists, and assign.

    Entries are read `until` a time that leaves enough to publish them by the deadline. `trouble` ends the work: it is
    AWS's, or no time was left. `is_begun`: an account is done, or a part of one.
    """

    def __init__(self, republisher: Republisher, most_table_pages: int, deadline: Deadline) -> None:
        self.journal = JournalVersions(republisher.client, republisher.tables)
        self.publisher, self.most_table_pages, self.deadline = republisher.publisher, most_table_pages, deadline
        self.until = deadline.earlier_by(PUBLISHING_SECONDS + SLOWEST_CALL_SECONDS)
        self.published: list[Published] = []
        self.missing: list[Answer] = []
        self.left: list[RepublishRequest] = []
        self.trouble: Exception | None = None
        self.is_begun = False

    @property
    def is_over(self) -> bool:
        published = sum(each.number + each.dead_lettered for each in self.published)
        is_enough = published >= MOST_PUBLISHED or len(self.missing) + len(self.left) >= MOST_NAMED
        return self.trouble is not None or is_enough

    def answer(self) -> Answer:
        """Raises the trouble if nothing came of the request."""
        if self.trouble and not self.is_begun:
            raise self.trouble
        return {
            "published": sum(each.number for each in self.published),
            "dead_lettered": sum(each.dead_lettered for each in self.published),
            "missing_versions": self.missing,
            "next": list(map(republish_event, self.left)),
        }

    def publish_accounts(self, request: RepublishAccounts) -> None:
        """Publishes the entries of accounts in parallel. What isn't begun is left."""
        accounts = _AccountsInTurn(self.journal.client, self.journal.tables.accounts, request.after)

        def publish_next(_: int) -> None:
            try:
                while not self.is_over and (item := accounts.take(self.until)):
                    name, begin, end = item["account_id"], request.from_time, request.to_time
                    wanted = RepublishAccount(account_id=name, from_time=begin, to_time=end)
                    try:
                        self.publish_account(account_in(item), wanted)
                    except RequestRefused as error:
                        self._name(name, [range(0)], str(error))
            except AWS_ERRORS as error:
                self.trouble = error

        in_parallel(publish_next, range(MAX_PARALLEL))
        if not accounts.is_empty:
            self.left.append(msgspec.structs.replace(request, after=accounts.taken))

    def publish_account(self, account: Account, request: RepublishAccount) -> None:
        """Publishes the account's entries of the request, page by page. Raises RequestRefused."""
        left: RepublishAccount | None = request
        try:
            versions, before = self._versions(account, request), None
            while versions:
                left = RepublishAccount(
                    account_id=account.account_id, from_version=versions[0], to_version=versions[-1]
                )
                if self.is_over:
                    break
                versions, before = self._publish_page(account.account_id, versions, before)
            else:
                left, self.is_begun = None, True
        except _NeedsMore:
            pass
        except AWS_ERRORS as error:
            self.trouble = error
        if left:
            self.left.append(left)

    def _versions(self, account: Account, request: RepublishAccount) -> range:
        """The versions of the request, and those that may be of it. Raises RequestRefused and AWS_ERRORS."""
        if request.from_time is None:
            return range(request.from_version or 1, min(request.to_version or account.version, account.version) + 1)
        begin, end = Boundary(0, 1), Boundary(account.version, account.version + 1)
        try:
            begin = boundary(self.journal, account, request.from_time, self.until, self.most_table_pages)
            if request.to_time and begin.before < account.version:
                end = boundary(self.journal, account, request.to_time, self.until, self.most_table_pages)
        except ValueError as error:
            raise RequestRefused(ErrorCode.UNREADABLE, str(error)) from None
        if not (begin.is_certain and end.is_certain):
            self.until.check("searching the journal for a time")
            self._end_unless_alone()
        return range(begin.before + 1, end.after)

    def _publish_page(
        self, account_id: str, versions: range, before: Sequence[Item] | None
    ) -> tuple[range, Sequence[Item]]:
        """Publishes the first of the versions. `before` are the entries of the version before; None: it reads them.

        Returns the other versions, and the entries before them: if an entry isn't published, from its version on.
        """
        first = max(1, versions[0] - 1) if before is None else versions[0]
        page = self.journal.page(account_id, first, versions[-1], self.until, self.most_table_pages)
        if page.through < versions[0]:
            return versions, page.items
        known, wanted = [*(before or ()), *page.items], [item for item in page.items if _number(item) >= versions[0]]
        if not page.is_certain:
            self._end_unless_alone()
            if page.index_error:
                raise page.index_error
        missing = ranges_of(version for version in page.missing if version >= versions[0])
        through = page.through if len(missing) <= MOST_RANGES else missing[MOST_RANGES][0] - 1
        if page.is_certain and not wanted:
            through = self._before_next_entry(account_id, range(through + 1, versions.stop))
            missing = [range(versions[0], through + 1)]
        items = [item for item in wanted if _number(item) <= through and not _is_historic(item)]
        seals = _seals(known)
        checked = [item if _is_sealed(item, seals) else UnsealedEntry(item) for item in items]
        published = self.publisher.publish(checked, self.deadline)
        for item, reason in zip(items, published.failures, strict=True):
            if reason:
                through, self.trouble = _number(item) - 1, NotPublished(reason)
                break
        self.published.append(published)
        if through >= versions[0]:
            self.is_begun = True
        named = [each for each in missing if each[0] <= through]
        self._name(account_id, named, NO_ENTRY if page.is_certain else NOT_FOUND)
        return range(through + 1, versions.stop), [item for item in known if _number(item) == through]

    def _before_next_entry(self, account_id: str, versions: range) -> int:
        """The version before the first of these versions that the table has an entry of.

        An account's version may be any number, if others have changed it: it isn't counted up to. If the journal is too
        long to be searched, the version before all of them. Raises AWS_ERRORS.
        """
        nearest, is_certain = versions.stop, not versions
        if versions:
            between = versions[0], versions[-1]
            for found in self.journal.table_pages(account_id, self.until, self.most_table_pages, between=between):
                nearest = min([nearest, *(int(item["account_version"]) for item in found.items)])
                is_certain = found.after is None
        return (nearest if is_certain else versions.start) - 1

    def _end_unless_alone(self) -> None:
        if self.most_table_pages < MOST_TABLE_PAGES:
            raise _NeedsMore

    def _name(self, account_id: str, ranges: Iterable[range], reason: str) -> None:
        """Names versions as missing. An empty range: it isn't known which ones the account has."""
        for each in ranges:
            ends = {"from_version": each[0], "to_version": each[-1]} if each else {}
            self.missing.append({"account_id": account_id, **ends, "reason": reason})
            self.is_begun = True


def _number(item: Item) -> int:
    return int(item["account_version"])


def _seals(items: Iterable[Item]) -> Mapping[int, Set[str]]:
    """By version: of a version there may be two entries. Before the first entry there is an empty one."""
    seals = defaultdict[int, set[str]](set, {0: {""}})
    for item in items:
        seals[_number(item)].add(str(item.get("seal")))
    return seals


def _is_sealed(item: Item, seals: Mapping[int, Set[str]]) -> bool:
    """Also an entry that can't be read, which the publisher names, and one without a known entry before it."""
    try:
        entry = entry_from_item(item)
        before = seals.get(_number(item) - 1, ())
        return not before or entry.seal in {seal_of(seal, entry) for seal in before}
    except (KeyError, TypeError, ValueError):
        return True


def _is_historic(item: Item) -> bool:
    """An entry of which nobody was told when it was made."""
    request = item.get("request")
    return isinstance(request, dict) and request.get("type") == HISTORIC


def ranges_of(versions: Iterable[int]) -> list[range]:
    """Versions in their order as ranges without gaps."""
    ranges: list[range] = []
    for version in versions:
        if ranges and version <= ranges[-1].stop:
            ranges[-1] = range(ranges[-1].start, version + 1)
        else:
            ranges.append(range(version, version + 1))
    return ranges
