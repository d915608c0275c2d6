"""Publishes outcomes again: of a range of an account's versions or times, or of all accounts since a time.

An invocation works until its deadline. What it leaves is in its answer as further requests. An entry of each version in
the range is published, or goes to the dead-letter queue, or the version is named.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from conditional_writes import Deadline, Item
from conditional_writes.client import SLOWEST_CALL_SECONDS
from ledger.account_pages import AccountQueue
from ledger.account_reading import Answer, ErrorCode, Refused, account_in, answer_or_error, read_account
from ledger.core.accounts import Account
from ledger.core.republish_requests import (
    RepublishAccount,
    RepublishAccounts,
    RepublishRequest,
    decode_republish_request,
    republish_event,
)
from ledger.journal_times import Boundary, boundary
from ledger.journal_versions import AWS_ERRORS, MOST_TABLE_PAGES, JournalVersions, VersionPage
from ledger.outcome_publisher import OutcomePublisher, Published
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
MOST_RANGES = 20
"""Of an account in one answer: ranges of missing versions, and ranges that are left. The rest is one range more."""
MOST_NAMED = 100
"""In one answer for all accounts. Those that begin no more are left."""
NO_ENTRY = "the journal has no entry of these versions"
NOT_FOUND = "the index has no entry of these versions, and the journal is too long to be searched for them"
NO_TIME = "no entry of these versions was found, so it isn't known which of them were posted in this time"


class NotPublished(Exception):
    """Nothing could be published: the text says why."""


class Progress:
    """What became of a request so far. Threads may share it.

    `missing` has the versions whose entries can't be published, `left` what is yet to be done. `trouble` is AWS's, or
    that no time was left. `is_begun`: an account is done, or a part of one.
    """

    def __init__(self) -> None:
        self.published: list[Published] = []
        self.missing: list[dict[str, Any]] = []
        self.left: list[RepublishRequest] = []
        self.trouble: Exception | None = None
        self.is_begun = False

    def miss(self, account_id: str, versions: range, reason: str) -> None:
        """Names versions; none, if it isn't known which ones the account has."""
        ends = {"from_version": versions[0], "to_version": versions[-1]} if versions else {}
        self.missing.append({"account_id": account_id, **ends, "reason": reason})
        self.is_begun = True

    def leave(self, account_id: str, versions: range) -> None:
        first, last = versions[0], versions[-1]
        self.left.append(RepublishAccount(account_id=account_id, from_version=first, to_version=last))

    @property
    def is_full(self) -> bool:
        return len(self.missing) + len(self.left) >= MOST_NAMED

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
        """Raises Refused, and as `answer`."""
        until = deadline.earlier_by(PUBLISHING_SECONDS + SLOWEST_CALL_SECONDS)
        progress = Progress()
        work = _Work(JournalVersions(self.client, self.tables), self.publisher, progress, until, deadline)
        if isinstance(request, RepublishAccounts):
            work.publish_accounts(request)
        else:
            account = read_account(self.client, self.tables, request.account_id, until)
            work.publish_account(account, request, MOST_TABLE_PAGES)
        return progress.answer()


