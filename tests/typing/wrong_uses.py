"""Wrong uses of the library: each line with a mark is named by mypy and by pyright, and no other line.

A mark has mypy's code, pyright's rule and a reason. tests/unit/test_types.py runs both checkers. Nothing is run.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig

from conditional_writes import (
    Conflict,
    Item,
    Observed,
    Plan,
    Put,
    VersionedTable,
    dynamodb_client,
    equals,
    key,
    write,
    write_together,
)
from conditional_writes.exactly_once import Records, exactly_once
from conditional_writes.models import Codec, Loaded, ModelTable


@dataclass(frozen=True)
class Flight:
    flight_id: str
    seats: int


@dataclass
class Hotel:
    hotel_id: str


client = dynamodb_client()
orders = VersionedTable(client, "Orders", "order_id")
flights = ModelTable(client, "Flights", "flight_id", model=Flight)
flight = flights.get("TL1")

# --- tables of models ------------------------------------------------------------------------------------

flights.load("TL1").model  # union-attr, reportOptionalMemberAccess: there may be no item
flight.seats  # attr-defined, reportAttributeAccessIssue: it is the model's
flight.model.seat  # attr-defined, reportAttributeAccessIssue: a field that the model doesn't have
flight.model.seats = 4  # misc, reportAttributeAccessIssue: the model is frozen
flight.model = Flight("TL1", 4)  # misc, reportAttributeAccessIssue: use changed_to
flight.changed_to(Hotel("h-1"))  # arg-type, reportArgumentType: another model
flights.save(Hotel("h-1"))  # arg-type, reportArgumentType: another model
flights.save({"flight_id": "TL1", "seats": 3})  # arg-type, reportArgumentType: a dict is no model
flights.save(flights.load("TL1"))  # arg-type, reportArgumentType: there may be no item
flights.delete(flight.model)  # arg-type, reportArgumentType: a model has no version
flights.get(1.5)  # arg-type, reportArgumentType: no key is a float
flights.modify("TL1", change=lambda found: found)  # return-value, reportArgumentType: there may be no item
hotel: Loaded[Hotel] = flights.get("TL1")  # assignment, reportAssignmentType: another model
ModelTable(client, "Flights", "flight_id", model=Flight("TL1", 3))  # arg-type, reportArgumentType: no class


def board(found: Flight) -> Flight:
    return replace(found, seats=found.seats - 1)


def dump(hotel: Hotel) -> Item:
    return {"hotel_id": hotel.hotel_id}


def parse(item: Item) -> Flight:
    return Flight(**item)


flights.modify("TL1", change=board)  # arg-type, reportArgumentType: there may be no item
Codec(dump, parse)  # misc, reportArgumentType: two models
for each in flights.query(equals("flight_id", "TL1")):
    each["seats"]  # index, reportIndexIssue: a model is no dict


# --- items, conditions and plans -------------------------------------------------------------------------

order = orders.get("o-1")
orders.load("o-1") | {"status": "PAID"}  # operator, reportOptionalOperand: there may be no item
orders.save(order, equals("status", "NEW"))  # call-arg, reportCallIssue: when is given by its name
orders.update("o-1", values={"status": "PAID"})  # call-arg, reportCallIssue: without a version
orders.checking({"order_id": "o-1"})  # arg-type, reportArgumentType: it wasn't loaded
orders.modify("o-1", change=lambda found: found["status"])  # index, reportOptionalSubscript: there may be no item
equals("status", "NEW") & "PAID"  # operator, reportOperatorIssue: a condition is no text
key("Orders", order_id=1.5)  # arg-type, reportArgumentType: no key is a float
Put(order, {})  # arg-type, reportArgumentType: an item is no key
write_together(client, [order])  # list-item, reportArgumentType: an item is no write


def plan(observed: Observed) -> Plan[int]:
    observed[key("Orders", order_id="o-1")]["status"]  # index, reportOptionalSubscript: there may be no item
    orders.load_from("o-1")  # arg-type, reportArgumentType: without what was observed
    return Plan("done")  # arg-type, reportReturnType: another result


write(client, plan, {})  # call-overload, reportCallIssue: without a deadline


def handle(conflict: Conflict) -> None:
    conflict.found["status"]  # index, reportOptionalSubscript: the item may be gone


# --- exactly-once functions ------------------------------------------------------------------------------

records, config = Records(client, "Records"), IdempotencyConfig(event_key_jmespath="flight_id")


@exactly_once(records, key=lambda flight: flight.flight_id)
def cancel(flight: Flight, observed: Observed) -> Plan[str]:
    return Plan("cancelled")


cancel(Hotel("h-1"))  # arg-type, reportArgumentType: another request
cancel(flight.model, {})  # call-arg, reportCallIssue: the items are read, not given
cancel(flight.model).replayed  # attr-defined, reportAttributeAccessIssue: only run says so
exactly_once(records)(cancel.plan)  # call-overload, reportCallIssue: without a key
exactly_once(records, key=str, config=config)  # call-overload, reportCallIssue: either of the two
exactly_once(records, config=config, payload=str)  # call-overload, reportCallIssue: the configuration says it
exactly_once(records, key=str, expires_after=60)  # call-overload, reportArgumentType: a time is no number


def seats(flight: Flight, observed: Observed) -> Plan[int]:
    return Plan(flight.seats)


def price(flight: Flight, observed: Observed) -> Plan[Decimal]:
    return Plan(Decimal(flight.seats))


def free(flight: Flight) -> Plan[str]:
    return Plan("free")


def now(flight: Flight, observed: Observed) -> timedelta:
    return timedelta(flight.seats)


exactly_once(records, key=str)(seats)  # type-var, reportArgumentType: it would come back as a Decimal
exactly_once(records, config=config)(price)  # type-var, reportArgumentType: it would come back as a text
exactly_once(records, key=str)(free)  # arg-type, reportArgumentType: it isn't given the items
exactly_once(records, key=str)(now)  # arg-type, reportArgumentType: it returns no plan
