"""Decoding of profile updates: valid bodies are read exactly, and each invalid one has its sentence."""

import functools
import json
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from conditional_writes import key
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.upserts import MapEntry, upsert
from ledger.core.decoding import MAXIMUM_BODY_BYTES
from ledger.core.profile_messages import EraseProfile, ProfileUpdate, decode
from ledger.core.reason_codes import InvalidMessage
from tests.support import refusals
from tests.support.numbers import exact_numbers
from tests.support.refusals import as_sent
from tests.support.samples import erasure_body, in_json, profile_body
from tests.support.strategies import JSON, nested, profile_updates

reason_of = functools.partial(refusals.reason_of, decode)

RANGE = "expected a number between 1E-130 and 9.9E+125"
FINITE = "expected a finite decimal number"
LEVELS = "nested too deep, expected at most 20 levels, and 31 with those of the path"
NAMES = "101 names with those in removed, expected at most 100"
ONE_NAME = "expected at least one name, there or in removed"
VALUES = "values, those inside of others too, expected at most 5,000"
TYPE = "expected erase_profile, or none for an update"
TIME = 'expected an ISO 8601 time with its offset, such as "2026-02-28T12:00:00Z"'
encoder = msgspec.json.Encoder(decimal_format="number")


def names(number: int) -> str:
    return in_json({f"entry {n}": n for n in range(number)})


def deep(levels: int) -> str:
    return '{"theme": ' + "[" * levels + "1" + "]" * levels + "}"


def path(length: int) -> str:
    return in_json([f"level {n}" for n in range(length)])


BODIES = {
    "an unknown type": (profile_body(type='"transfer"'), f"type: got 'transfer', {TYPE}"),
    "a type without text": (profile_body(type="null"), "type: expected `str`, got `null`"),
    "two types": ('{"type": "erase_profile", "type": "x", "account_id": "alice"}', f"type: got 'x', {TYPE}"),
    "an erasure with entries": (profile_body(type='"erase_profile"'), "body: object contains unknown field `path`"),
    "an erasure of nobody": (erasure_body(account_id=None), "body: object missing required field `account_id`"),
    "an array": ("[]", "body: expected `object`, got `array`"),
    "no account id": (profile_body(account_id=None), "body: object missing required field `account_id`"),
    "empty name in the path": (profile_body(path='["a", ""]'), "path[1]: expected `str` of length >= 1"),
    "over-long name in the path": (profile_body(path=in_json(["p" * 256])), "path[0]: expected `str` of length <= 255"),
    "number in the path": (profile_body(path="[1]"), "path[0]: expected `str`, got `int`"),
    "no entry, none removed": (profile_body(entries="{}", removed="[]"), f"entries: {ONE_NAME}"),
    "100 names and one removed": (profile_body(entries=names(100), removed='["x"]'), f"entries: {NAMES}"),
    "32 levels with the path": (profile_body(path=path(16), entries=deep(16)), f"entries.theme: {LEVELS}"),
    "empty name removed": (profile_body(removed='[""]'), "removed[0]: expected `str` of length >= 1"),
}


@pytest.mark.parametrize(("body", "reason"), BODIES.values(), ids=BODIES)
def test_a_refused_body_has_a_sentence_that_says_what_was_expected(body: str, reason: str) -> None:
    assert reason_of(body) == reason


FIELDS = [
    ("account_id", f'"{"a" * 129}"', "expected `str` of length <= 128"),
    ("path", "[]", "expected `array` of length >= 1"),
    ("path", path(17), "expected `array` of length <= 16"),
    ("entries", "null", "expected `object`, got `null`"),
    ("entries", names(101), NAMES),
    ("entries", in_json({"theme": [0] * 5_000}), f"5,001 {VALUES}"),
    ("entries", in_json({"theme": [{"x": [0]}] * 2_000}), f"6,001 {VALUES}"),
    ("removed", '["theme"]', "expected no name that is in entries, too, got 'theme'"),
    ("as_of", '"now"', TIME),
    ("as_of", '"2026-02-28T12:00:00"', TIME),
    ("as_of", '"0001-01-01T00:00:00+14:00"', "expected a time between the years 1 and 9999 in UTC"),
]


