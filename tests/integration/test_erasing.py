"""Erasures on both engines: only what is later stays, and nothing older comes back, whatever happens meanwhile."""

import itertools
from datetime import timedelta
from typing import Any

import pytest

from conditional_writes import Conflict, Item, VersionedTable
from conditional_writes.core.items import item_bytes, to_dynamodb
from conditional_writes.upserts import (
    REMOVED,
    ItemTooLarge,
    MapEntry,
    NotAnEntry,
    Upserted,
    UpsertInRequests,
    erase,
    erasure,
)
from conditional_writes.upserts.clocks import clock
from conditional_writes.upserts.tidying import clock_bytes
from tests.support.profile_table import Assumed, ProfileTable, at, theme
from tools.local_aws.server import Endpoint

WRITTEN, SUPERSEDED = (1, 0), (0, 1)


class Profiles(ProfileTable):
    def erase(self, seconds: float, **options: Any) -> Upserted:
        return erase(self.client, self.key(), at(seconds), **options)

    def plant(self, **attributes: Any) -> None:
        """Puts other attributes beside those that are there, without the library."""
        names = {f"#{number}": name for number, name in enumerate(attributes)}
        values = {f":{number}": value for number, value in enumerate(attributes.values())}
        self.client.update_item(
            TableName=self.name,
            Key=to_dynamodb({"account_id": "alice"}),
            UpdateExpression="SET " + ",".join(f"#{number}=:{number}" for number in range(len(names))),
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=to_dynamodb(values),
        )

    @property
    def item(self) -> Item:
        """The item without the marks of every write."""
        return self.read().without_counters

    @property
    def maps(self) -> Item:
        return self.read().maps


@pytest.fixture
def profiles(dynamodb: Endpoint) -> Profiles:
    return Profiles(dynamodb)


def erased_item(seconds: float) -> Item:
    return {"cw:erased_as_of": at(seconds).isoformat(timespec="microseconds")}


def test_an_erasure_leaves_the_key_and_a_mark_without_any_name(profiles: Profiles) -> None:
    deep = ("limits", "card", "abroad", "day")
    profiles.upsert(theme("dark", 1), MapEntry(deep, 250, at(2)), MapEntry(("devices", "phone"), REMOVED, at(3)))
    profiles.upsert(theme("of the last to arrive"), MapEntry(("visits", "last"), "today"))
    profiles.plant(name="Alice", photos={"cat.jpg"}, version=7, **{"cw:version_id": "v-7"})
    assert profiles.erase(4)[:2] == WRITTEN
    assert profiles.item == erased_item(4)
    assert profiles.read().item.keys() == {"account_id", "cw:erased_as_of", "cw:write_id", "cw:item_bytes"}


@pytest.mark.parametrize("assumed", Assumed)
def test_no_update_as_of_the_erasure_or_earlier_comes_back_and_later_ones_win(
    profiles: Profiles, assumed: Assumed
) -> None:
    profiles.upsert(theme("dark", 1), MapEntry(("limits", "card", "day"), 1, at(1)))
    profiles.erase(4)
    for seconds in (1, 3, 4):
        entries = [theme("dark", seconds), MapEntry(("limits", "card", "day"), 1, at(seconds))]
        assert profiles.upsert(*entries, assumed=assumed)[:2] == (0, 2)
        assert profiles.item == erased_item(4)
    assert profiles.upsert(theme("red", 5), theme("blue", 4), assumed=assumed)[:2] == (1, 1)
    assert profiles.maps == {"preferences": {"theme": "red"}}
    assert profiles.upsert(MapEntry(("visits", "last"), "without a clock", None))[:2] == WRITTEN


def test_a_repeated_erasure_takes_nothing_that_came_since_be_it_without_a_clock(profiles: Profiles) -> None:
    profiles.erase(4)
    profiles.plant(name="Alice")
    profiles.upsert(theme("dark", 5), MapEntry(("visits", "last"), "today"))
    before = profiles.item
    assert profiles.erase(4)[:2] == SUPERSEDED
    assert profiles.item == before


