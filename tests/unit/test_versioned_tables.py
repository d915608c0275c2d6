"""Versioned tables without a server: items of a plan's `observed`, and their errors."""

import copy
import math
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import (
    Deadline,
    Item,
    Key,
    NoSuchItem,
    NoSuchTable,
    Plan,
    Put,
    Update,
    VersionedItem,
    VersionedTable,
    WrongKey,
    key,
    read,
    write,
    write_together,
)
from conditional_writes.upserts import MapEntry
from tests.unit.stubs import Stubbed

client: Any = None
orders = VersionedTable(client, "Orders", "customer_id", "order_id")
STORED: Item = {"customer_id": "c-1", "order_id": 7, "lines": {"a": [1]}, "version": 3, "cw:version_id": "w-1"}
OBSERVED = {orders.key("c-1", 7): STORED, orders.key("c-1", 8): None}


def test_an_item_of_a_plan_can_be_saved() -> None:
    order = orders.get_from(OBSERVED, "c-1", 7)
    assert order == orders.load_from(OBSERVED, "c-1", 7) == {name: STORED[name] for name in STORED if name[:3] != "cw:"}
    saving = orders.saving(order | {"status": "PAID"})
    assert isinstance(saving, Update)
    assert saving.values == {"status": "PAID", "version": 4}
    assert saving.expected == (3, "version", "w-1")


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


def test_changing_an_item_changes_neither_what_was_loaded_nor_a_copy() -> None:
    before = copy.deepcopy(STORED)
    order = VersionedItem(STORED)
    changed, apart = order | {"status": "PAID"}, copy.deepcopy(order)
    changed["lines"]["a"].append(2)
    assert before == STORED == order.loaded == changed.loaded
    assert "status" not in order
    assert apart["lines"] == {"a": [1]}


def test_an_item_of_an_index_that_lacks_the_id_of_its_version_is_not_saved() -> None:
    """A recreated item may have the same version."""
    item = VersionedItem({"customer_id": "c-1", "order_id": 7, "version": 1}, "by_status")
    for make in (orders.saving, orders.deleting, orders.checking):
        with pytest.raises(ValueError, match="the index by_status, which lacks its cw:version_id: load the item, or"):
            make(item)
    assert orders.saving(item | {"status": "PAID"}, checked=False)
    assert orders.saving(VersionedItem(STORED, "by_status") | {"status": "PAID"})


# --- errors ----------------------------------------------------------------------------------------------

ONE, TWO = key("Orders", order_id="o-1"), key("Lines", line_id="l-1")


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


WRONG = "The provided key element does not match the schema"


def test_a_wrong_key_is_named_and_one_of_several_too() -> None:
    error = refused("ValidationException", ONE, message=WRONG)
    assert isinstance(error, WrongKey)
    sentence = "Orders order_id='o-1': the key has other names or types in DynamoDB"
    botocores = f"An error occurred (ValidationException) when calling the BatchGetItem operation: {WRONG}"
    assert str(error) == f"{sentence}: {botocores}"
    error = refused("ValidationException", ONE, TWO, message=WRONG)
    assert str(error).startswith("Orders order_id='o-1' or another of the request's 2 keys: the key has")


def test_of_a_transaction_the_wrong_key_is_named() -> None:
    reasons = [{"Code": "None"}, {"Code": "ValidationError", "Message": WRONG}]
    error = refused("TransactionCanceledException", ONE, TWO, reasons=reasons)
    assert isinstance(error, WrongKey)
    assert str(error).startswith(f"Lines line_id='l-1': the key has other names or types in DynamoDB ({WRONG}): ")
    assert error.response["CancellationReasons"] == reasons


SECONDS: Any = 5
SPAN: Any = timedelta(seconds=5)
MISUSES: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "seconds": (
        lambda table: table.load("c-1", 7, deadline=SECONDS),
        TypeError,
        r"deadline: 5 is no deadline: use Deadline\.after",
    ),
    "a time span": (
        lambda table: list(table.scan(deadline=SPAN)),
        TypeError,
        r"deadline: .*timedelta\(seconds=5\) is no deadline: use Deadline\.after",
    ),
    "seconds of a plan": (
        lambda _: write(client, lambda _: Plan(None), {}, SECONDS),
        TypeError,
        r"deadline: 5 is no deadline: use Deadline\.after",
    ),
    "no time": (lambda _: Deadline.after(math.nan), ValueError, "a deadline after nan seconds"),
    "parameters in another order": (
        lambda _: VersionedTable("Orders", client, "order_id"),  # type: ignore[arg-type]
        TypeError,
        r"None is no table's name: expected VersionedTable\(client, name, \*key_names\)",
    ),
    "set and removed": (
        lambda table: table.update("c-1", 7, version=1, values={"a": 1, "b": 2}, removed=["a"]),
        ValueError,
        "order_id=7: a: in `values` and in `removed`: leave it in one of them",
    ),
    "a date": (
        lambda table: table.upsert("c-1", 7, entries=[MapEntry(("a", "b"), 1, as_of=date(2026, 1, 1))]),  # type: ignore[arg-type]
        TypeError,
        r"as_of is datetime\.date\(2026, 1, 1\), expected a datetime",
    ),
    "entries of the version": (
        lambda table: table.upsert("c-1", 7, entries=[MapEntry(("version", "b"), 1)]),
        ValueError,
        "version can't hold entries: it is the version",
    ),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_what_cannot_be_meant_is_named_before_anything_is_sent(misuse: str) -> None:
    call, kind, sentence = MISUSES[misuse]
    with pytest.raises(kind, match=sentence):
        call(orders)