@pytest.mark.parametrize(("field", "value", "expected"), FIELDS)
def test_a_refusal_names_the_field_and_what_was_expected(field: str, value: str, expected: str) -> None:
    assert reason_of(profile_body(**{field: value})) == f"{field}: {expected}"


ENTRIES = [
    ('{"": 1}', "a name in entries: expected `str` of length >= 1"),
    (in_json({"e" * 256: 1}), "a name in entries: expected `str` of length <= 255"),
    ('{"theme": [{"dark": 1, "dark": 2}]}', "dark: expected it once"),
    (deep(21), f"entries.theme: {LEVELS}"),
    ('{"theme": {"dark": {"": 1}}}', "entries.theme.dark: a name of 0 characters, expected 1 to 255"),
    (in_json({"theme": [{"n" * 256: 1}]}), "entries.theme: a name of 256 characters, expected 1 to 255"),
    ('{"limit": NaN}', f"entries.limit: {FINITE}, got NaN"),
    ('{"limits": {"day": [1, -Infinity]}}', f"entries.limits.day: {FINITE}, got -Infinity"),
    (f'{{"n": {"1" * 39}}}', "entries.n: 39 digits, expected at most 38"),
    (f'{{"n": {{"m": -0.{"1" * 39}}}}}', "entries.n.m: 39 digits, expected at most 38"),
    (f'{{"n": {"1" * 5_000}}}', "entries[...]: expected a number of at most 38 digits"),
    ('{"n": 1e126}', f"entries.n: {RANGE}"),
    (f'{{"n": 1{"0" * 126}}}', f"entries.n: {RANGE}"),
    ('{"n": [1e-131]}', f"entries.n: {RANGE}"),
    ('{"n": 1e99999999999999999999}', f"entries.n: {RANGE}"),
]


@pytest.mark.parametrize(("entries", "reason"), ENTRIES)
def test_a_refusal_names_the_entry_whose_value_is_wrong(entries: str, reason: str) -> None:
    assert reason_of(profile_body(entries=entries)) == reason


@pytest.mark.parametrize(
    "name", ["account_id", "cw:write_id", "cw:version_id", "cw:item_bytes", "cw:as_of [", 'cw:as_of ["x"]']
)
def test_an_attribute_that_the_library_would_refuse_is_refused_at_the_door(name: str) -> None:
    expected = f"path: expected another first name than {name!r}, which the table needs for itself"
    assert reason_of(profile_body(path=in_json([name]))) == expected
    with pytest.raises(ValueError, match="part of the key, or the library's own"):
        upsert(None, key("Profiles", account_id="alice"), [MapEntry((name, "theme"), 1)])
    assert decode(profile_body(path=in_json(["preferences", name]))).path == ("preferences", name)


