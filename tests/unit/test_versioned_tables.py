"""Versioned tables without a server: items of a plan's `observed`, and their errors."""

import copy
import pickle
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import (
    Deadline,
    Item,
    Key,
    NoSuchItem,
    NoSuchTable,
    Put,
    Update,
    VersionedItem,
    VersionedTable,
    WrongKey,
    key,
    read,
    write_together,
)
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


def test_get_reads_once_and_names_a_missing_item() -> None:
    with Stubbed("dynamodb") as stubbed:
        table = VersionedTable(stubbed.client, "Orders", "order_id")
        stubbed.answers("get_item", {"Item": {"order_id": {"S": "o-1"}}})
        stubbed.answers("get_item")
        assert table.get("o-1") == {"order_id": "o-1"}
        with pytest.raises(NoSuchItem, match="Orders order_id='o-2': there is no such item"):
            table.get("o-2")
    assert stubbed.operations == ["GetItem"] * 2


def test_changing_an_item_changes_neither_what_was_loaded_nor_a_copy() -> None:
    before = copy.deepcopy(STORED)
    order = VersionedItem(STORED)
    changed, apart = order | {"status": "PAID"}, copy.deepcopy(order)
    changed["lines"]["a"].append(2)
    assert before == STORED == order.loaded == changed.loaded
    assert "status" not in order
    assert apart["lines"] == {"a": [1]}


def test_a_copy_of_an_index_s_item_remembers_the_index() -> None:
    item = VersionedItem({"customer_id": "c-1", "order_id": 7}, "by_status")
    for copied in (item | {"a": 1}, item.copy(), copy.deepcopy(item), pickle.loads(pickle.dumps(item))):
        with pytest.raises(ValueError, match="is from the index by_status, which lacks its version"):
            orders.saving(copied)


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


@pytest.mark.parametrize(
    "message", ["", "Item size has exceeded the maximum allowed size", "Type mismatch for Index Key"]
)
def test_another_error_is_botocores_own(message: str) -> None:
    error = refused("ValidationException", ONE, message=message)
    assert type(error) is ClientError
    reasons = [{"Code": "None"}, {"Code": "ValidationError", "Message": message}]
    error = refused("TransactionCanceledException", ONE, TWO, reasons=reasons)
    assert not isinstance(error, NoSuchTable | WrongKey)


def test_the_errors_can_be_sent_to_another_process() -> None:
    for error in (
        NoSuchItem(ONE),
        refused("ResourceNotFoundException", ONE),
        refused("ValidationException", ONE, message=WRONG),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
