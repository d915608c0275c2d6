"""Versioned items: a test for each claim of their page and of the comparison."""

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import (
    Check,
    Conflict,
    Deadline,
    Delete,
    Item,
    OutcomeUnknown,
    Put,
    Update,
    VersionedItem,
    VersionedTable,
    absent,
    at_least,
    equals,
    exists,
    key,
    less_than,
    new_id,
    write_together,
)
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from tests.support.faults import Fault, Faults, between_tries
from tests.support.new_tables import calls_of, new_table
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint

pytestmark = pytest.mark.usefixtures("driver")


class Orders(VersionedTable):
    """The table under test, with direct access to its items."""

    def __init__(self, dynamodb: Endpoint, table: str, **settings: Any) -> None:
        self.client, self.table = dynamodb.client("dynamodb"), table
        super().__init__(self.client, table, "customer_id", "order_id", **settings)
        self.calls = calls_of(self.client)

    def stored(self, order: int = 1) -> Item | None:
        """The item in DynamoDB, without the library's own attributes."""
        response = self.client.get_item(TableName=self.table, Key=to_dynamodb(ids(order)), ConsistentRead=True)
        item = from_dynamodb(response.get("Item", {}))
        return {name: value for name, value in item.items() if not name.startswith("cw:")} or None

    def plant(self, item: Item) -> None:
        self.client.put_item(TableName=self.table, Item=to_dynamodb(item))


def ids(order: int = 1) -> Item:
    return {"customer_id": "c-1", "order_id": order}


@pytest.fixture
def table(dynamodb: Endpoint) -> str:
    return new_table(dynamodb.client("dynamodb"), {"customer_id": "S", "order_id": "N"})


@pytest.fixture
def orders(dynamodb: Endpoint, table: str) -> Orders:
    return Orders(dynamodb, table)


@pytest.fixture
def others(dynamodb: Endpoint, table: str) -> Orders:
    return Orders(dynamodb, table)


def loaded(table: VersionedTable, order: int = 1) -> VersionedItem:
    item = table.load("c-1", order)
    assert item is not None
    return item


# --- load, save, update, delete --------------------------------------------------------------------------


def test_the_first_save_makes_version_1_and_each_later_one_the_next(orders: Orders) -> None:
    order = orders.save(ids() | {"status": "NEW"})
    assert order == ids() | {"status": "NEW", "version": 1}
    order["status"] = "PAID"
    order = orders.save(order)
    order = orders.save(order | {"note": "soon"})
    assert order == orders.stored() == ids() | {"status": "PAID", "note": "soon", "version": 3}
    assert orders.load("c-1", 1) == order
    assert orders.load("c-1", 2) is None


def test_the_first_save_asserts_that_there_is_no_item(orders: Orders, others: Orders) -> None:
    others.save(ids() | {"status": "THEIRS"})
    with pytest.raises(Conflict, match="expected no item, found one with version 1") as caught:
        orders.save(ids() | {"status": "MINE"})
    assert caught.value.expected_version is None
    assert orders.stored() == ids() | {"status": "THEIRS", "version": 1}


def test_a_later_save_asserts_its_version(orders: Orders, others: Orders) -> None:
    order = orders.save(ids() | {"status": "NEW"})
    others.save(loaded(others) | {"status": "THEIRS"})
    with pytest.raises(Conflict):
        orders.save(order | {"status": "MINE"})
    assert orders.stored() == ids() | {"status": "THEIRS", "version": 2}


def test_a_save_writes_only_what_changed(orders: Orders) -> None:
    lines = {"a": 1, "b": {"pieces": 2}}
    order = orders.save(ids() | {"status": "NEW", "note": "x", "lines": lines, "tags": {"p", "q"}})
    orders.client.update_item(  # Another program, which doesn't use versions, upserts a map entry.
        TableName=orders.table,
        Key=to_dynamodb(ids()),
        UpdateExpression="SET #lines.c = :c",
        ExpressionAttributeNames={"#lines": "lines"},
        ExpressionAttributeValues={":c": {"N": "3"}},
    )
    order["status"] = "PAID"
    del order["note"]
    orders.save(order)
    assert orders.stored() == ids() | {"status": "PAID", "lines": lines | {"c": 3}, "tags": {"p", "q"}, "version": 2}


