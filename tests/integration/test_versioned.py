"""Versioned items on both engines, with a test for each claim in the README's comparison."""

import itertools
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from conditional_writes import (
    Check,
    Conflict,
    Deadline,
    DeadlinePassed,
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
    less_than,
    write_together,
)
from conditional_writes.items import from_dynamodb, to_dynamodb
from tests.support.answers import answer
from tests.support.faults import Fault, Faults, between_tries
from tools.local_aws.server import Endpoint

_numbers = itertools.count(1)


class Orders(VersionedTable):
    """The table under test, with direct access to its items."""

    def __init__(self, dynamodb: Endpoint, table: str, **settings: Any) -> None:
        self.client = dynamodb.client("dynamodb")
        self.table = table
        super().__init__(self.client, table, "customer_id", "order_id", **settings)
        self.calls: list[str] = []
        self.client.meta.events.register("before-call", lambda model, **_: self.calls.append(model.name))

    def stored(self, order: int = 1) -> Item | None:
        """The item in DynamoDB, without the library's `cw:write_id`."""
        response = self.client.get_item(TableName=self.table, Key=to_dynamodb(ids(order)), ConsistentRead=True)
        if "Item" not in response:
            return None
        item = from_dynamodb(response["Item"])
        return {name: value for name, value in item.items() if name not in {"cw:write_id", "cw:version_id"}}

    def plant(self, item: Item) -> None:
        """Writes an item directly, as another program would."""
        self.client.put_item(TableName=self.table, Item=to_dynamodb(item))


def ids(order: int = 1) -> Item:
    return {"customer_id": "c-1", "order_id": order}


@pytest.fixture(scope="session")
def create(request: pytest.FixtureRequest) -> Any:
    def create_table(dynamodb: Endpoint) -> str:
        name = f"orders-{next(_numbers)}"
        dynamodb.client("dynamodb").create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": "customer_id", "AttributeType": "S"},
                {"AttributeName": "order_id", "AttributeType": "N"},
            ],
            KeySchema=[
                {"AttributeName": "customer_id", "KeyType": "HASH"},
                {"AttributeName": "order_id", "KeyType": "RANGE"},
            ],
        )
        return name

    return create_table


@pytest.fixture
def table(dynamodb: Endpoint, create: Any) -> str:
    return str(create(dynamodb))


@pytest.fixture
def orders(dynamodb: Endpoint, table: str) -> Orders:
    return Orders(dynamodb, table)


@pytest.fixture
def others(dynamodb: Endpoint, table: str) -> Orders:
    """Another writer of the same table."""
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


def test_a_new_item_that_was_taken_for_a_loaded_one_says_how_to_create_one(orders: Orders) -> None:
    with pytest.raises(Conflict, match=r"there is no such item, or no longer: to create one, save a plain dict$"):
        orders.save(VersionedItem(ids() | {"status": "NEW"}))
    order = orders.save(ids() | {"status": "NEW"})
    orders.delete(order)
    with pytest.raises(Conflict, match=r"there is no such item, or no longer$"):
        orders.save(order)
    with pytest.raises(Conflict, match=r"there is no such item, or no longer$"):
        orders.save(ids(), when=exists("customer_id"))


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
    assert orders.stored() == ids() | {
        "status": "PAID",
        "lines": lines | {"c": 3},
        "tags": {"p", "q"},
        "version": 2,
    }


def test_a_change_inside_a_map_or_a_list_is_a_change(orders: Orders) -> None:
    order = orders.save(ids() | {"lines": {"a": [1, {"pieces": 2}]}, "paid": 1})
    order["lines"]["a"][1]["pieces"] = 5
    order["paid"] = True  # In Python True equals 1.
    order = orders.save(order)
    order["lines"]["a"].append(6)
    orders.save(order)
    assert orders.stored() == ids() | {"lines": {"a": [1, {"pieces": 5}, 6]}, "paid": True, "version": 3}
    assert (orders.stored() or {})["paid"] is True


