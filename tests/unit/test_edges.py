"""Edges that only a mutant showed: limits that are met exactly, and values that others hold us to."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from msgspec.structs import replace

from conditional_writes import Deadline, DeadlinePassed, Observed, Plan, Update, absent, key
from conditional_writes.core.items import item_bytes, value_bytes
from conditional_writes.core.own_attributes import ERASED_AS_OF, ITEM_BYTES
from conditional_writes.core.requests import any_of, equals, less_than
from conditional_writes.exactly_once import Records, exactly_once
from conditional_writes.exactly_once.payload import field_hashes
from conditional_writes.exactly_once.record import free, is_over
from conditional_writes.upserts import REMOVED, MapEntry, NotAMap, erase, erasure, upsert
from conditional_writes.upserts.clocks import (
    Standing,
    clock,
    clocks_attribute,
    is_removal,
    just_after,
    map_mark,
    standing,
    time_text,
    winning,
)
from conditional_writes.upserts.edit import Edit
from conditional_writes.upserts.entries import MapPath, in_requests, in_requests_from_any_on
from conditional_writes.upserts.erasing import erase_up_to
from conditional_writes.upserts.errors import MAXIMUM_UPSERTED_BYTES
from conditional_writes.upserts.reshape import bytes_in_the_end
from conditional_writes.upserts.tidying import clock_bytes, removed_bytes, tidied
from ledger.core.journal import Outcome
from ledger.core.transaction_types.transaction import Transaction
from ledger.core.values import format_decimal, normalized, version
from tests.support.samples import ALICE, CLOSED
from tests.unit.stubs import Stubbed

NO_CLIENT: Any = None
RECORDS = Records(NO_CLIENT, "Records")
AS_OF, LATER = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (1, 2))


def nothing(order: Any, observed: Observed) -> Plan[None]:
    return Plan(None)


PAY = exactly_once(RECORDS, key=str, prefix="p")(nothing)
CONFIGURED = exactly_once(RECORDS, config=IdempotencyConfig("id", expires_after_seconds=1), prefix="p")(nothing)


HASHES = {
    "map": "ZDlBOgfeWfXLNzX0rPQalQ",
    "list": "pF4PMpptalJvGAl_xtPCVw",
    "set": "DzpPEevCXiIqTF4XXqR2pQ",
    "bytes": "8Ruom5JSqeupd0PGl8YnAA",
    "time": "Qc2UdYMxmRzd9_TIDyRJIQ",
}
"""Of the payload below. With others the records of today would refuse tomorrow's repetitions."""


def test_a_payload_has_the_hashes_that_records_have_already() -> None:
    payload = {
        "map": {"b": 1, 2: "a"},
        "list": [0, Decimal("-120.50"), 1e300],
        "set": {"a", 1},
        "bytes": b"a",
        "time": AS_OF,
    }
    assert field_hashes("pay#p-1", payload) == HASHES


def test_a_time_without_an_offset_is_its_text() -> None:
    time = datetime(2026, 7, 1, 12)  # noqa: DTZ001
    assert field_hashes("pay#p-1", {"at": time}) == field_hashes("pay#p-1", {"at": "2026-07-01T12:00:00"})


def test_a_name_of_255_characters_is_a_field_and_one_that_is_longer_makes_the_payload_a_whole() -> None:
    assert field_hashes("pay#p-1", {"n" * 255: 1}).keys() == {"n" * 255}
    assert field_hashes("pay#p-1", {"amount": 1, "n" * 256: 1}).keys() == {"payload"}


def test_a_payload_of_51_fields_is_hashed_as_a_whole() -> None:
    fields = dict.fromkeys(map(str, range(50)), 1)
    assert field_hashes("pay#p-1", fields).keys() == fields.keys()
    assert field_hashes("pay#p-1", fields | {"50": 1}).keys() == {"payload"}


def test_a_model_itself_is_no_payload() -> None:
    @dataclass
    class Payment:
        amount: int

    with pytest.raises(TypeError, match="payload: a type can't be told from another"):
        field_hashes("pay#p-1", Payment)


def test_a_record_lives_for_one_second_or_more_and_its_key_has_2048_bytes_or_fewer() -> None:
    pay = exactly_once(RECORDS, key=str, prefix="p", expires_after=timedelta(seconds=1))(nothing)
    pay._recording.begin("k" * 2046)
    with pytest.raises(ValueError, match="prefix and key have over 2048 bytes"):
        pay._recording.begin("k" * 2047)


