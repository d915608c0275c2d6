"""Edges that only a mutant showed: limits that are met exactly, and values that others hold us to."""

import copy
import itertools
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from conditional_writes import Item, Plan, Update, key
from conditional_writes.core.items import item_bytes, value_bytes
from conditional_writes.core.own_attributes import ITEM_BYTES
from conditional_writes.exactly_once import Records, exactly_once
from conditional_writes.exactly_once.payload import field_hashes
from conditional_writes.upserts import REMOVED, MapEntry, erasure
from conditional_writes.upserts.clocks import clock, clocks_attribute, map_mark, time_text, winning
from conditional_writes.upserts.edit import Edit, check_size
from conditional_writes.upserts.entries import MapPath, in_requests, in_requests_from_any_on
from conditional_writes.upserts.errors import MAXIMUM_UPSERTED_BYTES
from conditional_writes.upserts.plan import RecentDepths
from conditional_writes.upserts.reshape import bytes_in_the_end
from conditional_writes.upserts.tidying import clock_bytes, removed_bytes, tidied

RECORDS = Records(None, "Records")
AS_OF, LATER = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (1, 2))
NAMES = [f"e-{number}" for number in range(500)]
EMPTY_MAPS = {clocks_attribute((name,)): {} for name in NAMES}
ONE_MAP = {"a": {}, clocks_attribute(("a",)): dict.fromkeys(NAMES, time_text(AS_OF))}


HASHES = {
    "map": "ZDlBOgfeWfXLNzX0rPQalQ",
    "list": "pF4PMpptalJvGAl_xtPCVw",
    "set": "DzpPEevCXiIqTF4XXqR2pQ",
    "bytes": "8Ruom5JSqeupd0PGl8YnAA",
    "time": "Qc2UdYMxmRzd9_TIDyRJIQ",
}
"""Of the payload below. With others the records of today would refuse tomorrow's repetitions."""


def test_a_payload_has_the_hashes_that_records_have_already() -> None:
    payload = {"map": {"b": 1, 2: "a"}, "list": [0, Decimal("-120.50"), 1e300], "set": {"a", 1}}
    payload |= {"bytes": b"a", "time": AS_OF}
    assert field_hashes("pay#p-1", payload) == HASHES


def test_a_time_without_an_offset_is_its_text() -> None:
    time = datetime(2026, 7, 1, 12)  # noqa: DTZ001
    assert field_hashes("pay#p-1", {"at": time}) == field_hashes("pay#p-1", {"at": "2026-07-01T12:00:00"})


def test_a_model_itself_is_no_payload() -> None:
    @dataclass
    class Payment:
        amount: int

    with pytest.raises(TypeError, match="payload: a type can't be told from another"):
        field_hashes("pay#p-1", Payment)


def test_a_record_lives_for_one_second_or_more_and_its_key_has_2048_bytes_or_fewer() -> None:
    recorded = exactly_once(RECORDS, key=str, prefix="p", expires_after=timedelta(seconds=1))
    pay = recorded(lambda order, observed: Plan(None))
    pay._recording.begin("k" * 2046)
    with pytest.raises(ValueError, match="prefix and key have over 2048 bytes"):
        pay._recording.begin("k" * 2047)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (REMOVED, ""),
        (None, " dc937b59892604f5"),
        (True, " 3cbc87c7681f34db"),
        ("a", " d749929fe94b9a37"),
        (0, " 5feceb66ffc86f38"),
        (Decimal("-0.0"), " 5feceb66ffc86f38"),
        (1, " 6b86b273ff34fce1"),
        (Decimal("12.50"), " b902cc4550838229"),
        ({"b": 1, "a": "x"}, " 630b0800e6faabb6"),
        ([1, "a"], " d7e6641fa2c0042c"),
        ({"a", "b"}, " 43799867fc38e632"),
        (b"a", " 3ccb732a4e5439e4"),
        (bytearray(b"a"), " 3ccb732a4e5439e4"),
    ],
)
def test_a_value_has_the_clock_that_items_have_already(value: Any, text: str) -> None:
    assert clock(MapEntry(("map", "name"), value, AS_OF)) == f"2026-01-01T01:00:00.000000+00:00{text}"


