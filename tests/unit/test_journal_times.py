"""The last version before a time, from any part of the index and the rest from the table."""

import itertools
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ledger.core.accounts import timestamp
from ledger.journal_times import Boundary, boundary
from tests.support.clock import plenty
from tests.support.samples import ALICE

VERSIONS = range(1, 6)


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=UTC)


ENTRIES = {number: {"account_version": number, "posted_at": timestamp(day(2 * number))} for number in VERSIONS}
"""Version 1 was posted on the second, version 2 on the fourth, and so on."""


class Journal:
    """An index of these versions, and the table, which has all. `between` are the versions that were searched for."""

    def __init__(self, indexed: set[int]) -> None:
        self.indexed = indexed
        self.looked_at: list[int] = []
        self.between: tuple[int, int] | None = None

    def page(self, _: str, first: int, last: int, __: object, most_table_pages: int) -> Any:
        assert (first, most_table_pages) == (last, 0)
        self.looked_at.append(first)
        is_there = first in self.indexed
        return SimpleNamespace(items=[ENTRIES[first]] if is_there else [], missing=[] if is_there else [first])

    def table_pages(self, _: str, __: object, most_pages: int, *, between: tuple[int, int]) -> Any:
        assert (most_pages, self.between) == (7, None)
        self.between = between
        yield SimpleNamespace(items=[ENTRIES[number] for number in range(between[0], between[1] + 1)])


@pytest.mark.parametrize("on", range(1, 12))
def test_the_boundary_is_found_whatever_the_index_lacks(on: int) -> None:
    account = replace(ALICE, version=VERSIONS[-1], posted_at=ENTRIES[VERSIONS[-1]]["posted_at"])
    before = (on - 1) // 2  # an entry of the time itself isn't before it
    for size in range(len(VERSIONS) + 1):
        for indexed in itertools.combinations(VERSIONS, size):
            journal: Any = Journal(set(indexed))
            found = boundary(journal, account, day(on), plenty(), most_table_pages=7)
            assert found == Boundary(before, before + 1, [ENTRIES[before]] if before else ())
            assert journal.looked_at[0] == (5 if on == 11 else 3)
            if journal.between:
                assert journal.looked_at[-1] in range(journal.between[0], journal.between[1] + 1)
            assert (journal.between is None) == journal.indexed.issuperset(journal.looked_at)