def test_update_needs_the_version_alone_and_no_read(orders: Orders, others: Orders) -> None:
    orders.save(ids() | {"status": "NEW", "note": "x"})
    others.calls.clear()
    assert others.update("c-1", 1, version=1, values={"status": "PAID"}, removed=["note"]) == 2
    assert others.calls == ["UpdateItem"]
    assert orders.stored() == ids() | {"status": "PAID", "version": 2}
    with pytest.raises(Conflict, match="expected version 1, found version 2") as caught:
        orders.update("c-1", 1, version=1, values={"status": "LOST"})
    assert caught.value.found == orders.stored()


def test_delete_asserts_the_version(orders: Orders, others: Orders) -> None:
    order = orders.save(ids())
    others.save(loaded(others) | {"status": "THEIRS"})
    with pytest.raises(Conflict, match="expected version 1, found version 2"):
        orders.delete(order)
    orders.delete(loaded(orders))
    assert orders.stored() is None


SAVED_AFTER_ITS_DELETION: dict[str, Callable[[Orders, VersionedItem], object]] = {
    "save": lambda orders, order: orders.save(order),
    "save unchecked": lambda orders, order: orders.save(order, checked=False),
    "save under a condition": lambda orders, _: orders.save(ids(), when=exists("customer_id")),
    "save as loaded": lambda orders, order: orders.save(VersionedItem(order)),
    "update": lambda orders, _: orders.update("c-1", 1, version=1, values={"status": "PAID"}),
    "delete": lambda orders, order: orders.delete(order),
    "transaction": lambda orders, order: write_together(
        orders.client, [orders.saving(order), Put(orders.key("c-1", 2), {})]
    ),
}


@pytest.mark.parametrize("way", SAVED_AFTER_ITS_DELETION)
def test_a_deleted_item_is_never_brought_back(orders: Orders, others: Orders, way: str) -> None:
    order = orders.save(ids() | {"status": "NEW"}) | {"status": "PAID"}
    others.delete(loaded(others))
    with pytest.raises(Conflict, match="no such item, or no longer") as caught:
        SAVED_AFTER_ITS_DELETION[way](orders, order)
    assert caught.value.found is None
    assert orders.stored() is orders.stored(2) is None


# --- read, modify, write ---------------------------------------------------------------------------------


def count_up(item: Item | None) -> Item:
    return (item or {}) | {"count": (item or {"count": 0})["count"] + 1}


def test_a_conflict_costs_one_request_and_is_planned_again_from_what_was_handed_back(
    orders: Orders, others: Orders
) -> None:
    orders.save(ids() | {"count": 5})
    competing = iter([lambda: others.modify("c-1", 1, change=lambda item: (item or {}) | {"count": 50, "new": True})])

    def count_up_too_late(item: Item | None) -> Item:
        for overtake in competing:
            overtake()
        return count_up(item)

    orders.calls.clear()
    assert orders.modify("c-1", 1, change=count_up_too_late) == ids() | {"count": 51, "new": True, "version": 3}
    assert orders.calls == ["GetItem", "UpdateItem", "UpdateItem"]


def test_of_many_writers_none_is_lost(dynamodb: Endpoint, table: str) -> None:
    def work(_: int) -> None:
        mine = Orders(dynamodb, table)
        for _ in range(25):
            mine.modify("c-1", 1, change=count_up, deadline=Deadline.after(60))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert Orders(dynamodb, table).stored() == ids() | {"count": 200, "version": 200}


def test_where_nothing_changes_nothing_is_written(orders: Orders) -> None:
    orders.save(ids() | {"count": 5})
    orders.calls.clear()
    for change in (lambda item: item, lambda item: {"count": Decimal("5.0")}):
        assert orders.modify("c-1", 1, change=change) == ids() | {"count": 5, "version": 1}
    assert orders.calls == ["GetItem", "GetItem"]