def test_update_needs_the_version_alone_and_no_read(orders: Orders, others: Orders) -> None:
    orders.save(ids() | {"status": "NEW", "note": "x"})
    others.calls.clear()
    assert others.update("c-1", 1, version=1, values={"status": "PAID"}, removed=["note"]) == 2
    assert others.calls == ["UpdateItem"]
    assert orders.stored() == ids() | {"status": "PAID", "version": 2}
    with pytest.raises(Conflict, match="expected version 1, found version 2") as caught:
        orders.update("c-1", 1, version=1, values={"status": "LOST"})
    assert caught.value.found == orders.stored()


def test_update_adopts_an_item_that_has_no_version_yet(orders: Orders) -> None:
    orders.plant(ids() | {"note": "old"})
    assert orders.update("c-1", 1, version=0, values=ids() | {"note": "new"}) == 1
    assert orders.stored() == ids() | {"note": "new", "version": 1}
    with pytest.raises(Conflict, match="expected no version, found version 1"):
        orders.update("c-1", 1, version=0, values={"note": "newer"})
    with pytest.raises(Conflict, match="there is no such item, or no longer"):
        orders.update("c-1", 2, version=0, values={"note": "new"})


def test_delete_asserts_the_version(orders: Orders, others: Orders) -> None:
    order = orders.save(ids())
    others.save(loaded(others) | {"status": "THEIRS"})
    with pytest.raises(Conflict, match="expected version 1, found version 2"):
        orders.delete(order)
    orders.delete(loaded(orders))
    assert orders.stored() is None


@pytest.mark.parametrize("way", ["save", "save unchecked", "update", "in a transaction"])
def test_a_deleted_item_is_never_brought_back(orders: Orders, others: Orders, way: str) -> None:
    order = orders.save(ids() | {"status": "NEW"}) | {"status": "PAID"}
    ways = {
        "save": lambda: orders.save(order),
        "save unchecked": lambda: orders.save(order, checked=False),
        "update": lambda: orders.update("c-1", 1, version=1, values={"status": "PAID"}),
        "in a transaction": lambda: write_together(
            orders.client, [orders.saving(order), Put(orders.key("c-1", 2), {})]
        ),
    }
    others.delete(loaded(others))
    with pytest.raises(Conflict, match="no such item, or no longer") as caught:
        ways[way]()
    assert caught.value.found is None
    assert orders.stored() is None
    assert orders.stored(2) is None


def test_modify_learns_that_its_item_was_deleted(orders: Orders, others: Orders) -> None:
    orders.save(ids() | {"status": "NEW"})

    def pay_too_late(item: Item | None) -> Item:
        if item is None:
            raise LookupError("no such order")
        others.delete(loaded(others))
        return item | {"status": "PAID"}

    with pytest.raises(LookupError, match="no such order"):
        orders.modify("c-1", 1, change=pay_too_late)
    assert orders.stored() is None


def test_the_version_attribute_has_the_name_that_you_give_it(dynamodb: Endpoint, table: str) -> None:
    orders = Orders(dynamodb, table, version="revision")
    order = orders.save(ids() | {"version": "of the software"})
    orders.save(order | {"version": "newer"})
    assert orders.stored() == ids() | {"version": "newer", "revision": 2}
    with pytest.raises(Conflict, match="expected version 1, found version 2"):
        orders.delete(order)


# --- read, modify, write ---------------------------------------------------------------------------------


def count_up(item: Item | None) -> Item:
    return (item or {}) | {"count": (item or {"count": 0})["count"] + 1}


def test_modify_reads_once_and_writes_once(orders: Orders) -> None:
    assert orders.modify("c-1", 1, change=count_up)["version"] == 1
    orders.calls.clear()
    assert orders.modify("c-1", 1, change=count_up) == ids() | {"count": 2, "version": 2}
    assert orders.calls == ["GetItem", "UpdateItem"]


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


def test_modify_refuses_by_an_exception_of_your_own(orders: Orders) -> None:
    class SoldOut(Exception):
        pass

    def buy(item: Item | None) -> Item:
        raise SoldOut

    with pytest.raises(SoldOut):
        orders.modify("c-1", 1, change=buy)
    assert orders.stored() is None


