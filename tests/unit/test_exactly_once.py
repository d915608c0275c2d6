"""Exactly-once functions without a server: keys, payloads and what a function may be."""

import enum
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import Observed, Plan
from conditional_writes.exactly_once import PayloadChanged, Records, exactly_once
from conditional_writes.exactly_once.payload import different, field_hashes
from conditional_writes.items import same

NO_CLIENT: Any = None
RECORDS = Records(NO_CLIENT, "Records")
TEN = timezone(timedelta(hours=10))


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Payment:
    amount: int
    note: str = ""


class Struct(msgspec.Struct):
    amount: int
    note: str = ""


class Model(pydantic.BaseModel, extra="allow"):
    amount: int


def hashes(payload: Any) -> dict[str, str]:
    return field_hashes("pay#p-1", payload)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, Decimal("1.00")),
        (100, Decimal("1E+2")),
        (0, Decimal("-0.0")),
        (0.1, Decimal("0.1")),
        ([1, "a"], (1, "a")),
        (b"\x00", bytearray(b"\x00")),
        ({"b", "a"}, frozenset({"a", "b"})),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        (datetime(2026, 1, 1, 10, tzinfo=TEN), datetime(2026, 1, 1, tzinfo=UTC)),
        (Colour.RED, "red"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(12, 30), "12:30:00"),
        ({"deep": Payment(1, "a")}, {"deep": {"amount": 1, "note": "a"}}),
        ({"deep": Struct(1, "a")}, {"deep": {"amount": 1, "note": "a"}}),
        ({"deep": Model.model_validate({"amount": 1, "note": "a"})}, {"deep": {"amount": 1, "note": "a"}}),
    ],
)
def test_the_same_values_have_one_hash(one: Any, other: Any) -> None:
    assert hashes({"a": one}) == hashes({"a": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, "1"),
        (0, None),
        (0, False),
        ("", None),
        (b"a", "a"),
        (["a"], "a"),
        (["a"], {"a"}),
        ([], {}),
        ({"a": {"b": 1}}, {"a.b": 1}),
        (["number", "1E0"], 1),
        ([["a"], "b"], ["a", ["b"]]),
        (Decimal(12345678901234567890123456789012345678901), Decimal(12345678901234567890123456789012345678902)),
        (float("inf"), float("-inf")),
        ("é", "e\u0301"),
        ({1: "a"}, {"1": "a"}),
    ],
)
def test_different_values_have_different_hashes(one: Any, other: Any) -> None:
    assert hashes({"a": one}) != hashes({"a": other})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.decimals(-9, 9, places=1) | st.text("a1\ud800", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=3),
    max_leaves=5,
)


@given(VALUES, VALUES)
def test_two_values_have_one_hash_if_they_are_the_same_in_dynamodb_and_only_then(one: Any, other: Any) -> None:
    assert (hashes({"a": one}) == hashes({"a": other})) == same(one, other)


def test_a_hash_is_the_same_in_each_process() -> None:
    """Sets and dicts of texts have another order in each process."""
    code = (
        "from conditional_writes.exactly_once.payload import *; print(field_hashes('r', {'a': {*'abcdef'}, 'b': b'1'}))"
    )
    printed = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in "12"
    }
    assert printed == {str(field_hashes("r", {"a": {*"abcdef"}, "b": b"1"})) + "\n"}


def test_equal_values_of_two_requests_or_fields_have_different_hashes() -> None:
    assert field_hashes("pay#p-1", {"amount": 1}) != field_hashes("pay#p-2", {"amount": 1})
    assert len(set(hashes({"a": 1, "b": 1}).values())) == 2


@pytest.mark.parametrize(
    "payload",
    [Payment(1, "a"), Struct(1, "a"), Model.model_validate({"amount": 1, "note": "a"}), {"amount": 1, "note": "a"}],
)
def test_the_fields_of_a_model_are_those_of_its_dict(payload: Any) -> None:
    assert different(hashes(payload), hashes({"amount": 2, "text": "a"})) == ("amount", "note", "text")


