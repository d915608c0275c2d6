"""Upserts of versioned items: they count as versions, and what they keep in the item is hidden from its saves."""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import Conflict, Item, NoSuchItem, VersionedItem, VersionedTable, equals
from conditional_writes.core.items import from_dynamodb, item_bytes, to_dynamodb
from conditional_writes.core.own_attributes import is_own
from conditional_writes.upserts import REMOVED, MapEntry, erasure
from tests.support.new_tables import new_table
from tools.local_aws.server import Endpoint

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Profiles(VersionedTable):
    def __init__(self, dynamodb: Endpoint, version: str = "version") -> None:
        self.client = dynamodb.client("dynamodb")
        self.table = new_table(self.client, {"account_id": "S"})
        super().__init__(self.client, self.table, "account_id", version=version)

    def stored(self, account_id: str) -> Item:
        """The item in DynamoDB, with the library's attributes."""
        key = to_dynamodb({"account_id": account_id})
        return from_dynamodb(self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True)["Item"])


@pytest.fixture
def profiles(dynamodb: Endpoint) -> Profiles:
    return Profiles(dynamodb)


def entry(name: str, value: Any, hour: int | None = 0) -> MapEntry:
    return MapEntry(("devices", "seen", name), value, None if hour is None else NOON + timedelta(hours=hour))


def test_an_upsert_creates_the_item_and_counts_each_request_as_a_version(profiles: Profiles) -> None:
    assert profiles.upsert("alice", entries=[entry("phone", 1)]).written == 1
    assert profiles.get("alice") == {"account_id": "alice", "devices": {"seen": {"phone": 1}}, "version": 1}
    assert profiles.upsert("alice", entries=[entry("phone", 0, hour=-1)]).superseded == 1
    assert profiles.get("alice")["version"] == 1
    many = [entry(f"phone {number}", number) for number in range(150)]
    profiles.upsert("alice", entries=many)
    assert profiles.get("alice")["version"] == 3


def test_a_save_from_before_an_upsert_is_a_conflict_and_loses_no_entry(profiles: Profiles) -> None:
    before = profiles.save({"account_id": "alice", "devices": {"seen": {"phone": 1}}})
    profiles.upsert("alice", entries=[entry("tablet", 2)])
    before["devices"]["seen"]["phone"] = 3
    with pytest.raises(Conflict, match="expected version 1, found version 2") as caught:
        profiles.save(before)
    found = caught.value.found
    assert found == {"account_id": "alice", "devices": {"seen": {"phone": 1, "tablet": 2}}, "version": 2}
    found["devices"]["seen"]["phone"] = 3
    assert profiles.save(found)["devices"] == {"seen": {"phone": 3, "tablet": 2}}


def test_an_item_that_was_upserted_anew_is_not_taken_for_the_deleted_one(profiles: Profiles) -> None:
    profiles.upsert("alice", entries=[entry("phone", 1)])
    before = profiles.get("alice")
    profiles.delete(before)
    profiles.upsert("alice", entries=[entry("tablet", 2)])
    with pytest.raises(Conflict, match="version 1, as expected, but of another item: it was deleted and made anew"):
        profiles.save(before | {"name": "Alice"})
    assert profiles.get("alice")["devices"] == {"seen": {"tablet": 2}}


def test_the_librarys_attributes_are_nowhere_to_be_seen(profiles: Profiles) -> None:
    profiles.upsert("alice", entries=[entry("phone", 1)])
    shown: list[VersionedItem] = [profiles.get("alice")]
    shown.append(profiles.save(shown[-1] | {"name": "Alice"}))
    shown.append(profiles.save(shown[-1] | {"name": "Al"}, checked=False))
    shown.append(profiles.modify("alice", change=lambda item: (item or {}) | {"name": "A."}))
    shown.append(profiles.modify("alice", change=lambda item: item or {}))
    shown += [*profiles.scan(), *profiles.query(equals("account_id", "alice"))]
    with pytest.raises(Conflict) as caught:
        profiles.save({"account_id": "alice"})
    assert caught.value.found is not None
    shown.append(caught.value.found)
    for item in shown:
        assert item.keys() == {"account_id", "devices", "version"} | ({"name"} if item is not shown[0] else set())
        assert {"cw:item_bytes", 'cw:as_of ["devices"]', 'cw:as_of ["devices", "seen"]'} <= item.loaded.keys()


class Upsert(NamedTuple):
    entries: list[MapEntry]


class Save(NamedTuple):
    """A save of an item: by which method, with which attributes set and removed, and an entry set in place."""

    method: str
    values: Item
    removed: str | None
    in_place: str | None


names = st.sampled_from("abc")
hours = st.none() | st.integers(0, 5)
upserts = st.builds(
    lambda path, value, hour: Upsert([MapEntry(path, value, None if hour is None else NOON + timedelta(hours=hour))]),
    st.sampled_from([("p", "a"), ("p", "b"), ("p", "m", "a"), ("p", "m", "b"), ("q", "a")]),
    st.integers(0, 9) | st.just(REMOVED),
    st.integers(0, 5),
) | st.builds(lambda hour: Upsert([erasure(NOON + timedelta(hours=hour))]), st.integers(0, 2))
saves = st.builds(
    Save,
    st.sampled_from(["save", "unchecked", "modify", "modify anew", "from a scan"]),
    st.dictionaries(names, st.integers(0, 3), max_size=2),
    st.none() | st.sampled_from(["a", "p", "q"]),
    st.none() | st.sampled_from(["p", "q"]),
)


def changed(item: Item, save: Save) -> Item:
    after = item | save.values
    if save.removed in after:
        del after[save.removed]
    if save.in_place in after:
        after[save.in_place]["in place"] = 1
    return after


def saved(profiles: Profiles, save: Save) -> VersionedItem:
    match save.method:
        case "modify":
            return profiles.modify("alice", change=lambda item: changed(item or {}, save))
        case "modify anew":
            return profiles.modify("alice", change=lambda item: dict(changed(item or {}, save)))
        case "from a scan":
            [item] = profiles.scan(consistent=True)
            return profiles.save(changed(item, save))
        case method:
            return profiles.save(changed(profiles.get("alice"), save), checked=method == "save")


def test_no_save_changes_what_the_library_keeps_and_each_returns_what_is_stored(profiles: Profiles) -> None:
    @given(st.lists(upserts | saves, min_size=2, max_size=8))
    def try_changes(changes: list[Upsert | Save]) -> None:
        with contextlib.suppress(NoSuchItem):
            profiles.delete(profiles.get("alice"))
        profiles.upsert("alice", entries=[MapEntry(("p", "first"), 1, NOON)])
        for change in changes:
            before = profiles.stored("alice")
            if isinstance(change, Upsert):
                profiles.upsert("alice", entries=change.entries)
                assert item_bytes(profiles.stored("alice")) < 2_000
                continue
            item = saved(profiles, change)
            after = profiles.stored("alice")
            marks = {"cw:version_id", "cw:write_id"}
            assert own(after, but=marks) == own(before, but=marks)
            assert item.loaded == after
            assert item == {name: value for name, value in after.items() if not is_own(name)}

    try_changes()


def own(item: Item, but: set[str]) -> Item:
    return {name: value for name, value in item.items() if is_own(name) and name not in but}
