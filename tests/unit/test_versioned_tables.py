"""Versioned tables without a server: items of a plan's `observed`, and their errors."""

import contextlib
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError

from conditional_writes import (
    Deadline,
    Delete,
    Item,
    Key,
    NoSuchItem,
    NoSuchTable,
    Plan,
    Put,
    VersionedTable,
    equals,
    key,
    read,
    write,
    write_together,
)
from conditional_writes.locks import Locks
from conditional_writes.testing import Engine
from conditional_writes.testing.wire import Call
from conditional_writes.upserts import MapEntry, erasure, upsert
from tests.support.new_tables import definition
from tests.unit.stubs import Stubbed

client: Any = None
orders = VersionedTable(client, "Orders", "customer_id", "order_id")
STORED: Item = {"customer_id": "c-1", "order_id": 7, "lines": {"a": [1]}, "version": 3, "cw:version_id": "w-1"}
OBSERVED = {orders.key("c-1", 7): STORED, orders.key("c-1", 8): None}
ONE, TWO = key("Orders", order_id="o-1"), key("Lines", line_id="l-1")


def test_an_item_that_a_plan_has_not_is_none_or_an_error() -> None:
    assert orders.load_from(OBSERVED, "c-1", 8) is None
    with pytest.raises(NoSuchItem) as caught:
        orders.get_from(OBSERVED, "c-1", 8)
    assert caught.value.key == orders.key("c-1", 8)
    assert str(caught.value) == "Orders customer_id='c-1', order_id=8: there is no such item"
    assert isinstance(caught.value, LookupError)
    for look in (orders.load_from, orders.get_from):
        with pytest.raises(ValueError, match="Orders customer_id='c-1', order_id=9: wasn't read: name its key among"):
            look(OBSERVED, "c-1", 9)


def refused(code: str, *keys: Key, reasons: list[dict[str, Any]] | None = None, message: str = "") -> ClientError:
    """The library's error for DynamoDB's, of a read or, with reasons, of a transaction."""
    with Stubbed("dynamodb") as stubbed:
        if reasons is None:
            stubbed._stubber.add_client_error("batch_get_item", code, message, 400)
            with pytest.raises(ClientError) as caught:
                read(stubbed.client, keys, Deadline.after(5))
        else:
            stubbed.cancels(*reasons)
            with pytest.raises(ClientError) as caught:
                write_together(stubbed.client, [Put(each, {}) for each in keys])
    return caught.value


def test_a_missing_table_is_named_and_one_of_several_too() -> None:
    error = refused("ResourceNotFoundException", ONE)
    assert isinstance(error, NoSuchTable)
    sentence = "there is no table Orders in us-east-1, in the account of the client"
    assert str(error).startswith(f"{sentence}: An error occurred (ResourceNotFoundException) when calling the Batch")
    assert error.operation_name == "BatchGetItem"
    assert error.response["Error"]["Code"] == "ResourceNotFoundException"
    assert str(refused("ResourceNotFoundException", ONE, TWO)).startswith("there is no table Orders, or no table Lines")