def test_a_conflict_has_what_there_is_to_know_and_what_was_found_can_be_saved(orders: Orders, others: Orders) -> None:
    order = orders.save(ids() | {"status": "NEW"})
    others.save(loaded(others) | {"note": "theirs"})
    with pytest.raises(Conflict) as caught:
        orders.save(order | {"status": "PAID"})
    conflict = caught.value
    assert conflict.key == orders.key("c-1", 1)
    assert conflict.expected_version == 1
    assert conflict.found == ids() | {"status": "NEW", "note": "theirs", "version": 2}
    assert str(conflict) == f"{orders.table} customer_id='c-1', order_id=1: expected version 1, found version 2"
    orders.save(conflict.found | {"status": "PAID"})
    assert orders.stored() == ids() | {"status": "PAID", "note": "theirs", "version": 3}


# --- skipping the check ----------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["call", "table"])
def test_an_unchecked_save_wins_and_the_version_moves_on(dynamodb: Endpoint, table: str, by: str) -> None:
    orders = Orders(dynamodb, table, checked=by == "call")
    checked = False if by == "call" else None
    others = Orders(dynamodb, table)
    order = others.save(ids() | {"status": "NEW"})
    mine = loaded(orders)
    theirs = others.save(order | {"status": "THEIRS", "note": "x"})
    saved = orders.save(mine | {"status": "MINE"}, checked=checked)
    assert saved == orders.stored() == ids() | {"status": "MINE", "note": "x", "version": 3}
    with pytest.raises(Conflict, match="expected version 2, found version 3"):
        others.save(theirs | {"status": "LATE"})
    others.save(saved | {"status": "DONE"}, checked=True)
    orders.save(ids(2), checked=checked)
    orders.save(ids(2) | {"status": "AGAIN"}, checked=checked)
    assert orders.stored(2) == ids(2) | {"status": "AGAIN", "version": 2}


@pytest.mark.parametrize("by", ["call", "table"])
def test_an_unchecked_delete_wins(dynamodb: Endpoint, table: str, by: str) -> None:
    orders, others = Orders(dynamodb, table, checked=by == "call"), Orders(dynamodb, table)
    checked = False if by == "call" else None
    order = others.save(ids())
    others.save(order | {"status": "THEIRS"})
    for check in (orders.save, orders.delete):  # A call can ask for the check that its table skips.
        with pytest.raises(Conflict):
            check(order | {"status": "STALE"}, checked=True)
    orders.delete(order, checked=checked)
    assert orders.stored() is None
    orders.delete(ids(), checked=checked)  # The item is already deleted.


# --- items older than the version attribute --------------------------------------------------------------


def test_an_item_without_a_version_is_adopted_by_its_next_save(orders: Orders, others: Orders) -> None:
    orders.plant(ids() | {"status": "OLD"})
    mine, theirs = loaded(orders), loaded(others)
    assert orders.save(mine | {"status": "MINE"})["version"] == 1
    with pytest.raises(Conflict, match="expected no version, found version 1"):
        others.save(theirs | {"status": "THEIRS"})
    with pytest.raises(Conflict):
        others.delete(theirs)
    assert orders.modify("c-1", 1, change=lambda item: (item or {}) | {"status": "DONE"})["version"] == 2


@pytest.mark.parametrize("version", [{}, {"version": 7}], ids=["none", "another program's"])
def test_an_item_without_a_version_is_not_brought_back(orders: Orders, others: Orders, version: Item) -> None:
    """No `cw:version_id` says which write made its version, if it has one."""
    orders.plant(ids() | {"status": "OLD"} | version)
    mine = loaded(orders)
    others.delete(loaded(others))
    with pytest.raises(Conflict, match="no such item"):
        orders.save(mine | {"status": "MINE"})
    assert orders.stored() is None


