"""Queries and scans of versioned tables: their items can be saved."""

import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import (
    Condition,
    Conflict,
    Deadline,
    Item,
    Key,
    NoSuchTable,
    Put,
    Update,
    VersionedItem,
    VersionedTable,
    WrongKey,
    at_least,
    at_most,
    begins_with,
    between,
    contains,
    equals,
    exists,
    less_than,
    more_than,
    read,
    write_together,
)
from conditional_writes.upserts import MapEntry
from conditional_writes.versioned import Page, Pages
from tests.support.new_tables import calls_of, index, new_table
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint


def create(dynamodb: Endpoint, sort_key_type: str = "N") -> str:
    """A table of orders, with an index by status, and two more that lack most attributes."""
    by_status = "status", "placed_at"
    versions = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["version", "cw:version_id", "note"]}
    return new_table(
        dynamodb.client("dynamodb"),
        {"customer_id": "S", "order_id": sort_key_type},
        {"status": "S", "placed_at": "N"},
        GlobalSecondaryIndexes=[
            index("by_status", *by_status),
            index("keys_by_status", *by_status, projection={"ProjectionType": "KEYS_ONLY"}),
            index("versions_by_status", *by_status, projection=versions),
        ],
        LocalSecondaryIndexes=[index("by_place", "customer_id", "placed_at")],
    )


class Orders(VersionedTable):
    """The table under test, with its calls."""

    def __init__(self, dynamodb: Endpoint, table: str, *key_names: str) -> None:
        self.client, self.table = dynamodb.client("dynamodb"), table
        super().__init__(self.client, table, *(key_names or ("customer_id", "order_id")))
        self.calls = calls_of(self.client)

    def saved(self, *order_ids: Any, **attributes: Any) -> list[VersionedItem]:
        return [self.save({"customer_id": "c-1", "order_id": each} | attributes) for each in order_ids]


@pytest.fixture
def orders(dynamodb: Endpoint) -> Orders:
    return Orders(dynamodb, create(dynamodb))


@pytest.fixture
def others(dynamodb: Endpoint, orders: Orders) -> Orders:
    return Orders(dynamodb, orders.table)


OF_C_1 = equals("customer_id", "c-1")


def ids(items: Iterator[VersionedItem]) -> list[Any]:
    return [item["order_id"] for item in items]


# --- queries ---------------------------------------------------------------------------------------------


def test_an_item_that_others_changed_after_its_page_was_read_is_a_conflict(orders: Orders, others: Orders) -> None:
    orders.saved(1, 2, 3)
    found = orders.query(OF_C_1, page_size=2)
    first = next(found)
    for each in (1, 2, 3):
        others.save(others.get("c-1", each) | {"note": "theirs"})
    with pytest.raises(Conflict, match="expected version 1, found version 2") as caught:
        orders.save(first | {"note": "mine"})
    assert caught.value.found == others.get("c-1", 1)
    assert [item.get("note") for item in found] == [None, "theirs"]  # the second page was read afterwards


SORT_KEYS: dict[str, list[Any]] = {
    "N": [Decimal(number) for number in ("-1E+10", "-2", "-1.5", "0", "0.1", "1", "9", "10", "1E+125")],
    "S": ["", "A", "a", "a-1", "a-10", "a-2", "b", "é", "\U0001f600"][1:],
    "B": [b"\x00", b"\x00\x01", b"a", b"ab", b"\x80", b"\xff"],
}