def test_the_clocks_of_a_map_are_where_items_have_them_already() -> None:
    assert clocks_attribute(("a", "ключ")) == 'cw:as_of ["a", "ключ"]'


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (MapEntry(("a", "b"), 1, datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))), "years 1 and 9999 in UT"),
        (MapEntry(("a", 1), 1, AS_OF), "expected a tuple of names: of an attribute and of an entry"),
    ],
)
def test_an_entry_that_no_item_can_hold_is_refused(entry: MapEntry, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        winning(key("Profiles", id="alice"), [entry])


def test_what_is_tidied_has_no_removal_before_the_time_no_floor_before_it_and_no_map_that_is_left_empty() -> None:
    early, before, late = (time_text(AS_OF + timedelta(hours=hours)) for hours in (-1, 0, 1))
    value = f"{early} 5feceb66ffc86f38"
    of_a, of_m, of_n, of_b, of_c = map(clocks_attribute, (("a",), ("a", "m"), ("a", "n"), ("b",), ("c",)))
    stay = {"value": value, "late": late, "now": before, "o": map_mark(before)}
    found = {
        "a": {"value": 0, "m": {}, "n": {"x": 0}},
        of_a: stay | {"gone": early, "m": map_mark(early), "n": map_mark(early)},
        of_m: {"gone": early},
        of_n: {"x": value},
        "b": {},
        of_b: {"gone": early},
        "c": {"of another program": 1},
        of_c: {"gone": early},
    }
    edit, forgotten_bytes, needed_bytes = tidied(found, before)
    after = {"a": {"value": 0, "n": {"x": 0}}, of_a: {"n": map_mark()} | stay, of_n: {"x": value}}
    assert edit.item == after | {"c": {"of another program": 1}, of_c: {}}
    assert forgotten_bytes == 4 * clock_bytes(["gone"]) + clock_bytes(["n"]) == 4 * 38 + 35
    assert needed_bytes == removed_bytes(edit) == clock_bytes(["late", "now", "o"])
    assert edit._expected == {("a", "m"), ("b",)}  # An entry without a clock may come in between.


@pytest.mark.parametrize(("found", "requests"), [(ONE_MAP, 1), (EMPTY_MAPS, 11)], ids=["one map", "many maps"])
def test_a_map_that_is_left_empty_is_one_change_and_many_take_several_requests(found: Item, requests: int) -> None:
    tidy = [tidied(found, time_text(LATER))]
    while tidy[-1].needed_bytes is None:
        tidy.append(tidied(tidy[-1].edit.item, time_text(LATER)))
    assert (len(tidy), tidy[-1].edit.item) == (requests, {})


def test_an_items_bytes_are_counted_as_an_upper_bound_if_it_is_unseen_and_else_exactly() -> None:
    profile, of_a = key("Profiles", id="alice"), clocks_attribute(("a",))
    found = {"a": {"x": 0}, of_a: {"x": ""}}

    def update(change: Callable[[Edit], None], counted: int | None) -> Update:
        edit = Edit(found if counted is None else found | {ITEM_BYTES: counted})
        change(edit)
        return edit.update(profile, None)

    def unseen(edit: Edit) -> None:
        edit.fit([MapEntry(("a", "y"), "abc", AS_OF)])

    value = len("1y") + 3
    new = value + len("1y") + len(clock(MapEntry(("a", "y"), "abc", AS_OF)))
    after = item_bytes(dict(profile.attributes) | {"a": {"x": 0, "y": "abc"}, of_a: {"x": "", "y": ""}})
    for counted in (None, 0, MAXIMUM_UPSERTED_BYTES - new):
        assert update(unseen, counted).added == {ITEM_BYTES: new}
    full = update(unseen, MAXIMUM_UPSERTED_BYTES - new + 1)
    assert (full.added, full.values[ITEM_BYTES,] > after) == ({}, True)
    assert ITEM_BYTES in repr(full.condition)
    put = update(lambda edit: edit.put(("a", "y"), "abc"), 7)
    assert put.added == {ITEM_BYTES: new - 2 - len(time_text(AS_OF)) - 17}
    assert update(lambda edit: edit.put(("a", "y"), "abc"), None).added == {}


def test_an_item_that_is_too_large_already_may_shrink_or_stay_as_large() -> None:
    profile = key("Profiles", id="alice")
    for value in (2, ""):
        edit = Edit({"a": {"x": 1, "y": "z" * MAXIMUM_UPSERTED_BYTES}})
        edit.lock()
        edit.put(("a", "x"), value)
        size = edit.update(profile, None).values[ITEM_BYTES,]
        assert size == item_bytes(edit.item | dict(profile.attributes))
    check_size(profile, MAXIMUM_UPSERTED_BYTES)


@pytest.mark.parametrize(("value", "there"), [("x" * 7, {"x": 1}), (REMOVED, {"x": 1}), ("x" * 7, None)])
def test_what_an_entry_takes_in_the_end_is_known_before_anything_is_dropped_for_it(value: Any, there: Any) -> None:
    rest = {"z": 2, clocks_attribute(("a",)): {"m": map_mark()}}
    found = rest | {"a": {"m": there}, clocks_attribute(("a", "m")): {"x": "t"}} if there else rest | {"a": {}}
    in_the_end = rest | {"a": {} if value is REMOVED or not there else {"m": value}}
    name_bytes = 2 if value is REMOVED else 0  # an upper bound
    name_bytes += value_bytes(value) if not there else 0
    assert bytes_in_the_end(MapEntry(("a", "m"), value), found) == item_bytes(in_the_end) + name_bytes


def test_a_request_has_as_many_entries_as_its_expressions_have_room_for() -> None:
    def entries(*paths: MapPath) -> list[MapEntry]:
        return [MapEntry((*path, f"e-{number}"), number) for number, path in enumerate(paths)]

    def sizes(*paths: MapPath) -> list[int]:
        return [len(request) for request in in_requests(entries(*paths))]

    deep = tuple(map(str, range(25)))
    assert sizes(*(("a",), ("b",)) * 100) == [110, 90]  # the update's characters
    assert sizes(*((f"map-{number}",) for number in range(50))) == [28, 22]  # the operators
    assert sizes(deep, deep, deep, (*deep[:16], "y"), ("z",)) == [5]  # the condition's characters
    assert sizes(deep, deep, deep, (*deep[:16], "y"), ("z",), ("one more",)) == [5, 1]
    assert (sizes(), sizes(deep * 2)) == ([], [1])
    around = MapEntry(("map-1", "b", "c"), 1)
    requests = [*in_requests([*entries(*(("a",),) * 111), MapEntry(("map-1", "b", "c", "d"), 1), around])]
    assert [len(request) for request in requests] == [111, 1, 1]


def test_an_edit_is_full_while_its_expressions_have_room_for_one_more_change() -> None:
    def most(change: Callable[[Edit, int], None]) -> int:
        edit = Edit({"a": {}})
        numbers = itertools.takewhile(lambda number: not edit.is_full, range(1, 999))
        return max(number for number in numbers if change(edit, number) is None)

    deep = tuple(map(str, range(20)))
    assert most(lambda edit, number: edit.put(("a", f"e-{number}"), number)) == 201
    assert most(lambda edit, number: edit.expect_as_found((*deep, f"e-{number}"))) == 26


def test_the_depths_of_the_thousand_paths_that_were_used_last_are_remembered() -> None:
    depths = RecentDepths()
    for name in (*map(str, range(1_000)), "0", "new"):
        depths.learn("Profiles", (name,), 0)
    assert [depths.expected("Profiles", (name,)) for name in ("0", "1", "2", "999", "new")] == [0, 1, 0, 0, 0]


def test_what_is_missing_is_no_change_to_drop() -> None:
    edit = Edit({"a": {}})
    for path in (("a", "x"), ("b", "x")):
        edit.drop(path)
    assert edit.is_empty


def test_a_map_that_is_set_whole_takes_later_changes() -> None:
    edit = Edit({"a": {"x": 0}})
    for path, value in ((("a", "x"), 1), (("a",), {"y": 2}), (("a", "z"), 3)):
        edit.put(path, value)
    assert edit.item == {"a": {"y": 2, "z": 3}}


def test_an_erasure_takes_what_it_supersedes_along() -> None:
    late, same, unclocked = (MapEntry(("a", name), 1, at) for name, at in (("l", LATER), ("s", AS_OF), ("u", None)))
    requests = in_requests_from_any_on([late, same, erasure(AS_OF), unclocked])
    assert requests == [[erasure(AS_OF), same], [late, unclocked]]
    assert in_requests_from_any_on([erasure(AS_OF), late]) == [[erasure(AS_OF)], [late]]
    assert in_requests_from_any_on([late]) == [[late]]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda entry: pickle.loads(pickle.dumps(entry))])
def test_a_removal_stays_one_in_a_copy_and_in_another_process(copied: Callable[[MapEntry], MapEntry]) -> None:
    assert copied(erasure(datetime.now(UTC))).value is REMOVED