def test_an_erasure_takes_two_requests_and_upserts_none_more(profiles: Profiles) -> None:
    assert profiles.requests_of(lambda: profiles.erase(0)) == 1, "a missing item"
    profiles.upsert(theme("dark", 1), assumed=Assumed.NONE)
    assert profiles.requests_of(lambda: profiles.upsert(theme("red", 2), assumed=Assumed.ALL)) == 1
    assert profiles.requests_of(lambda: profiles.erase(3)) == 2
    assert profiles.requests_of(lambda: profiles.erase(3)) == 1, "a repetition"
    assert profiles.requests_of(lambda: profiles.upsert(theme("dark", 3))) == 1, "a late update"
    assert profiles.requests_of(lambda: profiles.upsert(theme("red", 4), assumed=Assumed.NONE)) == 1
    later = [MapEntry(("preferences", f"entry {number}"), number, at(6)) for number in range(100)]
    assert profiles.requests_of(lambda: profiles.upsert(erasure(at(5)), *later)) == 2
    assert len(profiles.maps["preferences"]) == 100
    assert set(profiles.calls) == {"UpdateItem", "GetItem"}


def test_the_room_of_what_was_erased_is_free_again(profiles: Profiles) -> None:
    for seconds in (1, 3, 5):
        for number in range(3):
            profiles.upsert(MapEntry(("photos", f"{number}"), "x" * 130_000, at(seconds)))
        with pytest.raises(ItemTooLarge):
            profiles.upsert(MapEntry(("photos", "more"), "x" * 130_000, at(seconds)))
        profiles.erase(seconds + 1)
        stored = profiles.read()
        assert stored.bytes <= stored.item["cw:item_bytes"] + 100 < 400


def test_versions_go_on_and_a_save_of_what_was_erased_is_a_conflict(profiles: Profiles) -> None:
    table = VersionedTable(profiles.client, profiles.name, "account_id")
    table.save({"account_id": "alice", "name": "Alice"})
    loaded = table.load("alice")
    assert loaded is not None
    profiles.erase(1, version_attribute="version")
    assert profiles.read().item["version"] == 2
    with pytest.raises(Conflict):
        table.save(loaded | {"name": "Alice again"})
    again = table.load("alice")
    assert again is not None
    again["status"] = "gone"
    table.save(again)
    assert profiles.erase(1, version_attribute="version")[:2] == SUPERSEDED
    assert profiles.read().item["version"] == 3


def test_an_item_with_a_thousand_attributes_is_erased_in_several_requests(profiles: Profiles) -> None:
    for names in itertools.batched(range(1_000), 100, strict=True):
        profiles.plant(**{f"attribute {name}": name for name in names})
    profiles.upsert(*(MapEntry((f"map {number}", "inner", "x"), 1, at(1)) for number in range(100)))
    profiles.upsert(MapEntry(("map 50", "inner", "late"), 1, at(3)))
    erasing = iter(UpsertInRequests(profiles.client, profiles.key(), [erasure(at(2))]))
    assert next(erasing) == ([], [], 1)
    assert 0 < len(profiles.maps) < 1_000 + 100
    profiles.upsert(MapEntry(("map 1", "comes back"), 1, at(0)))
    assert [progress[:2] for progress in erasing if progress.written] == [([erasure(at(2))], [])]
    assert profiles.maps == {"map 50": {"inner": {"late": 1}}}
    assert len(profiles.item) == 1 + 1 + 2


def test_an_item_with_hundreds_of_maps_that_stay_is_erased_in_a_few_requests(profiles: Profiles) -> None:
    times = {f"{number:03}": at(5 if number < 250 else 1) for number in range(300)}
    clocks = {f'cw:as_of ["m", "{name}"]': {"x": clock(MapEntry(("x",), 1, time))} for name, time in times.items()}
    maps = {"m": {name: {"x": 1} for name in times}, 'cw:as_of ["m"]': dict.fromkeys(times, "~")}
    profiles.client.put_item(
        TableName=profiles.name, Item=to_dynamodb({"account_id": "alice", "cw:item_bytes": 50_000} | maps | clocks)
    )
    assert profiles.requests_of(lambda: profiles.erase(4)) <= 4
    assert profiles.maps == {"m": {name: {"x": 1} for name in times if name < "250"}}


@pytest.mark.parametrize(
    ("error", "entries"),
    [
        (NotAnEntry, [MapEntry(("preferences", "theme"), "without a clock, in place of a map")]),
        (ItemTooLarge, [MapEntry(("photos", f"{number}"), "x" * 130_000, at(5)) for number in range(4)]),
    ],
)
def test_an_erasure_goes_before_entries_that_cannot_be_written(
    profiles: Profiles, error: type[Exception], entries: list[MapEntry]
) -> None:
    profiles.upsert(MapEntry(("preferences", "theme", "accent"), "blue", at(5)), MapEntry(("visits", "last"), 1, at(1)))
    with pytest.raises(error):
        profiles.upsert(erasure(at(4)), *entries)
    assert profiles.maps == {"preferences": {"theme": {"accent": "blue"}}}