def test_a_condition_of_your_own_must_hold_beside_the_version(orders: Orders) -> None:
    order = orders.save(ids() | {"status": "NEW", "pieces": 3})
    payable = equals("status", "NEW") & at_least("pieces", 1) & ~exists("cancelled_at")
    with pytest.raises(Conflict, match="version 1, as expected, but the condition doesn't hold"):
        orders.save(order | {"status": "PAID"}, when=payable & less_than("pieces", 3))
    order = orders.save(order | {"status": "PAID"}, when=payable)
    with pytest.raises(Conflict, match="the condition doesn't hold"):
        orders.delete(order, when=payable)
    orders.update("c-1", 1, version=2, values={"pieces": 4}, when=~payable)
    with pytest.raises(Conflict, match="the condition doesn't hold"):
        orders.save(loaded(orders) | {"pieces": 5}, when=payable, checked=False)
    assert orders.stored() == ids() | {"status": "PAID", "pieces": 4, "version": 3}


# --- additions without a version --------------------------------------------------------------------------


def test_numbers_lists_and_defaults_are_added_to_without_a_version_in_hand(orders: Orders) -> None:
    for note in ("new", "again"):
        orders.add("c-1", 1, numbers={"pieces": 2}, appended={"notes": [note]}, defaults={"first": note})
    assert orders.calls == ["TransactWriteItems"] * 2
    added = ids() | {"pieces": 4, "notes": ["new", "again"], "first": "new", "version": 2}
    assert orders.stored() == added
    order = loaded(orders)
    orders.add("c-1", 1, numbers={"pieces": -1}, when=at_least("pieces", 1))
    with pytest.raises(Conflict, match="expected version 2, found version 3"):
        orders.save(order | {"status": "PAID"})
    with pytest.raises(Conflict, match="the condition doesn't hold"):
        orders.add("c-1", 1, numbers={"pieces": -9}, when=at_least("pieces", 9))
    with pytest.raises(Conflict, match="there is no such item"):
        orders.add("c-1", 2, numbers={"pieces": 1}, when=exists("order_id"))
    for wrong in ({}, {"numbers": {"pieces": 1}, "defaults": {"pieces": 0}}):
        with pytest.raises(ValueError, match="expected attributes to add to, each once"):
            orders.add("c-1", 1, **wrong)
    with pytest.raises(ValueError, match="add: version is the version, which stays"):
        orders.add("c-1", 1, numbers={"version": 1})
    assert orders.stored() == added | {"pieces": 3, "version": 3}


@pytest.mark.parametrize("fault", [Fault.RESPONSE_LOST, Fault.SERVER_ERROR_AFTER])
def test_an_addition_whose_answer_was_lost_is_made_once_though_others_write_in_between(
    orders: Orders, others: Orders, fault: Fault
) -> None:
    orders.save(ids() | {"count": 5})
    between_tries(orders.client, lambda: others.modify("c-1", 1, change=count_up))
    with Faults(fault, at=1).on(orders.client) as faults:
        orders.add("c-1", 1, numbers={"count": 10})
    assert faults.injected
    assert orders.stored() == ids() | {"count": 16, "version": 3}


# --- transactions ----------------------------------------------------------------------------------------


def test_several_items_are_written_together_with_plain_writes_beside_them(orders: Orders) -> None:
    first, second, read_only = (orders.save(ids(number) | {"pieces": 10}) for number in (1, 2, 3))
    orders.plant(ids(4))
    orders.plant(ids(5) | {"sum": 7})
    orders.calls.clear()
    write_together(
        orders.client,
        [
            orders.saving(first | {"pieces": 9}),
            orders.deleting(second),
            orders.checking(read_only),
            Delete(orders.key("c-1", 4), exists("order_id")),
            Update(orders.key("c-1", 5), {"seen": True}, added={"sum": 1}),
            Put(orders.key("c-1", 6), {"note": "plain"}, absent("order_id")),
            Check(orders.key("c-1", 7), absent("order_id")),
            orders.saving(ids(8) | {"pieces": 1}),
        ],
    )
    assert orders.calls == ["TransactWriteItems"]
    orders.calls.clear()
    assert [orders.stored(number) for number in range(1, 9)] == [
        ids(1) | {"pieces": 9, "version": 2},
        None,
        ids(3) | {"pieces": 10, "version": 1},
        None,
        ids(5) | {"sum": 8, "seen": True},
        ids(6) | {"note": "plain"},
        None,
        ids(8) | {"pieces": 1, "version": 1},
    ]