LONG = {f"{number:0>255}": 1 for number in range(450)}
HOSTILE = {
    "arrays 60,000 deep": profile_body(entries=deep(60_000)),
    "60,000 digits": profile_body(entries=f'{{"n": {"1" * 60_000}}}'),
    "60,000 decimal places": profile_body(entries=f'{{"n": 0.{"0" * 60_000}1}}'),
    "a huge exponent": profile_body(entries='{"n": 1e999999999}'),
    "a lone surrogate": profile_body(entries='{"n": "\ud800"}'),
    "30,000 numbers, the last of them too big": profile_body(entries=f'{{"n": [{"1, " * 30_000}1e126]}}'),
    "450 long names, and one that is too long": profile_body(entries=in_json({"n": LONG | {"n" * 256: 1}})),
    "5,000 NaN below a name of 60,000 letters": profile_body(
        entries=f'{{"{"x" * 60_000}": {{{", ".join(f'"{number}": NaN' for number in range(4_000))}}}}}'
    ),
    "an unknown field of 60,000 letters": profile_body(**{"x" * 60_000: "1"}),
    "a name of control characters, and 39 digits": profile_body(entries=f'{{"{"\\u0001" * 255}": {"1" * 39}}}'),
    "an attribute of the library's, of control characters": profile_body(path='["cw:as_of [\\u0000\\uffff"]'),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_what_is_hostile_is_refused_with_a_short_sentence(body: str) -> None:
    assert reason_of(body)


def test_the_deepest_and_the_longest_are_taken() -> None:
    assert decode(profile_body(entries=deep(20)))
    assert decode(profile_body(path=path(16), entries=deep(15)))
    assert decode(profile_body(entries=names(99), removed='["x"]')).log_fields["entries"] == 100
    assert decode(profile_body(entries=in_json({"theme": [[0] * 2_499, [0] * 2_498]})))
    assert decode(profile_body(path=in_json(["p" * 255] * 16), entries=in_json({"e" * 255: 1})))
    padding = " " * (MAXIMUM_BODY_BYTES - len(profile_body()))
    assert decode(profile_body() + padding)
    assert reason_of(profile_body() + padding + " ").startswith("body: 131,073 bytes")


READ_EXACTLY = {
    "-0": "0",
    "100": "1E+2",
    "0.1000000000000000055511151231257827021": "0.1000000000000000055511151231257827021",
    "18446744073709551616": "18446744073709551616",  # 2 to the power of 64.
    "1" + "0" * 60: "1E+60",
    "1." + "0" * 60: "1",
    "0e999999999": "0",
}


@pytest.mark.parametrize(("spelling", "read"), READ_EXACTLY.items())
def test_a_number_is_read_exactly_wherever_it_is(spelling: str, read: str) -> None:
    update = decode(profile_body(entries=f'{{"n": {spelling}, "m": {{"inside": [true, {spelling}]}}}}'))
    assert update.entries == {"n": Decimal(read), "m": {"inside": [True, Decimal(read)]}}
    assert str(update.entries["n"]) == read
    assert type(update.entries["m"]["inside"][0]) is bool


@given(exact_numbers())
@example(Decimal("1E+38"))
def test_any_number_that_is_accepted_can_be_written(number: Decimal) -> None:
    for spelling in (f"{number}", f"{number:f}"):
        entries = decode(profile_body(entries=f'{{"n": {spelling}}}')).entries
        assert from_dynamodb(to_dynamodb(entries)) == {"n": number}


@given(profile_updates())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
def test_any_valid_message_is_read_as_it_was_meant(update: ProfileUpdate) -> None:
    assert decode(encoder.encode(update).decode()) == update
    assert from_dynamodb(to_dynamodb(update.entries)) == update.entries
    assert not update.entries.keys() & set(update.removed)
    assert update.log_fields["entries"] == len(update.entries) + len(update.removed)


def test_an_erasure_names_a_profile_and_maybe_a_time() -> None:
    assert decode(erasure_body()) == EraseProfile(account_id="alice")
    message = decode(erasure_body(as_of='"2026-03-01T13:00:00+01:00"'))
    assert message == EraseProfile(account_id="alice", as_of=datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert message.log_fields == {"account_id": "alice"}
    assert decode(erasure_body(as_of="null")).as_of is None


values = nested(JSON | st.sampled_from(["alice", "cw:as_of ", ""]))
fields = st.sampled_from(["type", "account_id", "path", "entries", "removed", "as_of"])
bodies = (
    st.text()
    | st.text(st.characters())  # Lone surrogates, too.
    | values.map(json.dumps)
    | st.dictionaries(fields | st.text(), values).map(lambda more: json.dumps(json.loads(profile_body()) | more))
    | st.dictionaries(fields, values).map(lambda more: json.dumps(json.loads(erasure_body()) | more))
    | st.builds(lambda entries: profile_body(entries=json.dumps(entries)), st.dictionaries(st.text(), values))
    | st.builds(lambda cut: profile_body()[:cut], st.integers(0, 80))
)


@given(bodies)
def test_whatever_the_body_it_is_a_message_or_refused_with_a_sentence(body: str) -> None:
    try:
        update = decode(body)
    except InvalidMessage as invalid:
        as_sent(invalid)
    else:
        assert decode(encoder.encode(update).decode()) == update
        if isinstance(update, ProfileUpdate):
            to_dynamodb(update.entries)
