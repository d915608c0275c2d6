"""A table of profiles that is written by `upsert` itself, at times of the test's choosing. Names are alice's."""

import contextlib
import enum
import itertools
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from conditional_writes import Item, Key, key
from conditional_writes.core.items import from_dynamodb, item_bytes, to_dynamodb
from conditional_writes.upserts import MapEntry, Upserted, upsert
from conditional_writes.upserts.plan import RecentDepths
from tests.checkers.profile_oracle import Write, is_mark
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table

COUNTERS = {"account_id", "cw:write_id", "cw:item_bytes", "cw:removed_bytes"}
"""Attributes that differ after another order of the same writes, or under another key."""

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
_numbers = itertools.count(1)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def theme(value: object, seconds: float | None = None) -> MapEntry:
    return MapEntry(("preferences", "theme"), value, None if seconds is None else at(seconds))


class Assumed(enum.StrEnum):
    """The maps around an entry that a first request assumes to exist."""

    ALL = "all"
    NONE = "none"
    AS_LEARNED = "as learned"


class ProfileTable:
    """`calls` has the operations of its client."""

    def __init__(self, dynamodb: Endpoint, forget_after: timedelta | None = None) -> None:
        self.client = dynamodb.client("dynamodb", max_pool_connections=32)
        self.name = create_profiles_table(dynamodb, f"upserted-{next(_numbers)}")
        self.forget_after = forget_after
        self.calls: list[str] = []
        self.client.meta.events.register("before-call", lambda model, **_: self.calls.append(model.name))

    def key(self, account_id: str = "alice") -> Key:
        return key(self.name, account_id=account_id)

    def write(
        self, account_id: str, writes: Iterable[Write | MapEntry], assumed: Assumed = Assumed.AS_LEARNED, **options: Any
    ) -> Upserted:
        """Upserts the writes, with these further options of `upsert`."""
        entries = [MapEntry(*write) for write in writes]
        options = {"forget_after": self.forget_after} | options
        with contextlib.ExitStack() as stack:
            if assumed is not Assumed.AS_LEARNED:
                depth = len if assumed is Assumed.ALL else lambda _: 0
                expected = mock.patch.object(RecentDepths, "expected", lambda _, table, path: depth(path))
                stack.enter_context(expected)
            return upsert(self.client, self.key(account_id), entries, **options)

    def upsert(self, *entries: MapEntry, name: object = "alice", **options: Any) -> Upserted:
        return self.write(str(name), entries, **options)

    def requests_of(self, work: Callable[[], object]) -> int:
        before = len(self.calls)
        work()
        return len(self.calls) - before

    def read(self, account_id: str = "alice") -> "Stored":
        found = self.client.get_item(
            TableName=self.name, Key=to_dynamodb({"account_id": account_id}), ConsistentRead=True
        )
        return Stored(found.get("Item", {}))


class Stored:
    """An item as it is stored."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        self.item: Item = from_dynamodb(attributes)
        self.bytes = item_bytes(self.item)
        self.maps: Item = {name: value for name, value in self.item.items() if not is_mark(name)}
        self.without_counters = {name: value for name, value in self.item.items() if name not in COUNTERS}
        self.clocks: Item = {name: value for name, value in self.item.items() if name.startswith("cw:as_of ")}
        self.key_and_marks = {
            name: value for name, value in self.item.items() if is_mark(name) and name not in self.clocks
        }


@contextlib.contextmanager
def time_is(now: datetime) -> Iterator[None]:
    """The library forgets removals as of this time."""
    with mock.patch("conditional_writes.upserts.plan.now", return_value=now):
        yield