class _Work(NamedTuple):
    """The work on a request. Entries are read `until` a time that leaves enough to publish them by the deadline."""

    journal: JournalVersions
    publisher: OutcomePublisher
    progress: Progress
    until: Deadline
    deadline: Deadline

    def publish_accounts(self, request: RepublishAccounts) -> None:
        """Publishes the entries of accounts in parallel, until the time is over or AWS fails. The others are left."""
        accounts = AccountQueue(self.journal.client, self.journal.tables.accounts, request.after)

        def publish_next(_: int) -> None:
            while not (self.progress.trouble or self.progress.is_full):
                try:
                    item = accounts.take(self.until)
                except AWS_ERRORS as error:
                    self.progress.trouble = error
                    return
                if item is None:
                    return
                self._publish_one_of_all(item, request)

        in_parallel(publish_next, range(MAX_PARALLEL))
        if not accounts.is_empty:
            self.progress.left.append(msgspec.structs.replace(request, after=accounts.taken))

    def _publish_one_of_all(self, item: Item, request: RepublishAccounts) -> None:
        account_id = item["account_id"]
        wanted = RepublishAccount(account_id=account_id, from_time=request.from_time, to_time=request.to_time)
        try:
            self.publish_account(account_in(item), wanted, TABLE_PAGES_IN_PARALLEL)
        except Refused as error:
            self.progress.miss(account_id, range(0), str(error))

    def publish_account(self, account: Account, request: RepublishAccount, most_table_pages: int) -> None:
        """Publishes the account's entries of the request. Raises Refused."""
        try:
            versions = self._versions(account, request, most_table_pages)
        except AWS_ERRORS as error:
            self.progress.trouble = error
            versions = None
        if versions is None:
            self.progress.left.append(request)
        elif not versions:
            self.progress.is_begun = True
        elif left := self._publish_versions(account.account_id, versions, most_table_pages):
            self.progress.leave(account.account_id, left)

    def _versions(self, account: Account, request: RepublishAccount, most_table_pages: int) -> range | None:
        """The versions of the request. None, if more of the table has to be searched for them.

        Versions that may be of the request or not are named as missing. Raises Refused and AWS_ERRORS.
        """
        if request.from_time is None:
            return range(request.from_version or 1, min(request.to_version or account.version, account.version) + 1)
        begin = self._boundary(account, request.from_time, most_table_pages)
        end = Boundary(account.version, account.version + 1)
        if request.to_time and begin.before < account.version:
            end = self._boundary(account, request.to_time, most_table_pages)
        known = range(begin.after, end.before + 1)
        if not (begin.is_certain and end.is_certain):
            if most_table_pages < MOST_TABLE_PAGES:
                return None
            unknown = [range(begin.before + 1, begin.after), range(end.before + 1, end.after)]
            for versions in unknown if known else [range(begin.before + 1, end.after)]:
                if versions:
                    self.progress.miss(account.account_id, versions, NO_TIME)
        return known

    def _boundary(self, account: Account, time: datetime, most_table_pages: int) -> Boundary:
        """The boundary as far as it can be known. Raises Refused and AWS_ERRORS."""
        try:
            found = boundary(self.journal, account, time, self.until, most_table_pages)
        except ValueError as error:
            raise Refused(ErrorCode.UNREADABLE, str(error)) from None
        if not found.is_certain:
            self.until.check("searching the journal for a time")
        return found

    def _publish_versions(self, account_id: str, versions: range, most_table_pages: int) -> range:
        """Publishes the entries of the versions, page by page. Returns the last of the versions, which are left."""
        left = versions
        while left and not (self.progress.trouble or self.progress.is_full):
            try:
                page = self.journal.page(account_id, left[0], left[-1], self.until, most_table_pages)
                beyond = self._beyond(account_id, page, left, most_table_pages)
            except AWS_ERRORS as error:
                self.progress.trouble = error
                break
            if not page.is_certain and most_table_pages < MOST_TABLE_PAGES:
                break
            if page.items or not page.is_certain:
                beyond = self._publish_page(account_id, page) + 1
            else:
                self.progress.miss(account_id, range(left[0], beyond), NO_ENTRY)
            left = range(beyond, left.stop)
        return left

    def _beyond(self, account_id: str, page: VersionPage, left: range, most_table_pages: int) -> int:
        """The version after the page. If the page has no entries, the next version that the table has an entry of.

        An account's version may be any number, if others have changed it: it isn't counted up to. Raises AWS_ERRORS.
        """
        beyond = range(page.through + 1, left.stop)
        if page.items or not page.is_certain or not beyond:
            return beyond.start
        nearest, between = beyond.stop, (beyond[0], beyond[-1])
        for found in self.journal.table_pages(account_id, self.until, most_table_pages, between=between):
            nearest = min([nearest, *(int(item["account_version"]) for item in found.items)])
            if found.after is None:
                return nearest
        return beyond.start

    def _publish_page(self, account_id: str, page: VersionPage) -> int:
        """Publishes the page's entries, names missing versions, and leaves what failed: up to the version returned."""
        missing, through = _first(ranges_of(page.missing), page.through)
        items = [item for item in page.items if item["account_version"] <= through]
        published = self.publisher.publish(items, self.deadline)
        self.progress.published.append(published)
        reasons = {
            int(item["account_version"]): reason
            for item, reason in zip(items, published.failures, strict=True)
            if reason
        }
        failed, through = _first(ranges_of(sorted(reasons)), through)
        for versions in failed:
            self.progress.leave(account_id, versions)
        for versions in missing:
            if versions[0] <= through:
                self.progress.miss(account_id, versions, NO_ENTRY if page.is_certain else NOT_FOUND)
        if reasons:
            self.progress.trouble = NotPublished(next(iter(reasons.values())))
        if len(reasons) < len(items):
            self.progress.is_begun = True
        return through


def _first(ranges: Sequence[range], through: int) -> tuple[Sequence[range], int]:
    """The first ranges, and the version up to which there are no others."""
    return ranges[:MOST_RANGES], through if len(ranges) <= MOST_RANGES else ranges[MOST_RANGES][0] - 1


def ranges_of(versions: Iterable[int]) -> list[range]:
    """Versions in their order as ranges without gaps."""
    ranges: list[range] = []
    for version in versions:
        if ranges and version <= ranges[-1].stop:
            ranges[-1] = range(ranges[-1].start, version + 1)
        else:
            ranges.append(range(version, version + 1))
    return ranges