@pytest.mark.parametrize("stale", range(4), ids=["saved", "deleted", "checked", "a plain one's condition"])
def test_of_a_transaction_all_takes_effect_or_nothing(orders: Orders, others: Orders, stale: int) -> None:
    items = [orders.save(ids(number)) for number in (1, 2, 3)]
    plain = Put(orders.key("c-1", 4), {}, absent("order_id"))
    writes = [orders.saving(items[0] | {"mine": 1}), orders.deleting(items[1]), orders.checking(items[2]), plain]
    others.plant(ids(4)) if stale == 3 else others.save(loaded(others, stale + 1) | {"theirs": 1})
    before = [orders.stored(number) for number in (1, 2, 3, 4)]
    with pytest.raises(Conflict) as caught:
        write_together(orders.client, writes)
    assert (caught.value.key, caught.value.found) == (writes[stale].key, before[stale])
    assert [orders.stored(number) for number in (1, 2, 3, 4)] == before


def test_100_items_are_written_together_and_101_refused_before_sending(orders: Orders) -> None:
    new = [orders.saving(ids(number)) for number in range(101)]
    with pytest.raises(ValueError, match="101 writes: a transaction of DynamoDB's takes at most 100"):
        write_together(orders.client, new)
    with pytest.raises(ValueError, match="order_id=7: two writes to one item"):
        write_together(orders.client, [*new[:20], new[7]])
    assert not orders.calls
    write_together(orders.client, new[:100])
    assert orders.stored(99) == ids(99) | {"version": 1}


# --- many items -------------------------------------------------------------------------------------------


def test_items_are_loaded_100_in_a_request_in_the_order_of_their_keys(orders: Orders) -> None:
    orders.put_many(ids(number) for number in range(0, 240, 2))
    orders.calls.clear()
    found = orders.load_many(orders.key("c-1", number) for number in (*range(240), 0))
    assert orders.calls == ["BatchGetItem"] * 3
    expected = [(number, 1) if number % 2 == 0 else None for number in (*range(240), 0)]
    assert [item and (item["order_id"], item["version"]) for item in found] == expected
    item = found[2]
    assert item is not None
    assert orders.save(item | {"pieces": 3})["version"] == 2
    with pytest.raises(ValueError, match=r"Others order_id='o-1' is no key of this table"):
        orders.load_many([key("Others", order_id="o-1")])
    with pytest.raises(ValueError, match=r"\('c-1', 1\) is no key of this table: make one with its `key`"):
        orders.load_many([("c-1", 1)])  # type: ignore[list-item]


def test_of_many_new_items_none_overwrites_and_a_second_call_goes_on(orders: Orders, others: Orders) -> None:
    theirs = others.save(ids(7) | {"pieces": 70})
    imported = [ids(number) | {"pieces": number} for number in range(250)]
    meter = Meter(orders.client)
    [there] = orders.put_many(iter(imported))
    assert there == theirs
    # A refused transaction, the same without the item, and two more: two units for each write of a transaction.
    assert (meter.requests, meter.write_units) == ({"TransactWriteItems": 4}, 2 * (100 + 99 + 100 + 50))
    assert orders.save(there | {"pieces": 71})["version"] == 2
    meter.reset()
    assert [item["order_id"] for item in orders.put_many(imported)] == [*range(250)]
    assert meter.requests == {"TransactWriteItems": 3}
    assert [item["pieces"] for item in orders.query(equals("customer_id", "c-1"))] == [*range(7), 71, *range(8, 250)]