def test_where_nothing_changes_nothing_is_written(orders: Orders) -> None:
    orders.save(ids() | {"count": 5})
    orders.calls.clear()
    for change in (lambda item: item, lambda item: {"count": Decimal("5.0")}):
        assert orders.modify("c-1", 1, change=change) == ids() | {"count": 5, "version": 1}
    assert orders.calls == ["GetItem", "GetItem"]


def test_modify_ends_at_the_deadline(orders: Orders, others: Orders) -> None:
    def always_too_late(item: Item | None) -> Item:
        others.modify("c-1", 1, change=count_up)
        return count_up(item) | {"mine": True}

    with pytest.raises(DeadlinePassed, match="conflicts"):
        orders.modify("c-1", 1, change=always_too_late, deadline=Deadline.after(0.5))
    assert "mine" not in (orders.stored() or {})


# --- conflicts -------------------------------------------------------------------------------------------


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
    orders.delete(order, checked=checked)
    assert orders.stored() is None
    orders.delete(ids(), checked=checked)  # The item is already deleted.


def test_a_call_can_ask_for_the_check_that_its_table_skips(dynamodb: Endpoint, table: str) -> None:
    orders = Orders(dynamodb, table, checked=False)
    order = orders.save(ids())
    orders.save(order | {"status": "NEWER"})
    with pytest.raises(Conflict):
        orders.save(order | {"status": "STALE"}, checked=True)
    with pytest.raises(Conflict):
        orders.delete(order, checked=True)


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


def test_an_item_without_a_version_is_not_brought_back(orders: Orders, others: Orders) -> None:
    orders.plant(ids() | {"status": "OLD"})
    mine = loaded(orders)
    others.delete(loaded(others))
    with pytest.raises(Conflict, match="no such item"):
        orders.save(mine | {"status": "MINE"})
    assert orders.stored() is None


def test_an_item_with_a_version_of_another_programs_is_not_brought_back(orders: Orders, others: Orders) -> None:
    """The item has no `cw:version_id`, so that only its version shows that it exists."""
    orders.plant(ids() | {"status": "OLD", "version": 7})
    mine = loaded(orders)
    others.delete(loaded(others))
    with pytest.raises(Conflict, match="no such item"):
        orders.save(mine | {"status": "MINE"})
    assert orders.stored() is None


# --- conditions ------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("stale", ["saved", "deleted", "checked", "a plain one's condition"])
def test_of_a_transaction_all_takes_effect_or_nothing(orders: Orders, others: Orders, stale: str) -> None:
    items = [orders.save(ids(number)) for number in (1, 2, 3)]
    plain = Put(orders.key("c-1", 4), {}, absent("order_id"))
    writes = [
        orders.saving(items[0] | {"mine": 1}),
        orders.deleting(items[1]),
        orders.checking(items[2]),
        plain,
    ]
    at = ["saved", "deleted", "checked", "a plain one's condition"].index(stale)
    others.plant(ids(4)) if at == 3 else others.save(loaded(others, at + 1) | {"theirs": 1})
    before = [orders.stored(number) for number in (1, 2, 3, 4)]
    with pytest.raises(Conflict) as caught:
        write_together(orders.client, writes)
    assert caught.value.key == writes[at].key
    assert caught.value.found == before[at]
    assert [orders.stored(number) for number in (1, 2, 3, 4)] == before


def test_one_item_alone_goes_as_a_plain_write_and_never_a_batch(orders: Orders) -> None:
    order = orders.save(ids())
    write_together(orders.client, [orders.saving(order | {"pieces": 1})])
    write_together(orders.client, [orders.deleting(loaded(orders))])
    assert set(orders.calls) == {"PutItem", "UpdateItem", "DeleteItem", "GetItem"}
    orders.calls.clear()
    write_together(orders.client, [Check(orders.key("c-1", 1), absent("order_id"))])
    assert orders.calls == ["TransactWriteItems"]


