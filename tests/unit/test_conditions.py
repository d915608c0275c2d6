"""Conditions: the expression for DynamoDB has the meaning of Python's operators."""

from typing import Any

import pytest

from conditional_writes import (
    Condition,
    Put,
    absent,
    at_least,
    at_most,
    begins_with,
    between,
    contains,
    equals,
    exists,
    key,
    less_than,
    more_than,
    version_is,
)
from conditional_writes.core.items import from_dynamodb
from conditional_writes.core.requests import all_of, any_of, as_request, is_map


def rendered(condition: Condition) -> tuple[str, dict[str, str], dict[str, Any]]:
    """The condition's expression for DynamoDB, its names and its values."""
    request = as_request(Put(key("Orders", order_id="o-1"), {}, condition), "write-1")
    values = from_dynamodb(request.get("ExpressionAttributeValues", {}))
    return request["ConditionExpression"], request["ExpressionAttributeNames"], values


NEW, SAME, THREE = absent("order_id"), version_is(3), {":0": 3}

RENDERED = {
    "absent": (NEW, "attribute_not_exists(#0)", {"#0": "order_id"}, {}),
    "version_is": (SAME, "#0 = :0", {"#0": "version"}, {":0": 3}),
    "version_is by another name": (version_is(3, "revision"), "#0 = :0", {"#0": "revision"}, {":0": 3}),
    "exists": (exists("a"), "attribute_exists(#0)", {"#0": "a"}, {}),
    "equals": (equals("a", "x"), "#0 = :0", {"#0": "a"}, {":0": "x"}),
    "less than": (less_than("a", 3), "#0 < :0", {"#0": "a"}, {":0": 3}),
    "at most": (at_most("a", 3), "#0 <= :0", {"#0": "a"}, {":0": 3}),
    "more than": (more_than("a", 3), "#0 > :0", {"#0": "a"}, {":0": 3}),
    "at least": (at_least("a", 3), "#0 >= :0", {"#0": "a"}, {":0": 3}),
    "between": (
        between("a", 3, 5) & SAME,
        "(#0 BETWEEN :0 AND :1) AND (#1 = :2)",
        {"#0": "a", "#1": "version"},
        {":0": 3, ":1": 5, ":2": 3},
    ),
    "begins with": (begins_with("a", "x"), "begins_with(#0, :0)", {"#0": "a"}, {":0": "x"}),
    "contains": (contains("a", "x"), "contains(#0, :0)", {"#0": "a"}, {":0": "x"}),
    "of a path": (equals(("a", "b.c"), 3), "#0.#1 = :0", {"#0": "a", "#1": "b.c"}, {":0": 3}),
    "a map": (is_map("a"), "attribute_type(#0, :0)", {"#0": "a"}, {":0": "M"}),
    "all of one": (all_of([SAME]), "#0 = :0", {"#0": "version"}, {":0": 3}),
    "all": (
        all_of([SAME, exists("a"), ~absent("b")]),
        "(#0 = :0) AND (attribute_exists(#1)) AND (NOT (attribute_not_exists(#2)))",
        {"#0": "version", "#1": "a", "#2": "b"},
        {":0": 3},
    ),
    "any": (any_of([SAME, exists("a")]), "(#0 = :0) OR (attribute_exists(#1))", {"#0": "version", "#1": "a"}, THREE),
    "spelled out": (Condition("size({}) < []", ("a",), (3,)), "size(#0) < :0", {"#0": "a"}, {":0": 3}),
    "and": (NEW & SAME, "(attribute_not_exists(#0)) AND (#1 = :0)", {"#0": "order_id", "#1": "version"}, {":0": 3}),
    "or": (SAME | NEW, "(#0 = :0) OR (attribute_not_exists(#1))", {"#0": "version", "#1": "order_id"}, {":0": 3}),
    "not": (~SAME, "NOT (#0 = :0)", {"#0": "version"}, {":0": 3}),
    "two values": (SAME | version_is(4), "(#0 = :0) OR (#0 = :1)", {"#0": "version"}, {":0": 3, ":1": 4}),
}


@pytest.mark.parametrize(("condition", "expression", "names", "values"), RENDERED.values(), ids=RENDERED)
def test_names_and_values_are_numbered(
    condition: Condition, expression: str, names: dict[str, str], values: dict[str, Any]
) -> None:
    assert rendered(condition) == (expression, names, values)


def test_a_condition_has_no_truth_value_in_python() -> None:
    uses = (lambda: NEW and SAME), (lambda: NEW or SAME), (lambda: not NEW), (lambda: 1 if NEW & SAME else 2)
    for use in uses:
        with pytest.raises(TypeError, match="checked by DynamoDB, not by Python"):
            use()