SECONDS: Any = 5
SPAN: Any = timedelta(seconds=5)
NO_DEADLINE = r"deadline: 5 is no deadline: use Deadline\.after"
ORDER: Any = {"order_id": 7}
NO_KEY = r"\{'order_id': 7\} is no key"
ONE_WRITE: Any = Put(key("Orders", order_id=7), {})
MISTYPED: list[tuple[Callable[[VersionedTable], object], str]] = [
    (lambda table: table.load("c-1", 7, deadline=SECONDS), NO_DEADLINE),
    (lambda table: list(table.scan(deadline=SPAN)), r"deadline: .*timedelta\(seconds=5\) is no deadline"),
    (lambda _: write(client, lambda _: Plan(None), {}, SECONDS), NO_DEADLINE),
    (
        lambda _: VersionedTable("Orders", client, "order_id"),
        r"None is no table's name: expected VersionedTable\(client, name, \*key_names\)",
    ),
    (  # though the lock may be free
        lambda _: Locks(client, "Locks").acquire("nightly", lease_seconds=60, deadline=SECONDS),
        NO_DEADLINE,
    ),
    (
        lambda _: Locks(client, "Locks").acquire("nightly", lease_seconds=SPAN),
        r"lease_seconds: expected a number of seconds, got .*timedelta\(seconds=5\)",
    ),
    (
        lambda _: Locks(client, "Locks", clock_skew_seconds="1"),
        "clock_skew_seconds: expected a number of seconds, got '1'",
    ),
    (
        lambda table: table.save({"customer_id": "c-1", "order_id": 7}, when=Attr("a").eq(1)),
        "Equals object.* is no condition: make one with `equals`",
    ),
    (lambda _: write_together(client, [Delete(key("Orders", order_id=7), "a = b")]), "'a = b' is no condition"),
    (lambda _: write_together(client, ONE_WRITE), r"a plan's writes are Put\(.*, expected a list of writes"),
    (lambda _: write_together(client, [Put(ORDER, {})]), f"{NO_KEY}: make one with `key`"),
    (lambda _: read(client, key("Orders", order_id=7), Deadline.after(5)), "order_id=7: one key, expected a list"),
    (lambda _: read(client, [ORDER], Deadline.after(5)), NO_KEY),
    (
        lambda table: table.upsert("c-1", 7, entries=[MapEntry(("a", "b"), 1, as_of=date(2026, 1, 1))]),
        r"as_of is datetime\.date\(2026, 1, 1\), expected a datetime",
    ),
    (
        lambda table: table.upsert("c-1", 7, entries=MapEntry(("a", "b"), 1)),
        r"\('a', 'b'\) is no MapEntry: expected a list of them",
    ),
    (lambda _: upsert(client, ORDER, [MapEntry(("a", "b"), 1)]), NO_KEY),
    (
        lambda table: table.upsert("c-1", 7, entries=[MapEntry(("a", "b"), {1: 2, "c": 3}, datetime.now(UTC))]),
        "a.b: 1 is no text, as the names in an item",
    ),
]
IMPOSSIBLE: list[tuple[Callable[[VersionedTable], object], str]] = [
    (lambda _: Deadline.after(math.nan), "a deadline after nan seconds"),
    (
        lambda table: table.update("c-1", 7, version=1, values={"a": 1, "b": 2}, removed=["a"]),
        "order_id=7: a: in `values` and in `removed`: leave it in one of them",
    ),
    (
        lambda table: table.upsert("c-1", 7, entries=[], forget_after=SECONDS),
        "forget_after: 5, expected a timedelta of 0 or more",
    ),
    (lambda table: table.upsert("c-1", 7, entries=[], forget_after=-SPAN), "expected a timedelta of 0 or more"),
    (
        lambda table: table.upsert("c-1", 7, entries=[MapEntry(("version", "b"), 1)]),
        "version can't hold entries: it is the version",
    ),
]


@pytest.mark.parametrize(
    ("kind", "call", "sentence"),
    [*((TypeError, *each) for each in MISTYPED), *((ValueError, *each) for each in IMPOSSIBLE)],
)
def test_what_cannot_be_meant_is_named_at_once(
    kind: type[Exception], call: Callable[[VersionedTable], object], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        call(orders)


def test_threads_that_share_pages_get_each_item_once() -> None:
    both = threading.Barrier(2)

    class Meeting(Engine):
        def answer(self, call: Call) -> AWSResponse:
            if call.name == "Scan":
                with contextlib.suppress(threading.BrokenBarrierError):
                    both.wait(0.1)
            return super().answer(call)

    with Meeting() as engine, ThreadPoolExecutor(2) as pool:
        client = engine.client()
        client.create_table(**definition("Orders", {"order_id": "S"}))
        orders = VersionedTable(client, "Orders", "order_id")
        orders.put_many({"order_id": f"o-{number}"} for number in range(6))
        pages = orders.scan(page_size=2)
        got = [order["order_id"] for part in pool.map(list, [pages, pages]) for order in part]
    assert sorted(got) == [f"o-{number}" for number in range(6)]


def test_an_item_that_an_upsert_makes_or_erases_has_the_fields_of_its_key() -> None:
    with Engine() as engine:
        client = engine.client()
        client.create_table(**definition("Shop", {"pk": "S"}))
        customers = VersionedTable(client, "Shop", "pk", templates={"pk": "CUSTOMER#{customer_id}"})
        customers.upsert("c-1", entries=[MapEntry(("seen", "a"), 1)])
        assert customers.get("c-1")["customer_id"] == "c-1"
        customers.upsert("c-1", entries=[erasure(datetime.now(UTC))])
        assert customers.get("c-1").keys() == {"pk", "customer_id", "version"}
        with pytest.raises(ValueError, match="customer_id can't hold entries: it is part of the key"):
            customers.upsert("c-1", entries=[MapEntry(("customer_id", "a"), 1)])


def test_a_page_with_an_element_that_cant_be_made_loses_none_of_the_others() -> None:
    with Engine() as engine:
        client = engine.client()
        client.create_table(**definition("Orders", {"customer_id": "S", "number": "N"}))
        orders = VersionedTable(client, "Orders", "customer_id", "number")
        orders.put_many({"customer_id": "c-1", "number": number} for number in range(3))
        pages = orders.query(equals("customer_id", "c-1")).each(lambda order: 1 // (order["number"] - 1))
        for _ in range(2):
            with pytest.raises(ArithmeticError):
                pages.page()
        assert next(pages) == -1
