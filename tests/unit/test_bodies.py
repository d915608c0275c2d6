"""Answering to reads: read without botocore, with the same result."""

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import Deadline, Item, key
from conditional_writes.core import steps, unconditional
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.core.unconditional import read_once, read_one
from conditional_writes.versioned import Pages, queries
from tests.unit.stubs import Answering
from tests.unit.test_handed_back import items

ORDER = key("Orders", order_id="o-1")
LEFT, FLIGHT = key("Orders", order_id="o-2"), key("Flights", flight_id="TL1")
SOME = {"note": "x", "lines": [{"S": "tea", "n": Decimal(3)}, []], "tags": {"gift"}, "open": True, "left": None}
FOUND = {"order_id": "o-1", "lines": [{"product": "tea", "pieces": 3}], "photo": b"\x00\xff", "tags": {"gift"}}


@pytest.fixture(scope="module")
def answers() -> Answering:
    return Answering()


def read(answers: Answering) -> Item | None:
    return read_one(answers.client, ORDER, Deadline.after(10))


def read_page(operation: queries.Operation) -> Callable[[Answering], Any]:
    return lambda answers: Pages(answers.client, operation, {"TableName": "Orders"}, None, bool, dict).page()


READS: dict[str, Callable[[Answering], Any]] = {
    "GetItem": read,
    "BatchGetItem": lambda answers: read_once(answers.client, [ORDER, LEFT, FLIGHT], Deadline.after(10)),
    "Query": read_page("query"),
    "Scan": read_page("scan"),
}


def answer_with(operation: str, found: list[Item]) -> Any:
    """The first item has the order's key, the second one the flight's."""
    as_sent = json.dumps(parsed_with(operation, found), default=lambda binary: base64.b64encode(binary).decode())
    return json.loads(as_sent)


def parsed_with(operation: str, found: list[Item]) -> dict[str, Any]:
    order, flight = ({"order_id": "o-1"} | found[0], {"flight_id": "TL1"} | found[1])
    stored = [to_dynamodb(item) for item in (order, flight)]
    match operation:
        case "GetItem":
            return {"Item": stored[0]}
        case "BatchGetItem":
            unprocessed = {"Orders": {"Keys": [to_dynamodb(dict(LEFT.attributes))], "ConsistentRead": True}}
            return {"Responses": {"Orders": stored[:1], "Flights": stored[1:]}, "UnprocessedKeys": unprocessed}
    last = to_dynamodb({"order_id": "o-1", "number": Decimal("1.5"), "digest": b"\xff"})
    return {"Items": stored, "Count": 2, "ScannedCount": 2, "LastEvaluatedKey": last}


def exact(value: Any) -> Any:
    """The value with all of its types: True isn't 1."""
    match value:
        case dict():
            return {name: exact(each) for name, each in value.items()}
        case list() | tuple():
            return [exact(each) for each in value]
        case set():
            return {exact(each) for each in value}
    return type(value).__name__, value


def outcome(operation: str, answers: Answering) -> Any:
    """What was read, or the error."""
    try:
        return exact(READS[operation](answers))
    except Exception as error:  # noqa: BLE001 (both readers must end alike)
        return repr(error)


def by_botocore(operation: str, answers: Answering) -> Any:
    with mock.patch.object(steps, "found_and_rest", side_effect=ValueError):
        return outcome(operation, answers)


def key_alone(attributes: dict[str, Any]) -> Item:
    assert attributes == to_dynamodb(dict(LEFT.attributes)), "botocore has read an item"
    return from_dynamodb(attributes)


@given(operation=st.sampled_from([*READS]), data=st.data())
def test_any_items_are_read_as_botocore_reads_them(answers: Answering, operation: str, data: st.DataObject) -> None:
    """If this fails after an update of botocore: items are right, but cost more time. Mend `take_found`."""
    found = answer_with(operation, data.draw(st.lists(items, min_size=2, max_size=2)))
    answers.answers = [(200, found)]
    with mock.patch.object(unconditional, "from_dynamodb", key_alone):
        ours = outcome(operation, answers)
    assert not isinstance(ours, str), ours
    assert ours == by_botocore(operation, answers)


JUNK: list[Any] = [
    *(None, 1, 0.5, True, "x", "", [], {}, ["x"], [[]], {"S": "x"}, {"S": 1}, {"S": None}, {"N": "x"}, {"N": 1}),
    *({"BOOL": 1}, {"BOOL": "true"}, {"NULL": False}, {"M": "x"}, {"M": {"a": "x"}}, {"M": {"a": "x", "b": "y"}}),
    *({"M": {"a": {"S": "x"}, "b": "y"}}, {"L": ["x"]}, {"L": "ab"}, {"L": {}}, {"SS": "ab"}, {"NS": [1]}),
    *({"BS": ["x"]}, {"B": "x"}, {"B": 1}, {"X": "y"}, {"S": "x", "N": "1"}, {"a": {"S": "x"}}, {"a": {}}),
    *([{"S": "x"}], [{"a": {"S": "x"}}]),
]


def places(found: Any) -> list[tuple[Any, Any]]:
    """Each element of an answer, as its container and its name or number."""
    elements = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [place for name, element in elements for place in [(found, name), *places(element)]]


@given(operation=st.sampled_from([*READS]), data=st.data())
def test_what_dynamodb_never_sends_is_left_to_botocore(answers: Answering, operation: str, data: st.DataObject) -> None:
    found = answer_with(operation, [SOME, SOME])
    container, name = data.draw(st.sampled_from(places(found)))
    container[name] = data.draw(st.sampled_from(JUNK))
    answers.answers = [(200, found)]
    assert outcome(operation, answers) == by_botocore(operation, answers)


def test_whoever_counts_units_sees_them(answers: Answering) -> None:
    seen: list[dict[str, Any]] = []
    answers.client.meta.events.register("after-call.dynamodb", lambda parsed, **_: seen.append(parsed), unique_id="see")
    capacity = {"TableName": "Orders", "CapacityUnits": 0.5}
    answers.answers = [(200, {"Item": to_dynamodb(FOUND), "ConsumedCapacity": capacity})]
    assert read(answers) == FOUND
    answers.client.meta.events.unregister("after-call.dynamodb", unique_id="see")
    assert [each["ConsumedCapacity"] for each in seen] == [capacity]


def test_a_callers_own_request_is_left_alone(answers: Answering) -> None:
    answers.answers = [(200, {"Item": to_dynamodb(FOUND)})]
    read(answers)
    own = answers.client.get_item(TableName="Orders", Key={"order_id": {"S": "o-1"}})
    assert own["Item"] == to_dynamodb(FOUND)
