"""Reads: many items per request. Unprocessed keys are requested again, and never taken for absent items."""

from decimal import Decimal
from typing import Any

import pytest

from conditional_writes import Deadline, DeadlinePassed, Key, key, read
from conditional_writes.core import steps
from conditional_writes.core.items import to_dynamodb
from conditional_writes.core.unconditional import read_once, read_one, read_page
from conditional_writes.testing import Engine
from tests.support.clock import plenty
from tests.support.new_tables import definition
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


def test_what_was_not_processed_is_asked_for_again(dynamodb: Stubbed) -> None:
    finds(dynamodb, order(1), unprocessed=(order(2), line(3)))
    finds(dynamodb, order(2))
    observed = read(dynamodb.client, [order(1), order(2), line(3)], plenty())
    assert keys_asked_for(dynamodb) == [3, 2]
    assert (bool(observed[order(1)]), bool(observed[order(2)]), observed[line(3)]) == (True, True, None)


def test_before_it_is_asked_for_again_the_pauses_grow_up_to_a_second_and_end_at_the_deadline(
    dynamodb: Stubbed, monkeypatch: pytest.MonkeyPatch
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
        finds(dynamodb, unprocessed=(order(1),))
    with pytest.raises(DeadlinePassed):
        read(dynamodb.client, [order(1)], Deadline(at=3.0))
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 0.45])
    dynamodb.forgets_the_rest()


def test_what_was_not_processed_is_missing_if_it_is_asked_for_once(dynamodb: Stubbed) -> None:
    finds(dynamodb, order(1), unprocessed=(order(2),))
    observed = read_once(dynamodb.client, [order(1), order(2), order(3), order(1)], plenty())
    assert observed == {order(1): {"order_id": "o-1", "found": True}, order(3): None}
    assert keys_asked_for(dynamodb) == [3]


def test_if_botocore_changes_the_event_of_its_answers_it_reads_them_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "take_found", lambda **_: None)
    one, none = key("orders", order_id="o-1"), key("orders", order_id="o-2")
    item = {"order_id": "o-1", "amount": Decimal("1.5")}
    with Engine() as engine:
        client = engine.client()
        client.create_table(**definition("orders", {"order_id": "S"}))
        engine.resource().Table("orders").put_item(Item=item)
        assert [read_one(client, each, plenty()) for each in (one, none)] == [item, None]
        assert read(client, [one, none], plenty()) == {one: item, none: None}
        assert read_page(client, "scan", {"TableName": "orders"}) == ([item], None)