@pytest.mark.parametrize("type_name", SORT_KEYS)
def test_a_condition_on_the_sort_key_finds_what_python_would(dynamodb: Endpoint, type_name: str) -> None:
    keys = SORT_KEYS[type_name]
    orders = Orders(dynamodb, create(dynamodb, type_name))
    orders.saved(*keys)
    assert ids(orders.query(OF_C_1)) == keys
    for value in keys:
        means: list[tuple[Condition, Callable[[Any], bool]]] = [
            (equals("order_id", value), lambda each, value=value: each == value),
            (less_than("order_id", value), lambda each, value=value: each < value),
            (at_most("order_id", value), lambda each, value=value: each <= value),
            (more_than("order_id", value), lambda each, value=value: each > value),
            (at_least("order_id", value), lambda each, value=value: each >= value),
            (between("order_id", keys[0], value), lambda each, value=value: each <= value),
            (between("order_id", value, keys[-1]), lambda each, value=value: each >= value),
        ]
        if type_name != "N":
            means.append((begins_with("order_id", value), lambda each, value=value: each.startswith(value)))
        for condition, holds in means:
            assert ids(orders.query(OF_C_1 & condition)) == list(filter(holds, keys)), condition
            assert ids(orders.query(condition & OF_C_1)) == list(filter(holds, keys)), condition


def test_a_match_leaves_items_out_and_takes_any_condition(orders: Orders) -> None:
    orders.saved(1, 3, status="NEW", tags={"p", "q"})
    orders.saved(2, status="PAID", tags={"p"})
    orders.saved(4)
    late = OF_C_1 & at_least("order_id", 2)
    assert ids(orders.query(late, matching=equals("status", "NEW"))) == [3]
    assert ids(orders.query(late, matching=~equals("status", "NEW"))) == [2, 4]
    assert ids(orders.query(late, matching=contains("tags", "q") | ~exists("tags"))) == [3, 4]
    assert ids(orders.query(late, matching=between("version", 2, 3))) == []


def test_an_empty_page_is_not_the_last(orders: Orders) -> None:
    orders.saved(*range(1, 7))
    orders.saved(7, status="PAID")
    orders.calls.clear()
    assert ids(orders.query(OF_C_1, matching=equals("status", "PAID"), page_size=2)) == [7]
    assert orders.calls == ["Query"] * 4
    assert ids(orders.scan(matching=equals("status", "PAID"), page_size=2)) == [7]


@pytest.mark.parametrize(
    ("page_size", "requests", "units"),
    [
        (None, 1, 1.5),  # 10 items of some 1,040 bytes: three blocks of 4 kB
        (3, 4, 2.0),  # 1 block, thrice, and 1 for the last item
        (5, 3, 2.5),  # 2 blocks, twice, and an empty page: of a full one DynamoDB doesn't know that it is the last
    ],
)
def test_a_page_costs_one_request_and_half_a_unit_per_started_4_kb(
    orders: Orders, page_size: int | None, requests: int, units: float
) -> None:
    orders.saved(*range(10), text="x" * 1_000)
    meter = Meter(orders.client)
    for consistent in (False, True):
        for find in (lambda **pages: orders.query(OF_C_1, **pages), orders.scan):
            meter.reset()
            assert len(list(find(consistent=consistent, page_size=page_size))) == 10
            assert sum(meter.requests.values()) == requests
            assert meter.read_units == units * (2 if consistent else 1)


# --- indexes ---------------------------------------------------------------------------------------------


@pytest.fixture
def placed(orders: Orders) -> Orders:
    for order_id, placed_at in ((1, 30), (2, 10), (3, 20)):
        orders.save({"customer_id": "c-1", "order_id": order_id, "status": "NEW", "placed_at": placed_at, "pieces": 5})
    orders.saved(4, status="PAID", placed_at=5)
    orders.saved(5)  # isn't in the indexes
    return orders


NEW = equals("status", "NEW")


def test_an_index_has_an_order_of_its_own_and_its_items_can_be_saved(placed: Orders) -> None:
    assert ids(placed.query(NEW, index="by_status")) == [2, 3, 1]
    late = NEW & more_than("placed_at", 10)
    assert ids(placed.query(late, index="by_status", descending=True, page_size=1)) == [1, 3]
    assert ids(placed.query(OF_C_1 & between("placed_at", 5, 20), index="by_place", consistent=True)) == [4, 2, 3]
    for order in placed.query(late, index="by_status"):
        placed.save(order | {"status": "PAID"})
    assert ids(placed.query(NEW, index="by_status")) == [2]
    assert placed.get("c-1", 3)["version"] == 2
    assert sorted(ids(placed.scan(index="by_status"))) == [1, 2, 3, 4]


