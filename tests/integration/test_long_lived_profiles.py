"""A profile whose names come and go for a hundred years: it stays as small as it was, and still takes an entry."""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from conditional_writes.upserts import REMOVED, Strategy
from tests.checkers.profile_oracle import Write, differences, most_bytes, standing
from tests.support.profile_table import ProfileTable, Stored, time_is
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
AGE = timedelta(days=30)
BATCHES_WITHIN_THE_AGE = 8
FIELDS = ("device", "place", "since", "seen", "trust")


class Shape(NamedTuple):
    """What a batch adds, and what removes it again. `names` are a batch's, and `batches` a long life's."""

    add: Callable[[str, datetime], Sequence[Write]]
    remove: Callable[[str, datetime], Sequence[Write]]
    names: int
    batches: int


def entry(name: str, now: datetime) -> list[Write]:
    return [Write(("sessions", name), {"device": "phone"}, now)]


def entry_removed(name: str, now: datetime) -> list[Write]:
    return [Write(("sessions", name), REMOVED, now)]


def entries_of_a_map(name: str, now: datetime) -> list[Write]:
    return [Write(("sessions", name, field), "x", now) for field in FIELDS]


def all_entries_removed(name: str, now: datetime) -> list[Write]:
    return [Write(("sessions", name, field), REMOVED, now) for field in FIELDS]


SHAPES = {
    "entries that are removed": Shape(entry, entry_removed, 100, 10_000),
    "maps that are removed": Shape(entries_of_a_map, entry_removed, 10, 2_000),
    "maps whose entries are all removed": Shape(entries_of_a_map, all_entries_removed, 10, 2_000),
}


class Life:
    """Adds and removals of names, a batch each few days."""

    def __init__(self, dynamodb: Endpoint, shape: Shape) -> None:
        self.table, self.shape = ProfileTable(dynamodb, forget_after=AGE), shape
        self.now, self.batches = START, 0
        self.recent = deque[Sequence[Write]](maxlen=2 * BATCHES_WITHIN_THE_AGE + 4)

    def go_on(self, batches: int) -> None:
        for _ in range(batches):
            names = [f"{self.batches:06}-{number:02}" for number in range(self.shape.names)]
            for change in (self.shape.add, self.shape.remove):
                self.now += AGE / BATCHES_WITHIN_THE_AGE / 2
                self.write([write for name in names for write in change(name, self.now)])
            self.batches += 1

    def write(self, writes: Sequence[Write]) -> None:
        with time_is(self.now):
            self.table.write("alice", writes, Strategy.ENTRY_FIRST)
        self.recent.append(writes)

    def read(self) -> Stored:
        """The item, whose size is checked: at most twice what is needed."""
        stored, recent = self.table.read("alice"), [write for writes in self.recent for write in writes]
        assert list(differences(standing(recent), stored.maps)) == []
        assert stored.bytes <= most_bytes(recent, LONG_AGO, stored.counters)
        return stored

    @property
    def years(self) -> float:
        return (self.now - START) / timedelta(days=365)


def live_long(dynamodb: Endpoint, shape: Shape, batches: int) -> str:
    """Returns the sizes over time."""
    life, sizes = Life(dynamodb, shape), list[str]()
    life.go_on(3 * BATCHES_WITHIN_THE_AGE)
    first = life.read().bytes
    while life.batches < batches:
        life.go_on(min(batches // 10, batches - life.batches))
        stored = life.read()
        sizes.append(f"{life.years:.0f} years {stored.bytes:,}")
        assert stored.bytes <= 2 * first
    large = Write(("photos", "large"), "x" * 250_000, life.now)
    life.write([large])
    assert life.table.read("alice").maps["photos"] == {"large": large.value}
    names = batches * shape.names
    return f"{names:,} names, {len(life.table.calls):,} requests; bytes at first {first:,}, then {', '.join(sizes)}"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_year_of_adds_and_removals_leaves_a_profile_as_small_as_it_was(
    ministack: Endpoint, shape: str, say: Say
) -> None:
    say(live_long(ministack, SHAPES[shape], batches=6 * BATCHES_WITHIN_THE_AGE))


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
def test_so_do_a_million_in_a_hundred_years(ministack: Endpoint, shape: str, say: Say) -> None:
    say(live_long(ministack, SHAPES[shape], SHAPES[shape].batches))
