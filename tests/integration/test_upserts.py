"""Map-entry upserts: nothing is lost, even if maps are missing and others write concurrently."""

import contextlib
import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from botocore.exceptions import ClientError

from conditional_writes import Conflict, Deadline, DeadlinePassed, Item, VersionedTable
from conditional_writes.core.items import item_bytes, to_dynamodb
from conditional_writes.core.own_attributes import REMOVED_BYTES
from conditional_writes.upserts import (
    REMOVED,
    ItemTooLarge,
    MapEntry,
    NotAMap,
    NotAnEntry,
    UpsertInRequests,
    erase,
    erasure,
    plan,
)
from conditional_writes.upserts.clocks import MAP_MARK, clocks_attribute, is_removal
from conditional_writes.upserts.plan import RecentDepths
from conditional_writes.upserts.tidying import MOST_REMOVED_BYTES, clock_bytes
from tests.support.profile_table import START, Assumed, ProfileTable, at, theme
from tools.local_aws.server import Endpoint


class Profiles(ProfileTable):
    def requests(self, *entries: MapEntry, **options: Any) -> int:
        return self.requests_of(lambda: self.upsert(*entries, **options))

    def stored(self) -> Item:
        return self.read().item

    def maps(self, name: object = "alice") -> Item:
        """The item without its key, its version, its clocks and the library's other attributes."""
        maps = self.read(str(name)).maps
        return {attribute: maps[attribute] for attribute in maps if attribute != "version"}

    def plant(self, item: Item) -> None:
        self.client.put_item(TableName=self.name, Item=to_dynamodb({"account_id": "alice"} | item))


@pytest.fixture
def profiles(dynamodb: Endpoint) -> Profiles:
    return Profiles(dynamodb)


# --- any depth, any missing maps ----------------------------------------------------------------------


@pytest.mark.parametrize("assumed", Assumed)
@pytest.mark.parametrize("depth", [1, 2, 3, 7])
@pytest.mark.parametrize("as_of", [None, at(1)])
def test_whatever_is_missing_is_made(profiles: Profiles, assumed: Assumed, depth: int, as_of: datetime | None) -> None:
    path = tuple("abcdefg"[:depth])
    for there in range(-1, depth + 1):  # No item; an item without the attribute; then with one map more each time.
        name = f"{assumed}-{there}"
        expected: Any = {"other": 1} if there >= 0 else {}
        inside = expected
        for step in path[: max(there, 0)]:
            inside[step] = {"other": 1}
            inside = inside[step]
        if there >= 0:
            profiles.plant({"account_id": name} | expected)
        requests = profiles.requests(MapEntry((*path, "new"), 5, as_of), name=name, assumed=assumed)
        for step in path[max(there, 0) :]:
            inside[step] = {}
            inside = inside[step]
        again = profiles.requests(MapEntry((*path, "again"), 6, as_of), name=name, assumed=Assumed.ALL)
        inside |= {"new": 5, "again": 6}
        assert profiles.maps(name) == expected
        assert (requests <= 2, again) == (True, 1)


def test_adaptive_learns_what_was_there_and_changes_its_mind_after_two_surprises(profiles: Profiles) -> None:
    entry = partial(MapEntry, ("a", "b", "c", "d"))
    fresh = [profiles.requests(entry("dark"), name=number) for number in range(10)]
    again = [profiles.requests(entry("blue"), name=number) for number in range(10)]
    mixed = [profiles.requests(entry("red"), name=number) for number in (1, 2, "new", 3, 4, "new 2", 5, 6)]
    assert fresh == [2] + [1] * 9
    assert again == [2, 2] + [1] * 8
    assert mixed == [1, 1, 2, 1, 1, 2, 1, 1]