@pytest.mark.parametrize(("counted", "counts"), [(True, False), (False, True)])
def test_after_an_erasure_the_removals_that_stay_are_counted(
    profiles: Profiles, *, counted: bool, counts: bool
) -> None:
    options, removals = {"forget_after": timedelta(days=9_999)}, [("early", at(1)), ("late", at(5))]
    profiles.upsert(*(MapEntry(("a", name), REMOVED, time) for name, time in removals), **(options if counted else {}))
    profiles.upsert(erasure(at(4)), **(options if counts else {}))
    assert profiles.read().item["cw:removed_bytes"] == clock_bytes(["late"])


def test_an_erasure_leaves_no_time_of_what_was_in_the_place_of_a_map(profiles: Profiles) -> None:
    profiles.upsert(theme("dark", 1))
    profiles.upsert(MapEntry(("preferences", "theme", "accent"), "blue", at(5)))
    assert profiles.item['cw:as_of ["preferences"]'] == {"theme": "~" + at(1).isoformat(timespec="microseconds")}
    profiles.erase(4)
    assert profiles.item['cw:as_of ["preferences"]'] == {"theme": "~"}


def test_a_value_in_place_of_a_map_is_erased_and_its_later_clocks_stay(profiles: Profiles) -> None:
    profiles.upsert(MapEntry(("visits", "last"), 1, at(5)), MapEntry(("limits", "card", "day"), 1, at(5)))
    profiles.plant(visits="Alice", limits={"card": "Alice"})
    profiles.erase(4)
    assert profiles.maps == {"limits": {}}
    assert profiles.upsert(MapEntry(("limits", "card", "day"), 0, at(4.5)))[:2] == SUPERSEDED
    assert profiles.upsert(MapEntry(("visits", "last"), 2, at(6)))[:2] == WRITTEN
    assert profiles.maps["visits"] == {"last": 2}


def test_clocks_that_nobody_can_read_or_that_nothing_leads_to_are_erased_too(profiles: Profiles) -> None:
    profiles.upsert(MapEntry(("limits", "card", "day"), 1, at(1)), MapEntry(("visits", "last"), 1, at(5)))
    unreadable: Item = {'cw:as_of ["preferences"]': "nonsense", "preferences": {"theme": "dark"}}
    unreadable |= {"cw:as_of nonsense": {"x": "1"}, "cw:as_of 5": {}, 'cw:as_of ["devices"]': {"phone": 5}}
    lost = {'cw:as_of ["gone"]': {"inner": at(9).isoformat()}, 'cw:as_of ["limits"]': {}, "visits": "no map any more"}
    later = {"x": at(9).isoformat(), "m": "~"}
    lost |= {f'cw:as_of ["lost", "{name}"]': later for name in range(900)}
    for path in ('["lost", "0", "m"]', '["visits", "m"]', '["visits", "m", "m"]'):
        lost[f"cw:as_of {path}"] = later
    lost |= {'cw:as_of ["old"]': {"inner": at(1).isoformat()}}
    for attributes in itertools.batched((unreadable | lost).items(), 300, strict=False):
        profiles.plant(**dict(attributes))
    profiles.upsert(MapEntry(("deep", "b", "c", "x"), 1, at(5)))
    profiles.erase(4)
    clocks = {f"cw:as_of {path}" for path in ('["gone"]', '["visits"]', '["deep"]', '["deep","b"]', '["deep","b","c"]')}
    kept = {name.replace(", ", ",") for name in profiles.item}
    assert kept == {"cw:erased_as_of", "deep", *clocks}, "later clocks stay"


def test_the_count_of_an_items_bytes_is_right_after_an_erasure_with_entries(profiles: Profiles) -> None:
    profiles.upsert(theme("dark", 1))
    profiles.upsert(erasure(at(2)), MapEntry(("photos", "1"), "x" * 10_000, at(3)))
    item = profiles.read().item
    assert item_bytes(item) - 100 <= item["cw:item_bytes"] <= item_bytes(item)
