"""Exactly-once functions without a server: keys, payloads and what a function may be."""

import enum
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
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

from conditional_writes import Observed, Plan, Put, write
from conditional_writes.core.items import same
from conditional_writes.exactly_once import Records, exactly_once
from conditional_writes.exactly_once.payload import different, field_hashes
from tests.support.clock import plenty
from tests.support.strategies import nested
from tests.unit.stubs import Stubbed

NO_CLIENT: Any = None
RECORDS = Records(NO_CLIENT, "Records")
TEN = timezone(timedelta(hours=10))
FIFTY = {"a" * 255: 0} | {f"field_{number}": number for number in range(1, 50)}
MANY = FIFTY | {"field_50": 50}
UNNAMED = ["text", 7, ["a"], {1: "a"}, {"": "a"}, {"\ud800": 1, "a": 1}, {"a" * 256: 1}, MANY, None, date(2026, 1, 1)]


class Colour(enum.Enum):
    RED = "red"


class Day(enum.Enum):
    NEW_YEAR = date(2026, 1, 1)


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
        (datetime(1, 1, 1, tzinfo=TEN), "0001-01-01T00:00:00+10:00"),
        (Colour.RED, "red"),
        (Day.NEW_YEAR, "2026-01-01"),
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


SCALARS = (
    st.none() | st.booleans() | st.integers(-99, 99) | st.decimals(-9, 9, places=1) | st.text("a1\ud800", max_size=2)
)
VALUES = nested(SCALARS, st.text("ab", max_size=1), 3, max_leaves=5)


@given(VALUES, VALUES)
def test_two_values_have_one_hash_if_they_are_the_same_in_dynamodb_and_only_then(one: Any, other: Any) -> None:
    assert (hashes({"a": one}) == hashes({"a": other})) == same(one, other)


def test_a_hash_is_the_same_in_each_process() -> None:
    """Sets and dicts of texts have another order in each process."""
    shown = "field_hashes('r', {'a': {*'abcdef'}, 'b': b'1'})"
    code = f"from conditional_writes.exactly_once.payload import *; print({shown})"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == str(eval(shown)) + "\n"


@pytest.mark.parametrize(
    "payload",
    [Payment(1, "a"), Struct(1, "a"), Model.model_validate({"amount": 1, "note": "a"}), {"amount": 1, "note": "a"}],
)
def test_the_fields_of_a_model_are_those_of_its_dict(payload: Any) -> None:
    assert different(hashes(payload), hashes({"amount": 2, "text": "a"})) == ("amount", "note", "text")


@pytest.mark.parametrize("payload", UNNAMED)
def test_a_payload_without_fields_or_names_that_a_record_can_hold_has_one_hash(payload: Any) -> None:
    assert hashes(payload).keys() == {"payload"}
    assert different(hashes(payload), hashes("other")) == ("payload",)
    assert hashes(FIFTY).keys() == FIFTY.keys()


def test_what_has_no_canonical_form_is_named() -> None:
    with pytest.raises(TypeError, match=r"rows\[1\]\.file: a \w*Path can't be told .* return plain values"):
        hashes({"rows": [{}, {"file": Path("a")}]})


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


def test_a_function_without_a_name_needs_a_prefix() -> None:
    nameless: Any = partial(pay)
    for unnamed in (nameless, lambda payment, observed: Plan("paid")):
        with pytest.raises(TypeError, match=r"<.*others may have this name, .* give it a `prefix`"):
            exactly_once(RECORDS, key=str)(unnamed)
    assert exactly_once(RECORDS, key=str, prefix="pay")(nameless).plan is nameless


def key_of(once: Any, request: Any) -> str:
    return str(once._recording.begin(request).record_id)


def test_in_lambda_a_key_begins_with_the_lambda_functions_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert key_of(exactly_once(RECORDS, key=str)(pay), "p-1") == f"{__name__}.pay#p-1"
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "billing")
    assert key_of(exactly_once(RECORDS, key=str)(pay), "p-1") == f"billing.{__name__}.pay#p-1"
    assert key_of(exactly_once(RECORDS, key=str, prefix="pay")(pay), "p-1") == "pay#p-1"


SPAWNING = """
import multiprocessing
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from conditional_writes import Plan
from conditional_writes.exactly_once import Records, exactly_once

def pay(payment, observed):
    return Plan("paid")

RECORDS = Records(None, "Records")
PAYS = exactly_once(RECORDS, key=str)(pay), exactly_once(RECORDS, config=IdempotencyConfig(event_key_jmespath="@"))(pay)

def keys():
    return [each._recording.begin("p-1").record_id for each in PAYS]

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(keys() == pool.apply(keys), *keys())
"""


def test_a_spawned_process_has_the_keys_of_the_module_that_is_run(tmp_path: Path) -> None:
    """multiprocessing names that module otherwise there: a repetition would have been done a second time."""
    (tmp_path / "script.py").write_text(SPAWNING)
    said = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("True __main__.pay#p-1 test-func.__main__.pay#")


CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: once()(lambda self, payment, observed: Plan("paid")), "^pay: .* argument.*: expected a function of a"),
    (lambda: once()(lambda payment: Plan("paid")), "^pay: .*: expected a function of a request and its items"),
    (lambda: once(items=lambda _: RECORDS.key("a"))(pay)({}), "`items` returned one key, expected a list: put Reco"),
    (lambda: once(items=lambda _: ["a"])(pay)({}), "pay: `items` returned 'a' among its keys: make each with `key`"),
    (lambda: once(items=lambda _: None)(pay)({}), "pay: `items` returned None, expected a list of keys"),
    (lambda: once(items=[]), r"items: \[\], expected a function of the request"),
    (lambda: once(key="payment_id"), "key: 'payment_id', expected a function of the request"),
    (lambda: once(payload="amount"), "payload: 'amount', expected a function of the request"),
    (lambda: exactly_once("Records", key=str), r"'Records', expected Records\(client, table\)"),
    (lambda: once(expires_after=timedelta(0))(pay), "expires_after: 0:00:00, expected a timedelta of a second or more"),
    (lambda: once(expires_after=30)(pay), "expires_after: 30, expected a timedelta of a second or more"),
    (lambda: exactly_once(RECORDS, config=configured(0))(pay), "expires_after_seconds: 0, expected 1 or more"),
    (lambda: exactly_once(RECORDS, key=str, prefix="a#b")(pay), "'a#b' has a #"),
]


def once(**options: Any) -> Any:
    return exactly_once(RECORDS, **{"key": str, "prefix": "pay"} | options)


def configured(seconds: int) -> IdempotencyConfig:
    return IdempotencyConfig(event_key_jmespath="a", expires_after_seconds=seconds)


@pytest.mark.parametrize(("call", "sentence"), CALLS)
def test_what_cannot_be_meant_is_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()


@exactly_once(RECORDS, key=str)
def refund(payment: Payment, observed: Observed) -> Plan[str]:
    return Plan("refunded")


def test_a_function_is_shown_called_and_sent_to_another_process_as_one() -> None:
    decorated = exactly_once(RECORDS, key=str)(refund.plan)
    assert decorated.__name__ == "refund"
    request, deadline = inspect.signature(decorated).parameters.values()
    assert (request.name, request.annotation) == ("request", Payment)
    assert (deadline.name, deadline.kind, deadline.default) == ("deadline", inspect.Parameter.KEYWORD_ONLY, None)
    assert repr(decorated) == f"<exactly once: {__name__}.refund>"
    assert pickle.loads(pickle.dumps(refund)) is refund


def test_either_a_key_or_a_configuration_is_needed() -> None:
    undecided: Any = exactly_once
    config = configured(1)
    exactly_once(RECORDS, config=config)(pay)
    for arguments in ({}, {"key": str, "config": config}):
        with pytest.raises(TypeError, match="expected a `key`, or Powertools' `config`: one of the two"):
            undecided(RECORDS, **arguments)
    for arguments in ({"payload": str}, {"expires_after": timedelta(1)}):
        with pytest.raises(TypeError, match="leave these two out"):
            undecided(RECORDS, config=config, **arguments)


@pytest.mark.parametrize("model", [Payment(5), Struct(5), Model(amount=5)], ids=repr)
def test_a_model_is_no_result(model: Any) -> None:
    with Stubbed("dynamodb") as stubbed:

        @exactly_once(Records(stubbed.client, "Records"), key=str, prefix="pay")
        def pay(payment: str, observed: Observed) -> Plan[Any]:
            return Plan(model)

        with pytest.raises(TypeError, match=r"id='pay#p-1': the result is \w+\(.*\): return plain values"):
            pay("p-1")
    assert stubbed.operations == []


@pytest.mark.parametrize(
    ("writes", "why"),
    [
        (Put(RECORDS.key("a"), {}), r"a plan's writes are Put\(.*, expected a list of writes"),
        (None, "a plan's writes are None, expected a list of writes"),
        (iter([]), "a plan's writes are <list_iterator.*, expected a list of writes"),
        ([{}], "a plan's writes have {}, expected Put, Update, Delete or Check"),
    ],
)
def test_what_is_no_list_of_writes_is_named(writes: Any, why: str) -> None:
    planned: Plan[str] = Plan("paid", writes)
    with pytest.raises(TypeError, match=f"^pay: {why}"):
        exactly_once(RECORDS, key=str, prefix="pay")(lambda payment, observed: planned)._planned({}, {})
    with pytest.raises(TypeError, match=f"^{why}"):
        write(NO_CLIENT, lambda _: planned, {}, plenty())


def test_a_function_that_returns_no_plan_is_named() -> None:
    async def pay_later(payment: Any, observed: Observed) -> Plan[str]:
        return Plan("paid")

    def forget(payment: Any, observed: Observed) -> Any:
        return None

    later: Any = pay_later
    with pytest.raises(TypeError, match=r"pay_later: is a coroutine function"):
        exactly_once(RECORDS, key=str, prefix="pay_later")(later)
    with pytest.raises(TypeError, match=r"forget: returned None, expected a Plan"):
        exactly_once(RECORDS, key=str, prefix="forget")(forget)._planned("p-1", {})
