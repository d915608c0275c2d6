"""Several kinds of items in one table: keys from templates, a query of one kind or of all, and what makes no key."""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from conditional_writes import Conflict, NoSuchItem, VersionedTable, begins_with, equals
from conditional_writes.models import Loaded, Misfit, ModelTable, UnfitModel, one_of
from tests.support.new_tables import new_table
from tools.local_aws.server import Endpoint

pytestmark = pytest.mark.usefixtures("driver")


@dataclass(frozen=True)
class Customer:
    customer_id: str
    name: str = ""


@dataclass(frozen=True)
class Order:
    customer_id: str
    number: int
    status: str = "NEW"


class Line(pydantic.BaseModel, extra="forbid"):
    """It takes no pk and no sk, and names neither."""

    customer_id: str
    number: int
    sku: str


CUSTOMER = {"pk": "CUSTOMER#{customer_id}", "sk": "PROFILE"}
ORDER = {"pk": "CUSTOMER#{customer_id}", "sk": "ORDER#{number:05d}"}
LINE = ORDER | {"sk": "ORDER#{number:05d}#LINE#{sku}"}


class Shop:
    """One table, its three kinds of models, and the same table without a kind."""

    def __init__(self, client: Any) -> None:
        name = new_table(client, {"pk": "S", "sk": "S"})
        self.all = VersionedTable(client, name, "pk", "sk")
        self.customers = ModelTable(client, name, "pk", "sk", model=Customer, templates=CUSTOMER)
        self.orders = ModelTable(client, name, "pk", "sk", model=Order, templates=ORDER)
        self.lines = ModelTable(client, name, "pk", "sk", model=Line, templates=LINE)

    def fill(self) -> None:
        self.customers.put_many([Customer("ada"), Customer("bob")])
        self.orders.put_many([Order("ada", 7), Order("ada", 12), Order("bob", 7)])
        self.lines.put_many([Line(customer_id="ada", number=7, sku=sku) for sku in ("tea", "cup")])


@pytest.fixture
def shop(dynamodb: Endpoint) -> Shop:
    return Shop(dynamodb.client("dynamodb"))


def test_a_key_is_made_of_fields_and_the_item_is_changed_and_deleted_as_ever(shop: Shop) -> None:
    order = shop.orders.save(Order("ada", 7))
    item = shop.all.get("CUSTOMER#ada", "ORDER#00007")
    assert (item["customer_id"], item["number"], item["version"]) == ("ada", 7, 1)
    paid = shop.orders.modify("ada", 7, change=lambda found: replace(found or Order("ada", 7), status="PAID"))
    assert (paid.model, paid.version) == (Order("ada", 7, "PAID"), 2)
    assert shop.orders.get("ada", Decimal(7)) == paid
    with pytest.raises(Conflict, match="expected version 1, found version 2"):
        shop.orders.save(order.changed_to(replace(order.model, status="LATE")))
    with pytest.raises(Conflict, match="expected no item, found one with version 2"):
        shop.orders.save(Order("ada", 7))
    shop.orders.delete(paid)
    assert shop.orders.load("ada", 7) is None
    made = shop.orders.modify("ada", 8, change=lambda _: Order("ada", 8))
    assert shop.all.get("CUSTOMER#ada", "ORDER#00008") == made.item
    with pytest.raises(NoSuchItem, match="ORDER#00009"):
        shop.orders.get("ada", 9)


def test_an_item_that_an_addition_creates_has_the_fields_of_its_key(shop: Shop) -> None:
    shop.orders.table.add("ada", 7, defaults={"status": "PAID"})
    assert shop.orders.get("ada", 7).model == Order("ada", 7, "PAID")
    shop.orders.table.add("ada", 7, numbers={"pieces": 2})
    assert [order.model for order in shop.orders.query(shop.orders.within("ada"))] == [Order("ada", 7, "PAID")]


def test_a_query_or_scan_of_a_kind_leaves_the_others_out(shop: Shop) -> None:
    shop.fill()
    assert [order.model.number for order in shop.orders.query(shop.orders.within("ada"))] == [7, 12]
    assert [line.model.sku for line in shop.lines.query(shop.lines.within("ada", 7))] == ["cup", "tea"]
    assert [line.model.sku for line in shop.lines.query(shop.lines.within("ada", 7, "cup"))] == ["cup"]
    assert [found.model.customer_id for found in shop.customers.query(equals("pk", "CUSTOMER#bob"))] == ["bob"]
    assert {found.model.customer_id for found in shop.customers.scan()} == {"ada", "bob"}
    pages = shop.orders.query(shop.orders.within("ada"), page_size=1, descending=True)
    assert [len(pages.page().items) for _ in range(4)] == [1, 0, 0, 1]


def test_a_query_of_all_kinds_has_each_as_its_model(shop: Shop) -> None:
    shop.fill()
    found = shop.all.query(equals("pk", "CUSTOMER#ada")).each(one_of(shop.customers, shop.orders, shop.lines))
    models = [loaded.model for loaded in found]
    assert [type(model).__name__ for model in models] == ["Order", "Line", "Line", "Order", "Customer"]
    of_two = shop.all.query(equals("pk", "CUSTOMER#ada") & begins_with("sk", "ORDER#")).each(
        one_of(shop.orders, shop.customers)
    )
    assert next(of_two).model == Order("ada", 7)
    with pytest.raises(Misfit, match=r"'ORDER#00007#LINE#cup': isn't a Order or Customer: its key is of no kind"):
        next(of_two)