def test_more_than_an_expression_has_room_for_are_several_requests(profiles: Profiles) -> None:
    wide = [MapEntry(("preferences", f"e-{number}"), number, at(1)) for number in range(250)]
    deep = [MapEntry((*"abcdefghij", f"e-{number}"), number, at(1)) for number in range(100)]
    many = [MapEntry((f"map-{number}", "inner", "e"), number, at(1)) for number in range(50)]
    for _ in range(2):  # First with missing maps, then with existing ones.
        for assumed in (Assumed.ALL, Assumed.NONE):
            profiles.upsert(*wide, *deep, *many, assumed=assumed)
    found = profiles.maps()
    assert len(found.pop("preferences")) == 250
    inside = found
    for step in "abcdefghij":
        inside = inside[step]
    assert len(inside) == 100
    assert [found[f"map-{number}"]["inner"]["e"] for number in range(50)] == list(range(50))


NAMES = ["status", "a.b", "#0", ":0", "x[0]", "ключ", "🏦", " ", "size", '"quoted"', "{}", "as_of"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_can_be_anything(profiles: Profiles, name: str) -> None:
    for _ in range(2):
        profiles.upsert(MapEntry((name, name, name), {name: 1}, at(1)), MapEntry((name, f"{name}.{name}"), 2, at(1)))
    assert profiles.maps() == {name: {name: {name: {name: 1}}, f"{name}.{name}": 2}}


# --- order -----------------------------------------------------------------------------------------------


def test_in_the_hour_that_comes_twice_the_later_one_wins(profiles: Profiles) -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Zurich"))
    second = first.replace(fold=1)
    assert first == second  # of two times in one zone Python compares the digits
    profiles.upsert(theme("dark")._replace(as_of=first))
    profiles.upsert(theme("red")._replace(as_of=second))
    assert profiles.maps() == {"preferences": {"theme": "red"}}
    profiles.upsert(erasure(first), theme("blue")._replace(as_of=second.replace(microsecond=1)))
    assert profiles.maps() == {"preferences": {"theme": "blue"}}


def test_without_a_clock_the_last_to_arrive_wins(profiles: Profiles) -> None:
    for value in ("red", "blue", "dark"):
        profiles.upsert(theme(value))
    assert profiles.maps() == {"preferences": {"theme": "dark"}}
    profiles.upsert(theme(REMOVED))
    assert profiles.maps() == {"preferences": {}}
    assert clocks_attribute(("preferences",)) not in profiles.stored()


def test_of_the_entries_of_a_request_the_earlier_ones_may_be_erased(profiles: Profiles) -> None:
    erase(profiles.client, profiles.key(), at(2))
    later = MapEntry(("preferences", "size"), 1, at(3)), MapEntry(("photos", "1"), 1, at(3))
    profiles.upsert(theme("dark", 1), *later, assumed=Assumed.NONE)
    assert profiles.maps() == {"preferences": {"size": 1}, "photos": {"1": 1}}


def test_a_removal_is_remembered(profiles: Profiles) -> None:
    profiles.upsert(theme(REMOVED, 5))
    profiles.upsert(theme("late", 4))
    assert profiles.maps() == {"preferences": {}}
    profiles.upsert(theme("dark", 6))
    profiles.upsert(theme(REMOVED, 5))
    assert profiles.maps() == {"preferences": {"theme": "dark"}}
    profiles.upsert(theme(REMOVED, 7))
    assert profiles.maps() == {"preferences": {}}


def test_entries_that_knew_no_clock_are_adopted(profiles: Profiles) -> None:
    profiles.plant({"preferences": {"theme": "old", "size": 3}})
    profiles.upsert(theme("dark", 5))
    profiles.upsert(theme("late", 4))
    assert profiles.maps() == {"preferences": {"theme": "dark", "size": 3}}


def test_sixteen_writers_lose_nothing_and_every_entry_is_the_latest(profiles: Profiles, every_case: bool) -> None:
    choose, names = random.Random(16), range(2000 if every_case else 300)
    entries = [
        MapEntry(("devices", "seen", f"d-{number}"), {"version": version}, at(version))
        for number in names
        for version in (1, 2)
    ]
    deliveries = entries + choose.sample(entries, len(entries) // 10)
    choose.shuffle(deliveries)

    def work(number: int) -> None:
        mine = deliveries[number::16]
        for batch in itertools.batched(mine, choose.choice([1, 10, 25])):
            profiles.upsert(*batch, deadline=Deadline.after(60))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert profiles.maps() == {"devices": {"seen": {f"d-{number}": {"version": 2} for number in names}}}


# --- invalid upserts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("assumed", Assumed)
@pytest.mark.parametrize(
    ("there", "kind"),
    [("text", "a string"), (1, "a number"), ([1], "a list"), (None, "null"), ({"a"}, "a set of strings")],
)
def test_a_parent_that_is_no_map_is_named(profiles: Profiles, assumed: Assumed, there: object, kind: str) -> None:
    of_a, of_b = {clocks_attribute(("a",)): {"b": MAP_MARK}}, {clocks_attribute(("a", "b")): {"c": MAP_MARK}}
    for clocks, as_of in itertools.product(({}, of_a, of_a | of_b), (None, at(1))):
        profiles.plant({"a": {"b": {"c": there}}} | clocks)
        with pytest.raises(NotAMap) as caught:
            profiles.upsert(MapEntry(("a", "b", "c", "d", "e"), 1, as_of), assumed=assumed)
        assert (caught.value.path, caught.value.kind) == (("a", "b", "c"), kind)
        assert caught.value.found is not None
        assert str(caught.value).endswith(f"a.b.c is {kind}, expected a map, to hold entries")
        assert profiles.maps() == {"a": {"b": {"c": there}}}


def test_an_item_that_would_be_too_large_is_refused_before_dynamodb_does_it(profiles: Profiles) -> None:
    def chunk(number: int, seconds: int = 1) -> MapEntry:
        return MapEntry(("data", f"chunk-{number}"), "x" * 50_000, at(seconds))

    for number in range(7):
        profiles.upsert(chunk(number))
    for seconds in range(2, 9):  # Rewritten entries count once.
        profiles.upsert(chunk(0, seconds))
    refused: list[str] = []
    profiles.client.meta.events.register(
        "after-call", lambda parsed, **_: refused.append(parsed.get("Error", {}).get("Code", ""))
    )
    with pytest.raises(ItemTooLarge, match=r"would have 40\d,\d\d\d bytes, expected at most 400,000"):
        profiles.upsert(chunk(8))
    assert set(refused) <= {"ConditionalCheckFailedException"}
    profiles.upsert(MapEntry(("data", "chunk-3"), REMOVED, at(2)))
    profiles.upsert(chunk(8))
    with pytest.raises(ItemTooLarge):
        profiles.upsert(*(chunk(number) for number in range(20)), name="new")
    profiles.plant({"notes": "x" * 390_000})
    with pytest.raises(ItemTooLarge):
        profiles.upsert(chunk(0))
    profiles.name = "missing"
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        profiles.upsert(chunk(0))


def test_what_cannot_be_meant_is_refused_before_sending(profiles: Profiles) -> None:
    for entry, sentence in [
        (MapEntry(("alone",), 1), "expected a tuple of names: of an attribute and of an entry"),
        (MapEntry(("a", ""), 1), "expected a tuple of names: of an attribute and of an entry"),
        (MapEntry(cast("Any", ["a", "b"]), 1), "expected a tuple of names: of an attribute and of an entry"),
        (MapEntry(("account_id", "x"), 1), "account_id can't hold entries"),
        (MapEntry(("cw:write_id", "x"), 1), "cw:write_id can't hold entries"),
        (MapEntry((), REMOVED), "expected a tuple of names: of an attribute and of an entry"),
        (MapEntry((), "a value", at(1)), "expected a tuple of names: of an attribute and of an entry"),
        (erasure(datetime(2026, 1, 1)), "expected a time with its offset"),  # noqa: DTZ001
        (theme(1)._replace(as_of=datetime(2026, 1, 1)), "expected a time with its offset"),  # noqa: DTZ001
        (theme(1)._replace(as_of=cast("Any", "2026-01-01")), "expected a datetime with its offset"),
        (theme(0.1, 1), "0.1 is a float"),
    ]:
        with pytest.raises((ValueError, TypeError), match=sentence):
            profiles.upsert(entry)
    with pytest.raises(ValueError, match="preferences can't hold entries: it is the version"):
        profiles.upsert(theme(1), MapEntry(("a", "b"), 1), version_attribute="preferences")
    assert not profiles.calls


def test_after_the_deadline_nothing_is_sent(profiles: Profiles) -> None:
    with pytest.raises(DeadlinePassed):
        profiles.upsert(theme("dark"), deadline=Deadline.after(0))
    with pytest.raises(DeadlinePassed):
        erase(profiles.client, profiles.key(), START, deadline=Deadline.after(0))
    assert not profiles.calls


# --- versions, faults ------------------------------------------------------------------------------------


def test_an_upsert_may_count_a_version_and_a_save_never_wipes_it_out(profiles: Profiles) -> None:
    table = VersionedTable(profiles.client, profiles.name, "account_id")
    table.save({"account_id": "alice", "preferences": {"theme": "old"}, "name": "Alice"})
    loaded = table.load("alice")
    assert loaded is not None
    profiles.upsert(theme("dark", 1))
    saved = table.save(loaded | {"name": "Alicia"})
    assert profiles.maps() == {"preferences": {"theme": "dark"}, "name": "Alicia"}
    profiles.upsert(theme("blue", 2), version_attribute="version")
    with pytest.raises(Conflict, match="expected version 2, found version 3"):
        table.save(saved | {"name": "Alix"})


def test_a_save_between_a_refusal_and_what_follows_from_it_is_not_lost(profiles: Profiles) -> None:
    table = VersionedTable(profiles.client, profiles.name, "account_id")
    table.save({"account_id": "alice"})
    inner = [MapEntry(("p", "theme", "accent"), "blue", at(4)), MapEntry(("p", "theme", "size"), 1, at(1))]
    profiles.upsert(*inner, version_attribute="version")
    loaded = table.load("alice")
    assert loaded is not None

    def save_once(parsed: dict[str, Any], **_: object) -> None:
        if "Error" in parsed and loaded["p"]["theme"]["accent"] == "blue":
            loaded["p"]["theme"]["accent"] = "saved"
            table.save(loaded)

    profiles.client.meta.events.register("after-call.dynamodb.UpdateItem", save_once)
    upserted = profiles.upsert(MapEntry(("p", "theme"), "dark", at(3)), version_attribute="version")
    assert profiles.maps() == {"p": {"theme": {"accent": "saved"}}}
    assert upserted == (0, 1, 2)


SHAPES: list[Item] = [{}, {"a": {}}, {"a": {"b": {}}}, {"a": {"b": {"c": {"x": 1}}}}, {"a": "text"}, {"a": {"b": 1}}]


def test_no_request_ever_ends_in_an_invalid_path(profiles: Profiles) -> None:
    """Meanwhile other programs replace and remove maps."""
    choose, codes = random.Random(7), set[str]()
    profiles.client.meta.events.register(
        "after-call", lambda parsed, **_: codes.add(parsed.get("Error", {}).get("Code", "success"))
    )
    for number in range(100):
        profiles.plant(choose.choice(SHAPES))
        path = ("a", "b", "c", "x")[: choose.randint(2, 4)]
        with contextlib.suppress(NotAMap, NotAnEntry):
            profiles.upsert(MapEntry(path, number, at(number)), assumed=choose.choice(list(Assumed)))
    assert codes == {"success", "ConditionalCheckFailedException"}


# --- forgetting ------------------------------------------------------------------------------------------

MONTH = timedelta(days=30)


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """A list of one time, which is now."""
    times = [START]
    monkeypatch.setattr(plan, "now", lambda: times[0])
    return times


def test_names_that_come_and_go_do_not_fill_an_item(profiles: Profiles, today: list[datetime]) -> None:
    def come_and_go(name: str) -> None:
        profiles.upsert(MapEntry(("devices", name), {"seen": 1}, today[0]), forget_after=MONTH)
        profiles.upsert(MapEntry(("devices", name), REMOVED, today[0] + timedelta(hours=1)), forget_after=MONTH)

    sizes: list[int] = []
    for number in range(150):
        today[0] = START + timedelta(days=number)
        come_and_go(f"d-{number}")
        sizes.append(item_bytes(profiles.stored()))
    needed = 31 * (sizes[1] - sizes[0])
    assert max(sizes) < sizes[0] + 2 * needed + 1_024 + 100
    assert profiles.maps() == {"devices": {}}


def test_a_removal_is_remembered_for_its_time(profiles: Profiles, today: list[datetime]) -> None:
    names = [f"d-{number}" for number in range(60)]
    for name in names:
        profiles.upsert(MapEntry(("devices", name), REMOVED, START), forget_after=MONTH)
        if profiles.stored()[REMOVED_BYTES] > MOST_REMOVED_BYTES:
            profiles.upsert(MapEntry(("devices", "kept"), 1, START), assumed=Assumed.NONE)  # by one who never forgets
            assert profiles.requests(MapEntry(("devices", "kept"), 1, at(0.5)), forget_after=MONTH) == 1
    profiles.upsert(MapEntry(("devices", "kept"), 2, START), forget_after=timedelta.max)
    today[0] = START + MONTH
    profiles.upsert(MapEntry(("devices", "one more"), REMOVED, today[0]), forget_after=MONTH)
    profiles.upsert(*(MapEntry(("devices", name), 1, at(-1)) for name in names), forget_after=MONTH)
    profiles.upsert(MapEntry(("devices", "kept"), 3, at(1)), forget_after=timedelta(0))
    assert profiles.maps()["devices"].keys() == {"kept"}


def test_a_name_with_a_thousand_maps_inside_can_be_removed(profiles: Profiles) -> None:
    paths = [("a", "many", f"m-{number}", "x") for number in range(1_000)]
    for batch in itertools.batched(paths, 100):
        profiles.upsert(*(MapEntry(path, 1, at(1)) for path in batch))
    profiles.upsert(MapEntry(("a", "many", "m-500", "late"), 1, at(3)))
    profiles.upsert(MapEntry(("a", "many"), REMOVED, at(2)))
    assert profiles.maps() == {"a": {"many": {"m-500": {"late": 1}}}}
    profiles.upsert(MapEntry(("a", "many"), REMOVED, at(4)))
    assert profiles.maps() == {"a": {}}
    assert len(profiles.stored()) < 10


def test_once_a_map_is_being_dropped_nothing_earlier_comes_into_it(profiles: Profiles) -> None:
    paths = [("a", "many", f"m-{number}", "x") for number in range(300)]
    for batch in itertools.batched(paths, 100):
        profiles.upsert(*(MapEntry(path[:-1], 1, at(0)) for path in batch))
        profiles.upsert(*(MapEntry(path, 1, at(1)) for path in batch))
    profiles.upsert(MapEntry(("data", "chunk"), "x" * 250_000), MapEntry(("a", "few", "x"), 1, at(1)))
    with pytest.raises(ItemTooLarge):  # in the end
        profiles.upsert(MapEntry(("a", "few"), 1, at(3)), MapEntry(("a", "many"), "x" * 200_000, at(3)))
    assert profiles.maps()["a"]["few"] == 1
    assert len(profiles.maps()["a"]["many"]) == 300
    dropping = iter(UpsertInRequests(profiles.client, profiles.key(), [MapEntry(("a", "many"), REMOVED, at(3))]))
    next(dropping)  # a part
    assert 0 < len(profiles.maps()["a"]["many"]) < 300
    assert profiles.upsert(MapEntry(("a", "many", "m-new", "x"), 2, at(2.999998)))[:2] == (0, 1)
    assert "m-new" not in profiles.maps()["a"]["many"]
    assert [len(each.written) for each in dropping][-1] == 1
    assert profiles.maps()["a"] == {"few": 1}


def test_a_full_item_forgets_before_it_refuses(profiles: Profiles, today: list[datetime]) -> None:
    names = [f"{number:04}" + "x" * 240 for number in range(1_300)]
    for batch in itertools.batched(names, 100):
        profiles.upsert(*(MapEntry(("a", name), REMOVED, START) for name in batch))  # by a writer who never forgets
    for forget_after in (MONTH, None):
        with pytest.raises(ItemTooLarge):
            profiles.upsert(MapEntry(("a", "entry"), "x" * 60_000, at(1)), forget_after=forget_after)
    today[0] = at(2) + MONTH
    profiles.upsert(MapEntry(("a", "entry"), "x" * 60_000, at(1)), forget_after=MONTH)
    assert profiles.stored()[REMOVED_BYTES] == 0


def test_an_item_is_tidied_until_few_removals_are_left(profiles: Profiles, today: list[datetime]) -> None:
    def removals() -> list[str]:
        return [name for name, clock in profiles.read().clocks[of_devices].items() if is_removal(clock)]

    of_devices, names = clocks_attribute(("devices",)), [f"d-{number}" for number in range(100)]
    clocks = {"kept": MAP_MARK} | dict.fromkeys(names, START.isoformat(timespec="microseconds"))
    profiles.plant({"devices": {"kept": {}}, of_devices: clocks, REMOVED_BYTES: clock_bytes(names)})
    today[0] = at(1) + MONTH
    requests = profiles.requests(MapEntry(("devices", "new"), REMOVED, today[0]), forget_after=MONTH)
    assert (requests, len(removals())) == (3, 18)
    assert profiles.stored()[REMOVED_BYTES] == clock_bytes(removals())


def test_without_a_clock_no_time_decides_between_an_entry_and_a_map(profiles: Profiles) -> None:
    inside = MapEntry(("preferences", "theme", "accent"), "blue")
    with pytest.raises(NotAMap, match=r"preferences\.theme is an entry"):
        profiles.upsert(theme("dark", 1), inside)
    assert not profiles.calls
    profiles.upsert(theme("red", 2), theme("dark"))  # of two in a call the last one wins
    assert profiles.maps() == {"preferences": {"theme": "dark"}}
    profiles.upsert(theme("dark", 1))
    with pytest.raises(NotAMap, match=r"preferences\.theme is an entry"):
        profiles.upsert(inside)
    profiles.upsert(inside._replace(as_of=at(2)))
    with pytest.raises(NotAnEntry):
        profiles.upsert(theme("dark"), assumed=Assumed.ALL)
    profiles.upsert(inside._replace(value="red"))
    assert profiles.maps() == {"preferences": {"theme": {"accent": "red"}}}
    profiles.upsert(theme(REMOVED, 3), name="bob")
    with mock.patch.object(RecentDepths, "expected", return_value=1), pytest.raises(NotAMap):
        profiles.upsert(inside, name="bob")


@pytest.mark.parametrize(("forget_after", "counted"), [(MONTH, clock_bytes(["accent"] * 2)), (None, None)])
def test_an_entry_that_becomes_a_map_and_a_removal_are_counted_if_removals_are_forgotten(
    profiles: Profiles, forget_after: timedelta | None, counted: int | None
) -> None:
    profiles.upsert(theme("dark", 1))
    for value, seconds in (("blue", 2), ("green", 2.5), (REMOVED, 3)):
        inside = MapEntry(("preferences", "theme", "accent"), value, at(seconds))
        profiles.upsert(inside, forget_after=forget_after)
    assert profiles.stored().get(REMOVED_BYTES) == counted
    late = MapEntry(("preferences", "theme", "size"), 1, at(0.5))
    assert profiles.upsert(late, assumed=Assumed.ALL)[:2] == (0, 1), "earlier than what was in the map's place"