def test_large_items_go_in_transactions_of_at_most_4_mb(orders: Orders) -> None:
    assert orders.put_many(ids(number) | {"text": "x" * 390_000} for number in range(12)) == []
    assert orders.calls == ["TransactWriteItems"] * 2


@pytest.mark.parametrize("count", [1, 2])
def test_new_items_whose_answer_was_lost_are_made_once_and_are_not_taken_for_others(orders: Orders, count: int) -> None:
    with Faults(Fault.RESPONSE_LOST, at=1).on(orders.client):
        assert orders.put_many(ids(number) for number in range(count)) == []
    assert len(orders.put_many(ids(number) for number in range(count))) == count


def test_an_import_that_ends_in_an_error_keeps_what_it_made_and_is_made_again(orders: Orders) -> None:
    items = [ids(number) for number in range(150)]
    with Faults(Fault.ALL_SERVER_ERRORS_AFTER, at=2).on(orders.client), pytest.raises(ClientError):
        orders.put_many(items)
    assert len(orders.put_many(items)) == 150


def test_what_is_no_new_item_is_refused_before_its_transaction(orders: Orders) -> None:
    for item, why in [
        (orders.save(ids(1)), "was loaded, so it is no new item: save it"),
        (ids(2) | {"price": 0.5}, "price: 0.5 is a float"),
        (ids(2) | {"version": 3}, "has version 3 and wasn't loaded"),
    ]:
        orders.calls.clear()
        with pytest.raises((TypeError, ValueError), match=why):
            orders.put_many([ids(3), item])
        assert orders.calls == []
    with pytest.raises(ValueError, match="two writes to one item"):
        orders.put_many([ids(3), ids(3)])


def test_new_ids_are_uuids_of_version_7_and_sort_by_their_times() -> None:
    made = []
    for _ in range(3):
        made.append(new_id())
        time.sleep(0.002)
    assert made == sorted(made)
    about = uuid.UUID(made[0])
    assert (about.version, about.variant, str(about)) == (7, uuid.RFC_4122, made[0])
    assert abs((about.int >> 80) / 1000 - time.time()) < 60
    assert len({new_id() for _ in range(1000)}) == 1000


# --- lost responses --------------------------------------------------------------------------------------


SENT_TWICE: dict[str, Callable[[Orders, VersionedItem], object]] = {
    "create": lambda orders, _: orders.save(ids(2)),
    "save": lambda orders, order: orders.save(order | {"pieces": 1}),
    "save unchecked": lambda orders, order: orders.save(order | {"pieces": 1}, checked=False),
    "update": lambda orders, _: orders.update("c-1", 1, version=1, values={"pieces": 1}),
    "transaction": lambda orders, order: write_together(
        orders.client, [orders.saving(order | {"pieces": 1}), orders.deleting(orders.save(ids(2)))]
    ),
    "deletes": lambda orders, order: write_together(
        orders.client, [orders.deleting(order), orders.deleting(orders.save(ids(2)))]
    ),
    "modify": lambda orders, _: orders.modify("c-1", 1, change=lambda item: (item or {}) | {"pieces": 1}),
}


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("way", SENT_TWICE)
def test_a_save_whose_response_was_lost_is_no_conflict_with_itself(orders: Orders, way: str, at: int) -> None:
    order = orders.save(ids() | {"pieces": 0})
    with Faults(Fault.RESPONSE_LOST, at=at).on(orders.client):
        SENT_TWICE[way](orders, order)
    expected = {"create": order, "deletes": None}.get(way, ids() | {"pieces": 1, "version": 2})
    assert orders.stored() == expected
    assert (orders.stored(2) is not None) == (way == "create")


def test_of_a_delete_whose_response_was_lost_the_error_says_that_it_cannot_be_known(orders: Orders) -> None:
    order = orders.save(ids())
    with (
        Faults(Fault.RESPONSE_LOST, at=1).on(orders.client),
        pytest.raises(OutcomeUnknown, match="the item is gone: by this write or by another") as caught,
    ):
        orders.delete(order)
    assert (caught.value.key, caught.value.found) == (orders.key("c-1", 1), None)