@pytest.mark.parametrize("payload", ["text", 7, ["a"], {1: "a"}, {"": "a"}, None, date(2026, 1, 1)])
def test_a_payload_without_named_fields_has_one_hash(payload: Any) -> None:
    assert hashes(payload).keys() == {"payload"}
    assert different(hashes(payload), hashes("other")) == ("payload",)


def test_what_has_no_canonical_form_is_named() -> None:
    with pytest.raises(TypeError, match=r"rows\[1\]\.file: a \w*Path can't be told .* return plain values"):
        hashes({"rows": [{}, {"file": Path("a")}]})


def test_a_changed_payload_is_a_sentence() -> None:
    error = PayloadChanged(RECORDS.key("pay#p-1"), ("amount", "note"))
    assert str(error) == "Records id='pay#p-1': was used before, with another amount, note"


def pay(payment: dict[str, Any], observed: Observed) -> Plan[str]:
    """Pays."""
    return Plan("paid")


@pytest.mark.parametrize(
    ("key", "error", "sentence"),
    [
        (7, TypeError, r"the key is 7, expected a text: use str\(\)"),
        (None, TypeError, "the key is None"),
        (("a", "b"), TypeError, r"the key is \('a', 'b'\), expected a text: .* join several by a #"),
        ("", ValueError, "the key is empty"),
        ("é" * 1024, ValueError, "over 2048 bytes: hash the key"),
    ],
)
def test_a_key_that_cannot_be_one_is_refused(key: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        exactly_once(RECORDS, key=lambda payment: key)(pay)({})


def test_a_prefix_ends_at_the_first_number_sign_so_no_two_functions_have_one_key() -> None:
    with pytest.raises(ValueError, match="'a#b' has a #"):
        exactly_once(RECORDS, key=str, prefix="a#b")(pay)


def test_a_function_without_a_name_needs_a_prefix() -> None:
    nameless: Any = partial(pay)
    with pytest.raises(TypeError, match="has no name, which begins its keys: give it a `prefix`"):
        exactly_once(RECORDS, key=str)(nameless)
    assert exactly_once(RECORDS, key=str, prefix="pay")(nameless).plan is nameless


def test_the_decorated_function_keeps_its_name_and_documentation() -> None:
    once = exactly_once(RECORDS, key=str)(pay)
    assert (once.__name__, once.__doc__, once.plan) == ("pay", "Pays.", pay)  # type: ignore[attr-defined]


def test_either_a_key_or_a_configuration_is_needed() -> None:
    undecided: Any = exactly_once
    config = IdempotencyConfig(event_key_jmespath="a")
    for arguments in ({}, {"key": str, "config": config}):
        with pytest.raises(TypeError, match="expected a `key`, or Powertools' `config`: one of the two"):
            undecided(RECORDS, **arguments)
    for arguments in ({"payload": str}, {"expires_after": timedelta(1)}):
        with pytest.raises(TypeError, match="leave these two out"):
            undecided(RECORDS, config=config, **arguments)


def test_a_record_lives_for_a_second_or_more() -> None:
    with pytest.raises(ValueError, match="expires_after: 0:00:00"):
        exactly_once(RECORDS, key=str, expires_after=timedelta(0))(pay)


def test_a_function_that_returns_no_plan_is_named() -> None:
    async def pay_later(payment: Any, observed: Observed) -> Plan[str]:
        return Plan("paid")

    def forget(payment: Any, observed: Observed) -> Any:
        return None

    later: Any = pay_later
    with pytest.raises(TypeError, match=r"pay_later: is a coroutine function"):
        exactly_once(RECORDS, key=str)(later)
    with pytest.raises(TypeError, match=r"forget: returned None, expected a Plan"):
        exactly_once(RECORDS, key=str)(forget)._planned("p-1", {})