def test_several_keys_are_loaded_at_once_in_their_order(shop: Shop) -> None:
    shop.fill()
    found = shop.orders.load_many(shop.orders.key(*of) for of in (("bob", 7), ("ada", 1), ("ada", 12)))
    assert [loaded and loaded.model for loaded in found] == [Order("bob", 7), None, Order("ada", 12)]
    first = found[0]
    assert isinstance(first, Loaded)
    assert shop.orders.save(first.changed_to(replace(first.model, status="PAID"))).version == 2


def test_an_item_of_another_kind_is_a_misfit(shop: Shop) -> None:
    shop.fill()
    with pytest.raises(Misfit, match=r"sk='ORDER#00007': isn't a Customer: its key is of another kind"):
        shop.customers.loaded(shop.all.get("CUSTOMER#ada", "ORDER#00007"))


def test_a_field_of_the_key_stays(shop: Shop) -> None:
    order = shop.orders.save(Order("ada", 7))
    with pytest.raises(ValueError, match=r"number is part of the key: to change it, save a new item"):
        shop.orders.save(order.changed_to(Order("ada", 8)))
    with pytest.raises(ValueError, match=r"is the key of an item whose customer_id, number are others"):
        shop.orders.modify("ada", 9, change=lambda _: Order("bob", 9))
    table = shop.orders.table
    with pytest.raises(ValueError, match="an item without number, which is part of its key"):
        table.save({"customer_id": "ada"})
    with pytest.raises(ValueError, match="number is part of the key, which stays"):
        table.update("ada", 7, version=1, values={}, removed=["number"])
    with pytest.raises(ValueError, match="sk is part of the key"):
        table.save({"customer_id": "ada", "number": 9, "sk": "ORDER#00008"})
    table.add("ada", 7, numbers={"parcels": 1})
    assert table.update("ada", 7, version=2, values={"status": "SENT"}) == 3
    assert shop.orders.get("ada", 7).model.status == "SENT"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (("a#b", 7), r"customer_id, 'a#b', has a '#', which separates the parts of 'CUSTOMER#\{customer_id\}'"),
        (("", 7), "customer_id, '', is empty"),
        (("ada", "7"), r"number is '7', and 'ORDER#\{number:05d\}' takes none"),
        (("ada", Decimal("7.5")), r"number is Decimal\('7.5'\), expected a text or a whole number"),
        (("ada", True), "number is True, expected a text or a whole number"),
        (("ada",), "expected customer_id, number; got 1 values"),
    ],
    ids=str,
)
def test_values_that_make_no_key_are_refused(shop: Shop, values: tuple[Any, ...], why: str) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        shop.orders.key(*values)


@pytest.mark.parametrize(
    ("templates", "why"),
    [
        ({"gsi": "X#{a}"}, "a template for gsi, which isn't in the key: pk, sk"),
        ({"pk": "X#{a}{b}"}, "expected a sign as # between the fields"),
        ({"pk": "X#{a.b}"}, r"expected fields by name, as \{customer_id\}"),
        ({"pk": "X#{}"}, "expected fields by name"),
        ({"pk": "X#{a:.3}"}, r"expected a form that keeps numbers apart, as \{a:06d\}"),
        ({"pk": "X#{a:0<6d}"}, "expected a form that keeps numbers apart"),
        ({"pk": "X#{a"}, "is no template: expected '}'"),
        ({"pk": "X#{sk}", "sk": "Y#{b}"}, "Shop pk: sk has a template, so it is no field: name it otherwise"),
    ],
    ids=str,
)
def test_templates_that_do_not_keep_values_apart_are_refused(templates: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        VersionedTable(None, "Shop", "pk", "sk", templates=templates)  # type: ignore[arg-type]


def test_a_model_without_a_field_of_its_key_is_unfit() -> None:
    with pytest.raises(UnfitModel, match="Customer has no field number, which is part of the table's key"):
        ModelTable(None, "Shop", "pk", "sk", model=Customer, templates=ORDER)  # type: ignore[arg-type]


def test_a_condition_for_keys_needs_templates_and_the_whole_partition_key(shop: Shop) -> None:
    with pytest.raises(TypeError, match="expected templates of its key"):
        shop.all.within("ada")
    with pytest.raises(TypeError, match="and values of customer_id, number"):
        shop.orders.within("ada", 7, 8)
    with pytest.raises(ValueError, match="a query is of one partition: expected customer_id, too"):
        shop.orders.within()


def test_a_part_of_the_key_without_a_template_is_a_field_itself(dynamodb: Endpoint) -> None:
    client = dynamodb.client("dynamodb")
    name = new_table(client, {"pk": "S", "number": "N"})
    orders = ModelTable(client, name, "pk", "number", model=Order, templates={"pk": "CUSTOMER#{customer_id}"})
    orders.save(Order("ada", 7))
    assert orders.get("ada", 7).item["pk"] == "CUSTOMER#ada"
    assert [order.model.number for order in orders.query(orders.within("ada"))] == [7]
    assert [order.model.number for order in orders.query(orders.within("ada", 7))] == [7]
