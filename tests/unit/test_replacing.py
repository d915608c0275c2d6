"""The diff of two states of an item, and its write. Both are pure, so they are checked on generated items."""

import pickle
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import Conflict, Item, NoSuchItem, OutcomeUnknown, Put, Update, key, replacing
from conditional_writes.core.items import copied, diff, same
from conditional_writes.upserts import ItemTooLarge, NotAMap, NotAnEntry
from tests.support.strategies import nested

ORDER = key("Orders", order_id="o-1")

names = st.sampled_from(["a", "b", "c", "status"])
numbers = st.integers(-2, 2) | st.decimals(-2, 2, places=1)
leaves = st.none() | st.booleans() | numbers | st.text("ab", max_size=2) | st.sets(st.integers(0, 3), min_size=1)
values = nested(leaves, names, 3, max_leaves=6)
items = st.dictionaries(names, values, max_size=4)


def in_dynamodb(value: Any) -> Any:
    """The value as DynamoDB stores it: sets without order, numbers without trailing zeros."""
    match value:
        case bool() | None:
            return repr(value)
        case int() | Decimal():
            return Decimal(value).normalize() + 0
        case dict():
            return {name: in_dynamodb(element) for name, element in value.items()}
        case list():
            return [in_dynamodb(element) for element in value]
        case set():
            return {in_dynamodb(element) for element in value}
    return value


@given(items, items)
def test_the_difference_makes_the_one_of_the_other(before: Item, after: Item) -> None:
    values, removed = diff(before, after, ignored=[])
    made = {name: value for name, value in (before | values).items() if name not in removed}
    assert in_dynamodb(made) == in_dynamodb(after)


@given(values, values)
def test_same_is_what_dynamodb_would_hold(one: Any, other: Any) -> None:
    assert same(one, other) == (in_dynamodb(one) == in_dynamodb(other))


@pytest.mark.parametrize(
    ("one", "other"), [(True, 1), (0, False), (None, False), ([True], [1]), ({"a": 1}, {"a": True})]
)
def test_a_truth_value_is_no_number(one: Any, other: Any) -> None:
    assert not same(one, other)


def test_what_is_deep_in_tuples_bytearrays_and_other_mappings_is_compared_and_copied() -> None:
    value = {"t": (1, [2]), "b": bytearray(b"x"), "m": MappingProxyType({"l": [3]})}
    copy_of_it = copied(value)
    assert same(copy_of_it, value)
    value["t"][1].append(4)
    value["b"].append(5)
    assert not same(copy_of_it["t"], value["t"])
    assert not same(copy_of_it["b"], value["b"])
    assert not same((True, 2), (1, 2))


@pytest.mark.parametrize(
    "error",
    [
        Conflict(Put(ORDER, {"a": 1}), {"a": 2, "version": 3}),
        OutcomeUnknown(ORDER, {"a": 2}, "others have written since"),
        NotAMap(ORDER, ("a", "b"), "a string", {"a": {"b": "x"}}),
        NotAnEntry(ORDER, ("a", "b"), None),
        ItemTooLarge(ORDER, 400_001),
        NoSuchItem(ORDER),
    ],
)
def test_an_error_can_be_handed_to_another_process(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_what_is_no_later_version_is_refused_as_what_was_changed_in_place_is() -> None:
    item = {"order_id": "o-1", "pieces": 4, "version": 7}
    in_place = item
    in_place["pieces"] = 3
    for before, after in ((item, in_place), (item, item | {"pieces": 2}), (item, item | {"version": 6})):
        with pytest.raises(ValueError, match=r"version is \d after 7, expected a later one"):
            replacing(ORDER, before, after)


def test_the_librarys_own_attributes_stay_whatever_the_items_say() -> None:
    own = {"cw:version_id": "v", "cw:write_id": "w", "cw:item_bytes": 40, 'cw:as_of ["preferences"]': {"theme": "2026"}}
    made = replacing(ORDER, {"version": 1} | own, {"version": 2, "cw:item_bytes": 7})
    assert isinstance(made, Update)
    assert (made.values, made.removed) == ({"version": 2}, [])


def test_anothers_version_id_is_not_taken_for_the_librarys() -> None:
    with pytest.raises(ValueError, match="has a cw:version_id and no version, so it is another's, and would be"):
        replacing(ORDER, {"order_id": "o-1", "cw:version_id": "of S3's"}, {"version": 1})