@pytest.mark.parametrize("way", ["save", "modify"])
def test_a_change_that_was_lost_and_overwritten_is_not_made_twice(orders: Orders, others: Orders, way: str) -> None:
    order = orders.save(ids() | {"count": 5})
    between_tries(orders.client, lambda: others.modify("c-1", 1, change=count_up))
    with (
        Faults(Fault.RESPONSE_LOST, at=2 if way == "modify" else 1).on(orders.client),
        pytest.raises(OutcomeUnknown, match="others have written since") as caught,
    ):
        orders.modify("c-1", 1, change=count_up) if way == "modify" else orders.save(order | {"count": 6})
    assert caught.value.found is not None
    assert orders.stored() == ids() | {"count": 7, "version": 3}


def test_an_unversioned_write_in_between_hides_nothing(orders: Orders, others: Orders) -> None:
    """The unversioned write leaves the version as it is. The lost write is recognized by the version id beside it."""
    orders.save(ids() | {"count": 5})
    note = Update(orders.key("c-1", 1), {"note": "theirs"})
    between_tries(orders.client, lambda: write_together(others.client, [note]))
    with Faults(Fault.RESPONSE_LOST, at=2).on(orders.client):
        assert orders.modify("c-1", 1, change=count_up)["count"] == 6
    assert orders.stored() == ids() | {"count": 6, "note": "theirs", "version": 2}


@pytest.mark.parametrize("do", ["delete", "modify", "save"])
def test_an_item_made_anew_is_not_taken_for_the_one_that_was_deleted(orders: Orders, others: Orders, do: str) -> None:
    order = orders.save(ids() | {"count": 5})

    def make_anew() -> None:
        if others.load("c-1", 1):
            others.delete(loaded(others))
        others.save(ids() | {"count": 100})

    between_tries(orders.client, make_anew)
    ways: dict[str, Callable[[], object]] = {
        "delete": lambda: orders.delete(order),
        "modify": lambda: orders.modify("c-1", 1, change=count_up),
        "save": lambda: orders.save(order | {"count": 6}),
    }
    with (
        Faults(Fault.RESPONSE_LOST, at=2 if do == "modify" else 1).on(orders.client),
        pytest.raises(OutcomeUnknown, match="others have written since"),
    ):
        ways[do]()
    assert orders.stored() == ids() | {"count": 100, "version": 1}


@pytest.mark.parametrize("checked", [True, False])
def test_without_any_fault_an_item_made_anew_is_a_conflict(orders: Orders, others: Orders, checked: bool) -> None:
    order = orders.save(ids() | {"count": 5}, checked=checked)
    others.delete(loaded(others))
    others.save(ids() | {"count": 100}, checked=checked)
    for write in (orders.save, orders.delete):
        with pytest.raises(Conflict, match="version 1, as expected, but of another item: it was deleted and made anew"):
            write(order | {"count": 6})
    assert orders.stored() == ids() | {"count": 100, "version": 1}


# --- invalid arguments -------------------------------------------------------------------------------


def test_a_float_is_refused_with_what_to_use_instead(orders: Orders) -> None:
    with pytest.raises(TypeError) as caught:
        orders.save(ids() | {"lines": [{"price": 0.1}]})
    assert str(caught.value) == (
        "lines[0].price: 0.1 is a float, and DynamoDB's numbers are exact decimals: use Decimal('0.1')"
    )
    order = orders.save(ids() | {"price": Decimal("0.1")})
    with pytest.raises(TypeError, match=r"price: 0\.2 is a float"):
        orders.save(order | {"price": 0.2})
    with pytest.raises(TypeError, match=r"a condition's value: 0\.2 is a float"):
        orders.save(order, when=equals("price", 0.2))