@pytest.mark.parametrize(
    ("record", "over"),
    [
        ({}, False),
        ({"expiration": 1000}, False),
        ({"expiration": 999}, True),
        ({"status": "INPROGRESS"}, False),
        ({"status": "INPROGRESS", "in_progress_expiration": 1_000_500}, False),
        ({"status": "INPROGRESS", "in_progress_expiration": 1_000_499}, True),
        ({"status": "COMPLETED", "in_progress_expiration": 1_000_499}, False),
    ],
    ids=str,
)
def test_a_record_is_over_after_the_very_time_that_it_names(
    monkeypatch: pytest.MonkeyPatch, record: dict[str, Any], over: bool
) -> None:
    monkeypatch.setattr("conditional_writes.exactly_once.record.time.time", lambda: 1000.5)
    assert is_over(record) is over
    timed_out = equals("status", "INPROGRESS") & less_than("in_progress_expiration", 1_000_500)
    assert free() == any_of([absent("id"), less_than("expiration", 1000), timed_out])


def test_an_exactly_once_function_is_given_its_items_and_no_record(stubbed_dynamodb: Stubbed) -> None:
    seen: list[Observed] = []
    counter = key("Counters", counter_id="c-1")

    def look(order: Any, observed: Observed) -> Plan[None]:
        seen.append(observed)
        return Plan(None)

    stubbed_dynamodb.answers("batch_get_item", {"Responses": {}})
    stubbed_dynamodb.answers("put_item")
    exactly_once(Records(stubbed_dynamodb.client, "Records"), key=str, prefix="p", items=lambda _: [counter])(look)("k")
    assert seen == [{counter: None}]


@pytest.mark.parametrize("lacking", ["status", "result", "payload"])
def test_a_record_that_another_program_made_is_no_record(lacking: str) -> None:
    call = PAY._recording.begin("k")
    record = call.record_of(1).record
    assert call.recorded_in(record) == (1, record)
    with pytest.raises(ValueError, match="is no record of an exactly-once function"):
        call.recorded_in({name: value for name, value in record.items() if name != lacking})