def test_an_item_of_an_index_that_lags_behind_is_a_conflict(placed: Orders, others: Orders) -> None:
    [stale] = placed.query(NEW & equals("placed_at", 10), index="by_status")
    others.save(others.get("c-1", 2) | {"pieces": 6})
    with pytest.raises(Conflict, match="expected version 1, found version 2"):
        placed.save(stale | {"pieces": 7})


def test_an_item_without_its_version_is_not_saved_but_says_what_to_do(placed: Orders) -> None:
    order = next(placed.query(NEW, index="keys_by_status"))
    assert order == {"customer_id": "c-1", "order_id": 2, "status": "NEW", "placed_at": 10}
    placed.calls.clear()
    for save in (placed.save, placed.delete, placed.saving, placed.deleting, placed.checking):
        with pytest.raises(ValueError, match="from the index keys_by_status, which lacks its version: load the"):
            save(order | {"pieces": 6})
    assert placed.calls == []
    whole = placed.get("c-1", 2)
    assert placed.save(whole | {"pieces": 6})["version"] == 2
    saved = placed.save(order | {"note": "x"}, checked=False)
    assert (saved, saved.index) == (whole | {"pieces": 6, "note": "x", "version": 3}, None)
    placed.delete(order, checked=False)
    assert placed.load("c-1", 2) is None


# --- scans, and going on later ---------------------------------------------------------------------------


def test_a_scan_has_all_items_once_and_they_can_be_saved(orders: Orders) -> None:
    for customer, order in itertools.product(("c-1", "c-2", "c-3"), range(5)):
        orders.save({"customer_id": customer, "order_id": order})
    for item in orders.scan(page_size=4):
        orders.save(item | {"seen": True})
    segments = [list(orders.scan(segment=(each, 3), page_size=4, consistent=True)) for each in range(3)]
    found = list(itertools.chain(*segments))
    assert len({orders.key(item["customer_id"], item["order_id"]) for item in found}) == len(found) == 15
    assert all(item["seen"] and item["version"] == 2 for item in found)


def test_a_query_and_a_scan_go_on_after_an_item_even_if_it_is_gone(orders: Orders) -> None:
    items = orders.saved(*range(1, 6))
    orders.delete(items[1])
    for find in (lambda **after: orders.query(OF_C_1, **after), orders.scan):
        assert ids(find(after=orders.key("c-1", 2))) == [3, 4, 5]
        assert ids(find(after=orders.key("c-1", 3), page_size=1)) == [4, 5]
        assert ids(find(after=orders.key("c-1", 5))) == []
    assert ids(orders.query(OF_C_1, after=orders.key("c-1", 3), descending=True)) == [1]


def test_a_page_has_a_token_with_which_another_process_goes_on(orders: Orders, dynamodb: Endpoint) -> None:
    for number in range(1, 8):
        status = "PAID" if number % 2 else "NEW"
        orders.save({"customer_id": "c-1", "order_id": number, "status": status, "placed_at": number})
    other = Orders(dynamodb, orders.table, "customer_id", "order_id")
    paid = {"condition": equals("status", "PAID"), "index": "by_status"}

    def read_in_pages(find: Callable[..., Pages[VersionedItem]], **of: Any) -> list[list[int]]:
        page = find(page_size=3, **of).page()
        found = [ids(iter(page.items))]
        while page.token is not None:
            page = find(page_size=3, after=page.token, **of).page()
            found.append(ids(iter(page.items)))
        return found

    assert read_in_pages(other.query, condition=OF_C_1) == [[1, 2, 3], [4, 5, 6], [7]]
    assert read_in_pages(other.query, **paid) == [[1, 3, 5], [7]]
    assert read_in_pages(other.query, **paid, matching=equals("order_id", 7)) == [[], [7]]
    assert sorted(itertools.chain(*read_in_pages(other.scan, index="by_status"))) == [*range(1, 8)]
    pages = other.query(OF_C_1, page_size=3)
    assert next(pages)["order_id"] == 1
    assert [ids(iter(pages.page().items)) for _ in range(3)] == [[2, 3], [4, 5, 6], [7]]
    assert pages.page() == Page([], None)
    other.calls.clear()
    assert ids(other.query(OF_C_1, after=orders.query(OF_C_1, page_size=5).page().token)) == [6, 7]
    assert other.calls == ["Query"]