def test_decimals_are_exact(orders: Orders) -> None:
    exact = Decimal("1234567890.1234567890123456789012345678")
    assert orders.save(ids() | {"price": exact})["price"] == exact
    assert (orders.stored() or {})["price"] == exact
    with pytest.raises(ValueError, match=r"price: .* can't be held exactly: DynamoDB's numbers have at most 38 digits"):
        orders.modify("c-1", 1, change=lambda item: (item or {}) | {"price": Decimal(39 * "9")})


MISUSES: list[tuple[Callable[[Orders, VersionedItem], object], str]] = [
    (lambda orders, order: orders.save(dict(order)), "has version 1 and wasn't loaded"),
    (lambda orders, order: orders.save(order | {"version": 7}), "version was changed from 1 to 7: a save c"),
    (lambda orders, order: orders.save(order | {"order_id": 9}), "order_id is part of the key: to change i"),
    (lambda orders, order: orders.save(order | {"cw:write_id": 1}), "cw:write_id is the library's own attr"),
    (lambda orders, _: orders.save(ids(2) | {"cw:version_id": 7}), "cw:version_id is the library's own"),
    (lambda orders, _: orders.save(ids(2) | {"cw:item_bytes": 7}), "cw:item_bytes is the library's own"),
    (lambda orders, order: orders.save(order | {'cw:as_of ["a"]': {}}), r"cw:as_of \[.* is the library's own"),
    (lambda orders, _: orders.save({"customer_id": "c-1"}), "without order_id, which is part of its key"),
    (lambda orders, _: update(orders, values={"version": 7}), "version was changed from 1 to 7"),
    (lambda orders, _: update(orders, removed=["note", "version"]), "removed: version is the version, whi"),
    (lambda orders, _: update(orders, removed=["order_id"]), "removed: order_id is part of the key, which"),
    (lambda orders, _: update(orders, removed=["cw:version_id"]), "cw:version_id is the library's own att"),
    (lambda orders, _: orders.delete(ids()), "wasn't loaded, so there is no version to assert: load it"),
    (lambda orders, _: orders.checking(ids()), "wasn't loaded, so there is no version to assert"),
]
MISTYPED: list[tuple[Callable[[Orders, VersionedItem], object], str]] = [
    (lambda orders, order: orders.save(order | {7: "seven"}), "7 is no text, as the names in an item"),
    (lambda orders, _: update(orders, removed="note"), "removed: expected names, got one text, 'note'"),
    (lambda orders, _: update(orders, version=True), "version is True, expected a whole number"),
    (lambda orders, _: update(orders, version=Decimal("1.5")), r"version is Decimal\('1.5'\), expected"),
    (lambda orders, _: update(orders, version="1"), "version is '1', expected a whole number"),
    (lambda orders, _: orders.load("c-1"), "expected customer_id, order_id; got 1 values"),
    (lambda orders, _: orders.modify(ids(), 1, change=count_up), "customer_id is {.*}, expected a text, a n"),
]


def update(orders: Orders, version: Any = 1, **changes: Any) -> None:
    orders.update("c-1", 1, version=version, **{"values": {}} | changes)


def test_what_cannot_be_meant_is_refused_before_sending(orders: Orders) -> None:
    order = orders.save(ids())
    orders.calls.clear()
    for error, misuses in ((ValueError, MISUSES), (TypeError, MISTYPED)):
        for misuse, sentence in misuses:
            with pytest.raises(error, match=sentence):
                misuse(orders, order)
    assert not orders.calls
    with pytest.raises(ValueError, match="order_id is part of the key"):
        orders.modify("c-1", 1, change=lambda _: ids(2))
    with pytest.raises(TypeError, match="`change` returned None, expected the item as it should be"):
        orders.modify("c-1", 1, change=lambda _: None)  # type: ignore[arg-type, return-value]
    orders.plant(ids() | {"version": "first", "count": 1})
    with pytest.raises(TypeError, match="version is 'first', expected a whole number"):
        orders.modify("c-1", 1, change=count_up)