def test_a_record_of_a_configuration_has_a_hash_only_if_the_payload_is_validated() -> None:
    record = CONFIGURED._recording.begin({"id": "k"}).record_of(1).record
    assert record.keys() == {"id", "status", "expiration", "data"}


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


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            MapEntry(("a", "b"), 1, datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))),
            "years 1 and 9999 in UTC",
        ),
        (MapEntry(("a", 1), 1, AS_OF), "expected the names of an attribute and of an entry"),  # type: ignore[arg-type]
    ],
)
def test_an_entry_that_no_item_can_hold_is_refused(entry: MapEntry, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        winning(key("Profiles", id="alice"), [entry])


def test_an_entry_without_a_clock_stands_by_the_shape_of_what_is_around_it() -> None:
    profile, inside = key("Profiles", id="alice"), MapEntry(("a", "m", "x"), 1)
    assert standing(profile, inside, {"a": {"m": {}}, clocks_attribute(("a",)): {"m": map_mark()}}) is Standing.FITS
    with pytest.raises(NotAMap, match="a string"):
        standing(profile, inside, {"a": {"m": "text"}})
    with pytest.raises(NotAMap, match="an entry"):
        winning(profile, [MapEntry(("a", "m"), 1), inside])


def test_what_is_tidied_has_no_removal_before_the_time_no_floor_before_it_and_no_map_that_is_left_empty() -> None:
    early, before, late = (time_text(AS_OF + timedelta(hours=hours)) for hours in (-1, 0, 1))
    value = f"{early} 5feceb66ffc86f38"
    of_a, of_m, of_n, of_b, of_c = map(clocks_attribute, (("a",), ("a", "m"), ("a", "n"), ("b",), ("c",)))
    stay = {"value": value, "late": late, "now": before, "o": map_mark(before)}
    found = {
        "a": {"value": 0, "m": {}, "n": {"x": 0}},
        of_a: {"gone": early, "m": map_mark(early), "n": map_mark(early)} | stay,
        of_m: {"gone": early},
        of_n: {"x": value},
        "b": {},
        of_b: {"gone": early},
        "c": {"of another program": 1},
        of_c: {"gone": early},
    }
    edit, forgotten_bytes, needed_bytes = tidied(found, before)
    assert edit.item == {
        "a": {"value": 0, "n": {"x": 0}},
        of_a: {"n": map_mark()} | stay,
        of_n: {"x": value},
        "c": {"of another program": 1},
        of_c: {},
    }
    assert forgotten_bytes == 4 * clock_bytes(["gone"]) + clock_bytes(["n"]) == 4 * 38 + 35
    assert needed_bytes == removed_bytes(edit) == clock_bytes(["late", "now", "o"])


def test_what_is_erased_are_the_earlier_entries_what_has_no_clock_and_clocks_that_nothing_leads_to() -> None:
    early, before, late = (time_text(AS_OF + timedelta(hours=hours)) for hours in (-1, 0, 1))
    of_a, of_m, of_n = map(clocks_attribute, (("a",), ("a", "m"), ("a", "n")))
    of_r, of_z, of_q = (clocks_attribute(("a", *names)) for names in ("mr", "nz", "mq"))
    stay = {of_r: {"x": late}, of_m: {"x": late, "r": map_mark()}, "id": "alice"}
    lost = {of_n: {"z": map_mark()}, of_z: {"x": late}, of_q: {"x": late}, clocks_attribute(("gone",)): {"x": early}}
    found = stay | {
        "a": {"early": 1, "late": 1, "unclocked": 1, "m": {"x": 1, "r": {"x": 1}}},
        of_a: {"early": early, "late": late, "m": map_mark()},
        "of another program": 1,
    }
    edit = Edit(found | lost)
    assert erase_up_to(edit, before, ["id"])
    assert edit.item == stay | {
        "a": {"late": 1, "m": {"x": 1, "r": {"x": 1}}},
        of_a: {"late": late, "m": map_mark()},
        ERASED_AS_OF: before,
    }


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
    assert update(lambda edit: edit.put(("a", "y"), "abc"), 7).added == {
        ITEM_BYTES: new - 2 - len(time_text(AS_OF)) - 17
    }
    assert update(lambda edit: edit.put(("a", "y"), "abc"), None).added == {}


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
    around = MapEntry(("map-1", "b"), 1)
    requests = [*in_requests([*entries(*(("a",),) * 111), MapEntry(("map-1", "b", "c", "d"), 1), around])]
    assert [len(request) for request in requests] == [111, 1, 1]


def test_an_erasure_takes_what_it_supersedes_along() -> None:
    late, same, unclocked = (
        MapEntry(("a", name), 1, as_of) for name, as_of in (("l", LATER), ("s", AS_OF), ("u", None))
    )
    assert in_requests_from_any_on([late, same, erasure(AS_OF), unclocked]) == [
        [erasure(AS_OF), same],
        [late, unclocked],
    ]
    assert in_requests_from_any_on([erasure(AS_OF), late]) == [[erasure(AS_OF)], [late]]
    assert in_requests_from_any_on([late]) == [[late]]


def test_the_clocks_of_a_map_are_in_an_attribute_with_its_path() -> None:
    assert clocks_attribute(("Größen", 'a"b')) == 'cw:as_of ["Größen", "a\\"b"]'


def test_a_mark_of_a_map_and_the_clock_of_a_value_are_no_removals() -> None:
    removal = clock(MapEntry(("map", "name"), REMOVED, AS_OF))
    value = clock(MapEntry(("map", "name"), 1, AS_OF))
    assert [is_removal(each) for each in (removal, value, map_mark(), map_mark(removal))] == [True, False, False, False]
    assert removal < just_after(removal) < value


def test_after_the_deadline_nothing_is_upserted_or_erased(stubbed_dynamodb: Stubbed) -> None:
    profile = key("Profiles", profile_id="p-1")
    with pytest.raises(DeadlinePassed):
        upsert(stubbed_dynamodb.client, profile, [MapEntry(("map", "name"), 1, AS_OF)], deadline=Deadline.after(-1))
    with pytest.raises(DeadlinePassed):
        erase(stubbed_dynamodb.client, profile, AS_OF, deadline=Deadline.after(-1))


def test_a_log_line_names_a_transaction_and_its_accounts() -> None:
    payment = Transaction(transaction_id="t-1", account_id="acc-1", amount=Decimal(1))
    assert payment.log_fields == {"transaction_id": "t-1", "account_ids": ("acc-1",)}


def test_a_closed_account_allows_nothing() -> None:
    assert (ALICE.available, CLOSED.available) == (150, 0)


@pytest.mark.parametrize("number", [True, -1, Decimal(-1), Decimal("1.5")])
def test_a_version_is_a_whole_number(number: Any) -> None:
    with pytest.raises(ValueError, match="version: expected a whole number"):
        version({"version": number}, "version")
    assert version({"version": Decimal(0)}, "version") == 0


def test_a_negative_zero_is_zero() -> None:
    assert (str(normalized(Decimal("-0.00"))), format_decimal(Decimal("-0.00"))) == ("0", "0")


def test_a_log_line_of_an_outcome_says_what_became_of_it() -> None:
    outcome = Outcome("POSTED", None, Decimal(1), Decimal(1), 7, "2026-01-01T00:00:00+00:00", "EUR")
    assert (outcome.label, replace(outcome, replayed=True).label) == ("posted", "replayed")
    assert outcome.log_fields == {"reason": None, "account_version": 7}