def test_100_items_are_written_together_and_101_refused_before_sending(orders: Orders) -> None:
    new = [orders.saving(ids(number)) for number in range(101)]
    with pytest.raises(ValueError, match="101 writes: a transaction of DynamoDB's takes at most 100"):
        write_together(orders.client, new)
    with pytest.raises(ValueError, match="order_id=7: two writes to one item"):
        write_together(orders.client, [*new[:20], new[7]])
    assert not orders.calls
    write_together(orders.client, new[:100])
    assert orders.stored(99) == ids(99) | {"version": 1}


# --- lost responses --------------------------------------------------------------------------------------


@pytest.fixture
def losing(orders: Orders) -> Iterator[Faults]:
    """Loses the response of the first call, so that the SDK sends it again."""
    faults = Faults(Fault.RESPONSE_LOST, at=1)
    with faults.on(orders.client):
        yield faults


def test_a_save_whose_response_was_lost_is_no_conflict_with_itself(orders: Orders, others: Orders) -> None:
    for number, (make, version) in enumerate(
        [
            (lambda: orders.save(ids()), 1),
            (lambda: orders.save(loaded(others) | {"pieces": 1}), 2),
            (lambda: orders.save(loaded(others) | {"pieces": 2}, checked=False), 3),
            (lambda: {"version": orders.update("c-1", 1, version=3, values={"pieces": 3})}, 4),
        ]
    ):
        with Faults(Fault.RESPONSE_LOST, at=1).on(orders.client) as faults:
            assert make()["version"] == version, number
        assert faults.injected
        assert (orders.stored() or {})["version"] == version


def test_modify_whose_response_was_lost_changes_once(orders: Orders) -> None:
    orders.save(ids() | {"count": 5})
    with Faults(Fault.RESPONSE_LOST, at=2).on(orders.client) as faults:
        assert orders.modify("c-1", 1, change=count_up)["count"] == 6
    assert faults.injected
    assert orders.stored() == ids() | {"count": 6, "version": 2}


def test_a_transaction_whose_response_was_lost_is_no_conflict_with_itself(
    orders: Orders, others: Orders, losing: Faults
) -> None:
    for number in (1, 2, 3):
        others.save(ids(number))
    write_together(
        orders.client,
        [
            orders.saving(loaded(others, 1) | {"mine": True}),
            orders.deleting(loaded(others, 2)),
            orders.checking(loaded(others, 3)),
        ],
    )
    assert losing.injected
    assert orders.stored() == ids() | {"mine": True, "version": 2}
    assert orders.stored(2) is None


def test_deletes_alone_in_a_transaction_are_no_conflict_with_themselves(
    orders: Orders, others: Orders, losing: Faults
) -> None:
    for number in (1, 2):
        others.save(ids(number))
    write_together(orders.client, [orders.deleting(loaded(others, number)) for number in (1, 2)])
    assert losing.injected


def test_of_a_delete_whose_response_was_lost_the_error_says_that_it_cannot_be_known(
    orders: Orders, others: Orders, losing: Faults
) -> None:
    others.save(ids())
    with pytest.raises(OutcomeUnknown, match="the item is gone: by this write or by another") as caught:
        orders.delete(loaded(others))
    assert losing.injected
    assert (caught.value.key, caught.value.found) == (orders.key("c-1", 1), None)


def test_a_delete_that_others_were_first_to_make_is_a_conflict(orders: Orders, others: Orders) -> None:
    order = orders.save(ids())
    others.delete(loaded(others))
    with pytest.raises(Conflict, match="no such item, or no longer"):
        orders.delete(order)


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


def test_a_change_that_never_arrived_and_was_sent_again_too_late_is_an_ordinary_conflict(
    orders: Orders, others: Orders
) -> None:
    orders.save(ids() | {"count": 5})
    between_tries(orders.client, lambda: others.modify("c-1", 1, change=count_up))
    with Faults(Fault.SERVER_ERROR, at=2).on(orders.client) as faults:
        assert orders.modify("c-1", 1, change=count_up)["count"] == 7
    assert faults.injected
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