def test_a_token_is_taken_for_its_own_query_alone(orders: Orders) -> None:
    orders.saved(1, 2)
    for wrong in ("", "c-1", "e30", "bnVsbA", "eyJhIjp7IlgiOiJiIn19", "W1tb" * 9_000):
        with pytest.raises(
            ValueError, match=r"after: '.*', expected the key of one of its items, or the token of a page"
        ):
            orders.query(OF_C_1, after=wrong)
    token = orders.query(OF_C_1, page_size=1).page().token
    with pytest.raises(ClientError, match="ValidationException"):
        orders.query(equals("customer_id", "c-2"), after=token).page()


# --- the wrong table, the wrong key ----------------------------------------------------------------------


def calls_with(table: VersionedTable, client: Any, key: Key) -> dict[str, Callable[[], object]]:
    """Each call of the library that sends the key of this table."""
    values = [value for _, value in key.attributes]
    item: Item = dict(key.attributes)
    elsewhere = Put(Key(key.table, (("customer_id", "c-1"), ("order_id", 99))), {})
    return {
        "load": lambda: table.load(*values),
        "get": lambda: table.get(*values),
        "read": lambda: read(client, [key], Deadline.after(5)),
        "create": lambda: table.save(item),
        "update": lambda: table.update(*values, version=1, values={"note": "x"}),
        "delete": lambda: table.delete(VersionedItem(item | {"version": 1})),
        "modify": lambda: table.modify(*values, change=lambda found: found or {}),
        "together": lambda: write_together(client, [Update(key, {"note": "x"}), elsewhere]),
        "upsert": lambda: table.upsert(*values, entries=[MapEntry(("devices", "d-1"), 1)]),
    }


def test_a_missing_table_is_named_by_every_call(dynamodb: Endpoint) -> None:
    nowhere = Orders(dynamodb, "nowhere")
    calls = calls_with(nowhere, nowhere.client, nowhere.key("c-1", 1))
    calls |= {"query": lambda: list(nowhere.query(OF_C_1)), "scan": lambda: list(nowhere.scan())}
    for name, call in calls.items():
        with pytest.raises(NoSuchTable, match="there is no table nowhere in us-east-1") as caught:
            call()
        assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException", name


@pytest.mark.parametrize("wrong", ["names", "types", "number"])
def test_a_wrong_key_is_named_by_every_call(
    request: pytest.FixtureRequest, dynamodb: Endpoint, orders: Orders, wrong: str
) -> None:
    names, values = {
        "names": (["customer_id", "order"], ["c-1", 1]),
        "types": (["customer_id", "order_id"], ["c-1", "1"]),
        "number": (["customer_id"], ["c-1"]),
    }[wrong]
    table = Orders(dynamodb, orders.table, *names)
    key = table.key(*values)
    calls = calls_with(table, table.client, key)
    if wrong != "types" and dynamodb == request.getfixturevalue("ministack"):
        del calls["together"]  # ministack takes an item without its key in a transaction
    for name, call in calls.items():
        with pytest.raises(WrongKey, match="the key has other names or types in DynamoDB") as caught:
            call()
        assert str(caught.value).startswith(str(key)), name
        assert caught.value.response["Error"]["Code"] in {"ValidationException", "TransactionCanceledException"}


def test_a_query_by_another_key_says_so(dynamodb: Endpoint, orders: Orders) -> None:
    other = Orders(dynamodb, orders.table, "customer", "order_id")
    for found in (
        other.query(equals("customer", "c-1")),
        orders.query(OF_C_1 & equals("order_id", "1")),
        orders.query(OF_C_1, index="by_status"),
        other.scan(after=other.key("c-1", 1)),
    ):
        with pytest.raises(WrongKey, match=f"^{orders.table}.*: the key has other names or types in DynamoDB: "):
            next(found)
