"""Writes as DynamoDB requests: no name or value of the caller's becomes part of an expression."""

import re
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import Put, Update, absent, key, version_is
from conditional_writes.core.items import from_dynamodb
from conditional_writes.core.requests import as_request
from tests.support.strategies import nested

ORDER = key("Orders", order_id="o-1")
RESERVED = "status"
HOSTILE = [RESERVED, "a.b", "a-b", "x[0]", "{}", "[]", "#0", ":0", "= :0 OR attribute_exists(order_id)"]


def test_an_addition_that_makes_a_version_leaves_its_id() -> None:
    request = as_request(Update(ORDER, {}, added={"version": 1}, makes_version=True), "write-1")
    assert request["ExpressionAttributeNames"] == {"#0": "cw:version_id", "#1": "version"}
    assert request["ConditionExpression"] == "attribute_not_exists(#0) OR #0 <> :0"


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("write", [Put, Update])
def test_a_name_or_value_is_never_part_of_an_expression(write: type[Put | Update], text: str) -> None:
    condition = absent(text) & version_is(text, text)
    request = as_request(write(ORDER, {text: text}, condition), "write-1")
    assert request["ConditionExpression"] == "(attribute_not_exists(#0)) AND (#0 = :0)"
    assert request.get("UpdateExpression", "SET #0=:1,#1=:2") == "SET #0=:1,#1=:2"
    assert text in request["ExpressionAttributeNames"].values()
    assert {"S": text} in request["ExpressionAttributeValues"].values()


UNHOLDABLE = {
    "in a list in a map": ({"lines": [{"price": 0.5}]}, TypeError, "a.lines[0].price: 0.5 is a float"),
    "in a set": ({1.5}, TypeError, "a[0]: 1.5 is a float"),
    "infinite": (float("inf"), TypeError, "DynamoDB has no such number"),
    "a decimal NaN": (Decimal("NaN"), TypeError, "a: NaN: DynamoDB has no such number"),
    "39 digits": (Decimal(39 * "9"), ValueError, "a: 999999999999999999999999999999999999999 can't be held exactly"),
    "an infinity": (Decimal("-Infinity"), TypeError, "a: -Infinity: DynamoDB has no such number"),
    "too small": (Decimal("1E-131"), ValueError, "at most 38 digits, and are between 1E-130 and 9.9E+125"),
    "an empty set": ({"b": set()}, TypeError, "a.b: an empty set, which DynamoDB has no type for"),
    "too large": (Decimal("1E+126"), ValueError, "at most 38 digits, and are between 1E-130 and 9.9E+125"),
    "a map with a number for a name": ({"b": {42: 1}}, TypeError, "a.b: 42 is no text, as the names in an item and"),
    "a map with two names that are one text": ({42: 1, "42": 2}, TypeError, "a: 42 is no text, as the names in"),
    "of no type of DynamoDB's": ([date(2026, 2, 28)], TypeError, "a[0]: Unsupported type"),
}


@pytest.mark.parametrize(("value", "error", "sentence"), UNHOLDABLE.values(), ids=UNHOLDABLE)
def test_what_dynamodb_cannot_hold_is_refused_and_named(value: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=re.escape(sentence)):
        as_request(Put(ORDER, {"a": value}), "write-1")


def test_more_changes_than_an_expression_has_room_for_are_refused_with_a_sentence() -> None:
    as_request(Update(ORDER, {f"a-{number}": number for number in range(380)}), "write-1")
    with pytest.raises(ValueError, match="501 changes at once: DynamoDB's expressions have room for some 400"):
        as_request(Update(ORDER, {f"a-{number}": number for number in range(500)}), "write-1")


attribute_names = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda name: name != "cw:write_id")
scalars = st.none() | st.booleans() | st.text(st.characters(codec="utf-8")) | st.decimals(-1000, 1000, places=3)
attributes = nested(scalars, attribute_names, max_leaves=5)


@given(st.dictionaries(attribute_names, attributes), st.integers(0, 10**38 - 1))
def test_an_update_sets_just_what_it_was_told(values: dict[str, Any], version: int) -> None:
    request = as_request(Update(ORDER, values, version_is(version)), "write-1")
    names, sent = request["ExpressionAttributeNames"], from_dynamodb(request["ExpressionAttributeValues"])
    assignments = re.findall(r"(#\d+)=(:\d+)", request["UpdateExpression"])
    assert {names[name]: sent[value] for name, value in assignments} == values | {"cw:write_id": "write-1"}
    assert sent[":0"] == Decimal(version)