def test_of_a_lost_delete_of_an_item_without_a_version_nothing_is_known_once_there_is_one_with_a_version(
    orders: Orders, others: Orders
) -> None:
    orders.plant(ids() | {"count": 5})
    order = loaded(orders)
    between_tries(orders.client, lambda: others.save(ids() | {"count": 100}))
    with (
        Faults(Fault.RESPONSE_LOST, at=1).on(orders.client),
        pytest.raises(OutcomeUnknown, match="others have written since"),
    ):
        orders.delete(order)
    assert orders.stored() == ids() | {"count": 100, "version": 1}


def test_an_update_that_never_arrived_and_whose_condition_is_false_is_an_ordinary_conflict(orders: Orders) -> None:
    orders.save(ids() | {"count": 5})
    with (
        Faults(Fault.SERVER_ERROR, at=1).on(orders.client) as faults,
        pytest.raises(Conflict, match="version 1, as expected, but the condition doesn't hold"),
    ):
        orders.update("c-1", 1, version=1, values={"count": 6}, when=equals("count", 4))
    assert faults.injected


def test_an_item_that_an_unchecked_save_made_anew_is_a_conflict(orders: Orders) -> None:
    before = orders.save(ids() | {"owner": "a"}, checked=False)
    orders.delete(before)
    orders.save(ids() | {"owner": "b"}, checked=False)
    with pytest.raises(Conflict, match="version 1, as expected, but of another item: it was deleted and made anew"):
        orders.save(before | {"paid": True})
    assert orders.stored() == ids() | {"owner": "b", "version": 1}


def test_without_any_fault_an_item_made_anew_is_a_conflict(orders: Orders, others: Orders) -> None:
    order = orders.save(ids() | {"count": 5})
    others.delete(loaded(others))
    others.save(ids() | {"count": 100})
    anew = "version 1, as expected, but of another item: it was deleted and made anew"
    with pytest.raises(Conflict, match=anew):
        orders.save(order | {"count": 6})
    with pytest.raises(Conflict, match=anew):
        orders.delete(order)
    assert orders.stored() == ids() | {"count": 100, "version": 1}


def test_a_throttled_try_had_no_effect_so_what_follows_is_an_ordinary_conflict(orders: Orders, others: Orders) -> None:
    orders.save(ids() | {"count": 5})
    between_tries(orders.client, lambda: [others.modify("c-1", 1, change=count_up) for _ in range(2)])
    with Faults(Fault.THROTTLED, at=2).on(orders.client) as faults:
        assert orders.modify("c-1", 1, change=count_up)["count"] == 8
    assert faults.injected


def test_an_unchecked_save_under_a_condition_says_when_it_cannot_know(orders: Orders, others: Orders) -> None:
    order = orders.save(ids() | {"status": "NEW"})
    between_tries(orders.client, lambda: others.save(loaded(others) | {"note": "theirs"}))
    with Faults(Fault.RESPONSE_LOST, at=1).on(orders.client), pytest.raises(OutcomeUnknown):
        orders.save(order | {"status": "PAID"}, checked=False, when=equals("status", "NEW"))


def test_at_the_deadline_an_unanswered_write_is_unknown(orders: Orders) -> None:
    orders.save(ids() | {"count": 5})
    answers = iter(["lost"])
    orders.client.meta.events.register_first(
        "before-send.dynamodb.UpdateItem", lambda request, **_: refused_for_timing(orders, request, answers)
    )
    with pytest.raises(OutcomeUnknown, match="no time is left for another"):
        orders.modify("c-1", 1, change=count_up, deadline=Deadline.after(2))
    assert orders.stored() == ids() | {"count": 6, "version": 2}


class PassingDeadline:
    """It passes between the loop's first look at the clock after an unanswered try and the next look."""

    def __init__(self) -> None:
        self.looks = iter([1.0])
        self.checks = iter(["the read", "the first try"])

    @property
    def remaining_seconds(self) -> float:
        return next(self.looks, 0.0)

    def check(self, doing: str) -> None:
        if not next(self.checks, None):
            raise DeadlinePassed(doing)


