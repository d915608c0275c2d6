"""Queries without a server: what is sent, what is refused before, and a throttled page."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import (
    Condition,
    Deadline,
    DeadlinePassed,
    VersionedTable,
    absent,
    at_least,
    begins_with,
    contains,
    equals,
    exists,
    less_than,
)
from conditional_writes.core.items import to_dynamodb
from tests.unit.stubs import Stubbed

OF_C_1 = equals("customer_id", "c-1")
NOT_OF_A_KEY = r"Orders: a query's condition is made of equals, .* joined by &: put '.*' into `matching`"


def orders(client: Any = None) -> VersionedTable:
    return VersionedTable(client, "Orders", "customer_id", "order_id")


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        (~OF_C_1, NOT_OF_A_KEY),
        (OF_C_1 | at_least("order_id", 7), NOT_OF_A_KEY),
        (OF_C_1 & ~at_least("order_id", 7), NOT_OF_A_KEY),
        (OF_C_1 & contains("order_id", "7"), NOT_OF_A_KEY),
        (OF_C_1 & exists("order_id"), NOT_OF_A_KEY),
        (absent("customer_id"), NOT_OF_A_KEY),
        (Condition("size({}) = []", ("customer_id",), (3,)), NOT_OF_A_KEY),
        (Condition("{} <> []", ("customer_id",), (3,)), NOT_OF_A_KEY),
        (Condition("{} = []", ("customer_id",), (3, 4)), r"other numbers of \{\} and \[\] than of names and values"),
        (Condition("{} = []", ("customer_id",), ()), r"other numbers of \{\} and \[\] than of names and values"),
        (at_least("order_id", 7), "a query is of one customer_id, with `equals`: use `scan` for all"),
        (begins_with("customer_id", "c-"), "a query is of one customer_id, with `equals`"),
        (at_least("customer_id", "c") & equals("order_id", 7), "a query is of one customer_id, with `equals`"),
        (OF_C_1 & at_least("order_id", 7) & less_than("order_id", 9), "two conditions on order_id, .*: use `between`"),
        (OF_C_1 & equals("status", "NEW"), r"status isn't in the key \(customer_id, order_id\): use `matching`, or"),
        (OF_C_1 & equals(("customer_id", "a"), 1), r"customer_id\.a isn't in the key"),
    ],
)
def test_a_condition_that_is_none_of_the_key_is_refused_before_it_is_sent(condition: Condition, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        orders().query(condition)


OTHERS_KEY = VersionedTable(None, "Others", "customer_id", "order_id").key("c-1", 7)
MISUSES: list[tuple[Callable[[Any], object], str]] = [
    (lambda table: table.query(at_least("placed_at", 7), index="by_status"), "is of one partition key of by_status"),
    (lambda table: table.query(OF_C_1, matching=exists("a") & less_than("order_id", 3)), "order_id is in the key, "),
    (lambda table: table.query("customer_id = c-1"), "Orders: .* is no condition: make one with equals, of the"),
    (lambda table: table.query(OF_C_1, matching="a = b"), "'a = b' is no condition"),
    (lambda table: table.scan(page_size=0), "page_size: 0, expected 1 or more"),
    (lambda table: table.scan(page_size="5"), "page_size: '5', expected 1 or more"),
    (lambda table: table.scan(segment=(4, 4)), r"expected one as \(0, 4\): the four quarters are \(0, 4\) to \(3, 4\)"),
    (lambda table: table.scan(segment=(-1, 4)), r"expected one as \(0, 4\)"),
    (lambda table: table.scan(segment=0), r"expected one as \(0, 4\)"),
    (lambda table: table.scan(index="by_status", after=table.key("c-1", 7)), "says nothing of its place in an index"),
    (lambda table: table.query(OF_C_1, index="i", after=table.key("c-1", 7)), "says nothing of its place in an index"),
    (lambda table: table.scan(after=OTHERS_KEY), "expected the key of one of its items to go on after, got Others"),
    (lambda table: table.scan(after="c-1"), "after: 'c-1', expected the key of one of its items, or the token of a"),
]


@pytest.mark.parametrize(("misuse", "sentence"), MISUSES)
def test_what_cannot_be_meant_is_refused_before_it_is_sent(misuse: Callable[[Any], object], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        misuse(orders())


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    paused: list[float] = []
    monkeypatch.setattr("time.sleep", paused.append)
    monkeypatch.setattr("conditional_writes.core.steps.random.uniform", lambda _, longest: longest)
    return paused


@pytest.mark.parametrize(
    "code", ["ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException"]
)
def test_a_throttled_page_is_read_again_after_longer_and_longer_pauses(pauses: list[float], code: str) -> None:
    item, key = {"customer_id": "c-1", "order_id": 1}, {"customer_id": "c-1", "order_id": 1}
    with Stubbed("dynamodb") as stubbed:
        stubbed.answers("scan", {"Items": [to_dynamodb(item)], "LastEvaluatedKey": to_dynamodb(key)})
        for _ in range(6):
            stubbed.refuses("scan", code)
        stubbed.answers("scan", {"Items": [to_dynamodb(item | {"order_id": 2})]})
        assert [each["order_id"] for each in orders(stubbed.client).scan()] == [1, 2]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert [each.get("ExclusiveStartKey") for each in stubbed.parameters] == [None] + [to_dynamodb(key)] * 7


def test_a_page_that_stays_throttled_raises_dynamodbs_error_at_the_deadline(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conditional_writes.core.steps.time.monotonic", lambda: 0.0)
    with Stubbed("dynamodb") as stubbed:
        stubbed.refuses("query", "ThrottlingException")
        with pytest.raises(ClientError, match="ThrottlingException"):
            next(orders(stubbed.client).query(OF_C_1, deadline=Deadline.after(0.04)))
    assert pauses == []


def test_a_deadline_is_of_all_pages_and_without_one_each_page_has_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("conditional_writes.core.steps.time.monotonic", lambda: now)
    page = {"Items": [to_dynamodb({"customer_id": "c-1", "order_id": 1})]}
    following = page | {"LastEvaluatedKey": to_dynamodb({"customer_id": "c-1", "order_id": 1})}
    with Stubbed("dynamodb") as stubbed:
        for answer in (following, following, page, following):
            stubbed.answers("query", answer)
        patient = orders(stubbed.client).query(OF_C_1)
        for _ in range(3):
            next(patient)
            now += 3600
        hurried = orders(stubbed.client).query(OF_C_1, deadline=Deadline.after(60))
        next(hurried)
        now += 61
        with pytest.raises(DeadlinePassed, match="no time is left: reading Orders"):
            next(hurried)
