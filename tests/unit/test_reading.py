"""Reads: many items per request. Unprocessed keys are requested again, and never taken for absent items."""

from typing import Any

import pytest

from conditional_writes import Deadline, DeadlinePassed, Key, key, read
from conditional_writes.core.items import to_dynamodb
from conditional_writes.core.unconditional import read_once
from tests.support.clock import plenty
from tests.unit.stubs import Stubbed


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def order(number: int) -> Key:
    return key("Orders", order_id=f"o-{number}")


def line(number: int) -> Key:
    return key("Lines", order_id="o-1", line=number)


def finds(stubbed: Stubbed, *found: Key, unprocessed: tuple[Key, ...] = ()) -> None:
    """Prepares an answer with these items, each with one attribute beside its key, in another order."""
    responses: dict[str, list[Any]] = {}
    for each in reversed(found):
        responses.setdefault(each.table, []).append(to_dynamodb(dict(each.attributes) | {"found": True}))
    rest: dict[str, Any] = {}
    for each in unprocessed:
        rest.setdefault(each.table, {"Keys": []})["Keys"].append(to_dynamodb(dict(each.attributes)))
    stubbed.answers("batch_get_item", {"Responses": responses, "UnprocessedKeys": rest})


def keys_asked_for(stubbed: Stubbed) -> list[int]:
    return [sum(len(table["Keys"]) for table in request["RequestItems"].values()) for request in stubbed.parameters]


def test_items_of_several_tables_are_read_in_one_consistent_request(stubbed_dynamodb: Stubbed) -> None:
    finds(stubbed_dynamodb, order(1), line(1), line(2))
    observed = read(stubbed_dynamodb.client, [order(1), line(1), line(2)], plenty())
    assert observed == {
        order(1): {"order_id": "o-1", "found": True},
        line(1): {"order_id": "o-1", "line": 1, "found": True},
        line(2): {"order_id": "o-1", "line": 2, "found": True},
    }
    (request,) = stubbed_dynamodb.parameters
    assert all(table["ConsistentRead"] is True for table in request["RequestItems"].values())


def test_only_the_named_attributes_of_a_table_are_read(stubbed_dynamodb: Stubbed) -> None:
    finds(stubbed_dynamodb, order(1), line(1))
    read(stubbed_dynamodb.client, [order(1), line(1)], plenty(), {"Orders": ["order_id", "found"]})
    (request,) = stubbed_dynamodb.parameters
    orders, lines = request["RequestItems"]["Orders"], request["RequestItems"]["Lines"]
    assert orders["ProjectionExpression"] == "#0,#1"
    assert orders["ExpressionAttributeNames"] == {"#0": "order_id", "#1": "found"}
    assert lines.keys() == {"Keys", "ConsistentRead"}


def test_250_keys_take_three_requests(stubbed_dynamodb: Stubbed) -> None:
    wanted = [order(number) for number in range(250)]
    for start in (0, 100, 200):
        finds(stubbed_dynamodb, *wanted[start : start + 100])
    observed = read(stubbed_dynamodb.client, wanted, plenty())
    assert keys_asked_for(stubbed_dynamodb) == [100, 100, 50]
    assert observed.keys() == set(wanted)
    assert all(observed.values())


def test_what_was_not_processed_is_asked_for_again(stubbed_dynamodb: Stubbed) -> None:
    finds(stubbed_dynamodb, order(1), unprocessed=(order(2), line(3)))
    finds(stubbed_dynamodb, order(2))
    observed = read(stubbed_dynamodb.client, [order(1), order(2), line(3)], plenty())
    assert keys_asked_for(stubbed_dynamodb) == [3, 2]
    assert (bool(observed[order(1)]), bool(observed[order(2)]), observed[line(3)]) == (True, True, None)


def test_before_it_is_asked_for_again_the_pauses_grow_up_to_a_second_and_end_at_the_deadline(
    stubbed_dynamodb: Stubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, pauses = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    monkeypatch.setattr("conditional_writes.core.steps.time.monotonic", lambda: now)
    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("conditional_writes.core.steps.random.uniform", lambda _, longest: longest)
    for _ in range(8):
        finds(stubbed_dynamodb, unprocessed=(order(1),))
    with pytest.raises(DeadlinePassed):
        read(stubbed_dynamodb.client, [order(1)], Deadline(at=3.0))
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 0.45])
    stubbed_dynamodb.forgets_the_rest()


def test_what_was_not_processed_is_missing_if_it_is_asked_for_once(stubbed_dynamodb: Stubbed) -> None:
    finds(stubbed_dynamodb, order(1), unprocessed=(order(2),))
    observed = read_once(stubbed_dynamodb.client, [order(1), order(2), order(3), order(1)], plenty())
    assert observed == {order(1): {"order_id": "o-1", "found": True}, order(3): None}
    assert keys_asked_for(stubbed_dynamodb) == [3]


def test_a_key_is_asked_for_once_and_without_keys_nothing_is(stubbed_dynamodb: Stubbed) -> None:
    assert read(stubbed_dynamodb.client, [], plenty()) == {}
    finds(stubbed_dynamodb, order(1))  # DynamoDB refuses a request that has a key twice.
    assert read(stubbed_dynamodb.client, [order(1), order(1), order(2)], plenty())[order(2)] is None
    assert keys_asked_for(stubbed_dynamodb) == [2]