def test_a_deadline_that_passes_between_two_looks_never_says_that_nothing_was_written(orders: Orders) -> None:
    orders.save(ids() | {"count": 5})
    answers = iter(["lost"])
    orders.client.meta.events.register_first(
        "before-send.dynamodb.UpdateItem", lambda request, **_: refused_for_timing(orders, request, answers)
    )
    deadline: Any = PassingDeadline()
    with pytest.raises(OutcomeUnknown, match="no time is left for another"):
        orders.modify("c-1", 1, change=count_up, deadline=deadline)
    assert orders.stored() == ids() | {"count": 6, "version": 2}


def refused_for_timing(orders: Orders, request: Any, answers: Iterator[str]) -> Any:
    """The first attempt takes effect without an answer. Each later one conflicts with a transaction."""
    if next(answers, None):
        orders.client._endpoint.http_session.send(request)
        raise ReadTimeoutError(endpoint_url=request.url)
    return answer(request, 400, {"__type": "com.amazonaws.dynamodb.v20120810#TransactionConflictException"})


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


def test_what_cannot_be_meant_is_refused_before_sending(orders: Orders) -> None:
    order = orders.save(ids())
    orders.calls.clear()
    for item, sentence in [
        (dict(order), "has version 1 and wasn't loaded"),
        (order | {"version": 7}, "version was changed from 1 to 7: a save counts it"),
        (order | {"order_id": 9}, "order_id is part of the key: to change it, save a new item and delete this one"),
        (order | {"cw:write_id": "mine"}, "cw:write_id is the library's own attribute"),
        (ids(2) | {"cw:version_id": 7}, "cw:version_id is the library's own attribute"),
        (ids(2) | {"cw:item_bytes": 7}, "cw:item_bytes is the library's own attribute"),
        (order | {'cw:as_of ["lines"]': {}}, r"cw:as_of \[\"lines\"\] is the library's own attribute"),
        ({"customer_id": "c-1"}, "an item without order_id, which is part of its key"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            orders.save(item)
    with pytest.raises(TypeError, match="7 is no text, as the names in an item and its maps are: use '7'"):
        orders.save(order | {7: "seven"})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="version was changed from 1 to 7"):
        orders.update("c-1", 1, version=1, values={"version": 7})
    for name, what in [
        ("version", "the version"),
        ("order_id", "part of the key"),
        ("cw:version_id", "the library's own attribute"),
    ]:
        with pytest.raises(ValueError, match=f"removed: {name} is {what}, which stays"):
            orders.update("c-1", 1, version=1, values={"status": "PAID"}, removed=["note", name])
    with pytest.raises(TypeError, match="removed: expected names, got one text, 'note'"):
        orders.update("c-1", 1, version=1, values={}, removed="note")
    for no_version in (True, Decimal("1.5"), "1"):
        with pytest.raises(TypeError, match=f"version is {re.escape(repr(no_version))}, expected a whole number"):
            orders.update("c-1", 1, version=no_version, values={"status": "PAID"})  # type: ignore[arg-type]
    plain: Any = ids()
    for assert_version in (orders.delete, orders.checking):
        with pytest.raises(ValueError, match="wasn't loaded, so there is no version to assert: load it"):
            assert_version(plain)
    with pytest.raises(TypeError, match="expected customer_id, order_id; got 1 values"):
        orders.load("c-1")
    assert not orders.calls
    with pytest.raises(ValueError, match="order_id is part of the key"):
        orders.modify("c-1", 1, change=lambda _: ids(2))
    with pytest.raises(TypeError, match="`change` returned None, expected the item as it should be"):
        orders.modify("c-1", 1, change=lambda item: None)  # type: ignore[arg-type, return-value]
    orders.plant(ids() | {"version": "first", "count": 1})
    with pytest.raises(TypeError, match="version is 'first', expected a whole number"):
        orders.modify("c-1", 1, change=count_up)
