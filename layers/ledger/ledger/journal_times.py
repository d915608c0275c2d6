"""The last version of an account that was posted before a time: a binary search, for posting times never go back.

It reads the index. If the index doesn't have an entry, the table's journal of the account is searched once.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from conditional_writes import Deadline, DeadlinePassed, Item
from ledger.core.accounts import Account, time_of
from ledger.core.values import attribute
from ledger.table_reading import JournalVersions


class Boundary(NamedTuple):
    """The last version that is known to be posted before a time, 0 if none is, and the first that is known not to be.

    `entries` are the items of the former.
    """

    before: int
    after: int
    entries: Sequence[Item] = ()

    @property
    def is_certain(self) -> bool:
        return self.after - self.before <= 1


def boundary(
    versions: JournalVersions, account: Account, time: datetime, deadline: Deadline, most_table_pages: int
) -> Boundary:
    """The boundary at the time among the versions of the account, which was read strongly consistently.

    It isn't certain if entries between its two versions can't be found, or not until the deadline. Raises ValueError
    for an entry that has no time, and botocore's errors of the table.
    """
    newest = time_of(account.posted_at) if account.posted_at else None
    found = Boundary(0, account.version + 1)
    middle = account.version if newest and newest < time else (found.before + found.after) // 2
    try:
        while not found.is_certain:
            page = versions.page(account.account_id, middle, middle, deadline, most_table_pages=0)
            if page.missing:
                break
            found = _narrowed(found, page.items, time)
            middle = (found.before + found.after) // 2
        if not found.is_certain:
            between = found.before + 1, found.after - 1
            for searched in versions.table_pages(account.account_id, deadline, most_table_pages, between=between):
                found = _narrowed(found, searched.items, time)
    except DeadlinePassed:
        pass
    return found


def _narrowed(found: Boundary, items: Iterable[Item], time: datetime) -> Boundary:
    for item in items:
        number = attribute(item, "account_version", int)
        if number == found.before:
            found = found._replace(entries=[*found.entries, item])
        elif found.before < number < found.after:
            is_before = _posting_time(item) < time
            found = Boundary(number, found.after, [item]) if is_before else found._replace(after=number)
    return found


def _posting_time(item: Item) -> datetime:
    text = item.get("posted_at")
    time = time_of(text) if isinstance(text, str) else None
    if time is None:
        raise ValueError(f"entry {item['transaction_id']!r}: posted_at: expected a time with its offset, got {text!r}")
    return time
