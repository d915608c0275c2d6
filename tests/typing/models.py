"""Uses of tables of models, as a user's type checker sees them: checked, never run."""

from dataclasses import dataclass, replace
from typing import assert_type

import msgspec

from conditional_writes import (
    Check,
    Conflict,
    Deadline,
    Delete,
    Item,
    Key,
    Observed,
    Plan,
    Put,
    Update,
    VersionedTable,
    dynamodb_client,
    equals,
    write_together,
)
from conditional_writes.asyncio import AsyncModelTable, AsyncVersionedTable
from conditional_writes.asyncio.table import AsyncPages
from conditional_writes.models import Codec, Loaded, Misfit, ModelTable, one_of
from conditional_writes.upserts import MapEntry, Upserted
from conditional_writes.versioned import Pages


@dataclass(frozen=True)
class Flight:
    flight_id: str
    seats: int
    passengers: tuple[str, ...] = ()


class Order(msgspec.Struct):
    customer_id: str
    order_id: int


class Legacy:
    def __init__(self, name: str) -> None:
        self.name = name


def encode(legacy: Legacy) -> Item:
    return {"name": legacy.name}


def decode(item: Item) -> Legacy:
    return Legacy(item["name"])


client = dynamodb_client()
flights = ModelTable(client, "Flights", "flight_id", model=Flight)
orders = ModelTable(client, "Orders", "customer_id", "order_id", model=Order, version="revision", checked=False)
legacies: ModelTable[Legacy] = ModelTable(client, "Legacy", "name", model=Codec(encode, decode))

assert_type(flights, ModelTable[Flight])
assert_type(orders, ModelTable[Order])
assert_type(flights.table, VersionedTable)
assert_type(flights.key("TL1"), Key)

assert_type(flights.load("TL1"), Loaded[Flight] | None)
assert_type(orders.get("c-1", 7, deadline=Deadline.after(1.5)).model, Order)
loaded = flights.get("TL1")
assert_type(loaded, Loaded[Flight])
assert_type(loaded.model, Flight)
assert_type(loaded.model.seats, int)
changed = loaded.changed_to(replace(loaded.model, seats=4))
assert_type(changed, Loaded[Flight])

assert_type(flights.save(Flight("TL1", 3)), Loaded[Flight])
assert_type(flights.save(changed, when=equals("seats", 3), checked=True), Loaded[Flight])
flights.delete(loaded)


def board(flight: Flight | None) -> Flight:
    if flight is None:
        raise LookupError
    return replace(flight, passengers=(*flight.passengers, "ada"))


assert_type(flights.modify("TL1", change=board), Loaded[Flight])
assert_type(flights.modify("TL1", change=lambda flight: flight or Flight("TL1", 3)).model, Flight)

assert_type(flights.saving(changed), Put | Update)
assert_type(flights.deleting(loaded), Delete)
assert_type(flights.checking(loaded), Check)
write_together(client, [flights.saving(Flight("TL2", 3)), flights.checking(loaded)])


def plan(observed: Observed) -> Plan[int]:
    assert_type(flights.load_from(observed, "TL1"), Loaded[Flight] | None)
    flight = flights.get_from(observed, "TL1")
    return Plan(flight.model.seats, [flights.saving(flight.changed_to(replace(flight.model, seats=0)))])


assert_type(flights.query(equals("flight_id", "TL1")), Pages[Loaded[Flight]])
for each in orders.scan(index="by-day", page_size=10):
    assert_type(each, Loaded[Order])
    each.model.order_id += 1
    assert_type(orders.save(each).model.order_id, int)
templates = {"customer_id": "CUSTOMER#{customer_id}"}
of_customers = ModelTable(client, "Orders", "customer_id", "order_id", model=Order, templates=templates)
assert_type(of_customers.query(of_customers.within("c-1")), Pages[Loaded[Order]])
assert_type(flights.load_many([flights.key("TL1")]), list[Loaded[Flight] | None])
assert_type(flights.put_many(Flight(name, 3) for name in ("TL1", "TL2")), list[Loaded[Flight]])
for one in flights.table.query(equals("flight_id", "TL1")).each(one_of(flights, orders)):
    match one.model:
        case Order() as order:
            assert_type(order.order_id, int)
        case Flight() as found:
            assert_type(found.seats, int)
assert_type(flights.upsert("TL1", entries=[MapEntry(("seen", "ada"), "now")]), Upserted)


def handle(conflict: Conflict, misfit: Misfit) -> None:
    if conflict.found is not None:
        assert_type(flights.loaded(conflict.found), Loaded[Flight])
    assert_type(misfit.key, Key)


async def awaited(flights: AsyncModelTable[Flight]) -> None:
    assert_type(await flights.load("TL1"), Loaded[Flight] | None)
    loaded = await flights.get("TL1", deadline=Deadline.after(1.5))
    assert_type(loaded, Loaded[Flight])
    assert_type(await flights.save(loaded, when=equals("seats", 3)), Loaded[Flight])
    assert_type(await flights.modify("TL1", change=board), Loaded[Flight])
    assert_type(await flights.load_many([flights.key("TL1")]), list[Loaded[Flight] | None])
    assert_type(await flights.put_many([Flight("TL1", 3)]), list[Loaded[Flight]])
    assert_type(flights.table, AsyncVersionedTable)
    assert_type(flights.saving(changed), Put | Update)
    async for each in flights.query(equals("flight_id", "TL1"), page_size=10):
        assert_type(each, Loaded[Flight])
    assert_type(flights.scan(after="token"), AsyncPages[Loaded[Flight]])
    assert_type(flights.table.scan().each(flights.loaded), AsyncPages[Loaded[Flight]])
    await flights.delete(loaded)


assert_type(AsyncModelTable(client, "Flights", "flight_id", model=Flight), AsyncModelTable[Flight])
