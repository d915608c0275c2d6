"""A profile whose names come and go for two centuries: it stays as small as it was, and still takes an entry."""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from conditional_writes.upserts import REMOVED, Strategy
from tests.checkers.profile_oracle import Write, differences, most_bytes, removal_bytes, standing
from tests.support.profile_table import ProfileTable, Stored, time_is
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
AGE = timedelta(days=30)
BATCHES_WITHIN_THE_AGE = 2
UNTIDIED_BYTES = 1024
FIELDS = ("device", "place", "since", "seen", "trust")


class Shape(NamedTuple):
    """The writes that add a name, and those that remove it. A long life has so many batches of so many names."""

    add: Callable[[str, datetime], Sequence[Write]]
    remove: Callable[[str, datetime], Sequence[Write]]
    batches: int
    names: int


def entry(name: str, now: datetime) -> list[Write]:
    return [Write(("sessions", name), {"device": "phone"}, now)]


def entry_removed(name: str, now: datetime) -> list[Write]:
    return [Write(("sessions", name), REMOVED, now)]


def entries_of_a_map(name: str, now: datetime) -> list[Write]:
    return [Write(("sessions", name, field), "x", now) for field in FIELDS]


def all_entries_removed(name: str, now: datetime) -> list[Write]:
    return [Write(("sessions", name, field), REMOVED, now) for field in FIELDS]


SHAPES = {
    "entries that are removed": Shape(entry, entry_removed, 5_000, 100),
    "maps that are removed": Shape(entries_of_a_map, entry_removed, 1_000, 10),
    "maps whose entries are all removed": Shape(entries_of_a_map, all_entries_removed, 1_000, 10),
}


class Life:
    """Adds and removals of names, a batch each few days."""

    def __init__(self, dynamodb: Endpoint, shape: Shape) -> None:
        self.table, self.shape = ProfileTable(dynamodb, forget_after=AGE), shape
        self.now, self.batches = START, 0
        self.recent = deque[Sequence[Write]](maxlen=4 * BATCHES_WITHIN_THE_AGE + 6)

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
        """The item, whose size is checked: the removals' clocks take at most twice the room that they need."""
        stored, recent = self.table.read("alice"), [write for writes in self.recent for write in writes]
        assert list(differences(standing(recent), stored.maps)) == []
        oldest = self.now - AGE
        batch = removal_bytes(self.recent[-1], oldest) + removal_bytes(self.recent[-2], oldest)
        untidied = removal_bytes(recent, oldest) + batch + UNTIDIED_BYTES
        assert stored.bytes <= most_bytes(recent, oldest, stored.key_and_marks) + untidied
        return stored


def live_long(dynamodb: Endpoint, shape: Shape) -> str:
    """Returns the sizes over time."""
    life, sizes = Life(dynamodb, shape), list[str]()
    life.go_on(3 * BATCHES_WITHIN_THE_AGE)
    first = life.read().bytes
    for _ in range(10):
        life.go_on(shape.batches // 10)
        stored = life.read()
        sizes.append(f"{stored.bytes:,}")
        assert stored.bytes <= 2 * first
    large = Write(("photos", "large"), "x" * 250_000, life.now)
    life.write([large])
    assert life.table.read("alice").maps["photos"] == {"large": large.value}
    changes = sum(map(len, (shape.add("", START), shape.remove("", START)))) * shape.names * life.batches
    years = (life.now - START) / timedelta(days=365)
    said = f"{changes:,} adds and removals in {years:.0f} years, {len(life.table.calls):,} requests"
    return f"{said}; bytes at first {first:,}, then {', '.join(sizes)}"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_year_of_adds_and_removals_leaves_a_profile_as_small_as_it_was(
    ministack: Endpoint, shape: str, say: Say
) -> None:
    say(live_long(ministack, SHAPES[shape]._replace(batches=30, names=4)))


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("shape", SHAPES)
def test_so_do_a_million_in_two_centuries(ministack: Endpoint, shape: str, say: Say) -> None:
    say(live_long(ministack, SHAPES[shape]))
