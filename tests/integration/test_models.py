"""Tables of models on both engines: dataclasses, msgspec structs, pydantic models, and a class with a codec."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pydantic
import pytest

from conditional_writes import Conflict, Item
from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.models import Codec, Loaded, ModelTable
from tools.local_aws.server import Endpoint

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Flight:
    """The model in most tests, as a dataclass. The same is below in each other kind."""

    flight_id: str
    seats: int
    passengers: list[str] = field(default_factory=list)
    gate: str | None = None


@dataclass(slots=True)
class MutableFlight:
    flight_id: str
    seats: int
    passengers: list[str] = field(default_factory=list)
    gate: str | None = None


class FlightStruct(msgspec.Struct):
    flight_id: str
    seats: int
    passengers: list[str] = []
    gate: str | None = None


class FlightModel(pydantic.BaseModel):
    flight_id: str
    seats: int
    passengers: list[str] = []
    gate: str | None = None


class PlainFlight:
    def __init__(self, flight_id: str, seats: int, passengers: list[str] | None = None, gate: str | None = None):
        self.flight_id, self.seats, self.passengers, self.gate = flight_id, seats, passengers or [], gate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainFlight) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def encode(flight: PlainFlight) -> Item:
    return {name: value for name, value in vars(flight).items() if value is not None}


def decode(item: Item) -> PlainFlight:
    return PlainFlight(item["flight_id"], int(item["seats"]), item.get("passengers"), item.get("gate"))


KINDS: list[tuple[Any, Any]] = [
    (Flight, Flight),
    (MutableFlight, MutableFlight),
    (FlightStruct, FlightStruct),
    (FlightModel, FlightModel),
    (PlainFlight, Codec(encode, decode)),
]


class Flights(ModelTable[Any]):
    """The table under test, with direct access to its items."""

    def __init__(self, client: Any, name: str, kind: Any, model: Any, **settings: Any) -> None:
        super().__init__(client, name, "flight_id", model=model, **settings)
        self.client, self.name, self.kind = client, name, kind
        self.calls: list[str] = []
        client.meta.events.register("before-call", lambda model, **_: self.calls.append(model.name))

    def new(self, **changes: Any) -> Any:
        return self.kind(**{"flight_id": "TL1", "seats": 3} | changes)

    def stored(self) -> Item | None:
        """The item in DynamoDB, without the library's own attributes."""
        response = self.client.get_item(TableName=self.name, Key={"flight_id": {"S": "TL1"}}, ConsistentRead=True)
        item = from_dynamodb(response["Item"]) if "Item" in response else None
        return item and {name: value for name, value in item.items() if not name.startswith("cw:")}

    def plant(self, **values: Any) -> None:
        """Writes an item directly, as another program would."""
        self.client.put_item(TableName=self.name, Item=to_dynamodb({"flight_id": "TL1", "seats": 3} | values))

    def must_load(self) -> Loaded[Any]:
        loaded = self.load("TL1")
        assert loaded is not None
        return loaded


@pytest.fixture
def table(dynamodb: Endpoint) -> str:
    name = f"flights-{next(_numbers)}"
    dynamodb.client("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "flight_id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "flight_id", "KeyType": "HASH"}],
    )
    return name


@pytest.fixture(params=KINDS, ids=lambda kind: kind[0].__name__)
def flights(request: pytest.FixtureRequest, dynamodb: Endpoint, table: str) -> Flights:
    return Flights(dynamodb.client("dynamodb"), table, *request.param)


@pytest.fixture
def make(dynamodb: Endpoint, table: str) -> Callable[..., Flights]:
    """Makes a table of another model."""
    return lambda model, **settings: Flights(dynamodb.client("dynamodb"), table, model, model, **settings)


# --- every kind of model ---------------------------------------------------------------------------------


def test_a_model_is_created_loaded_changed_and_deleted(flights: Flights) -> None:
    assert flights.load("TL1") is None
    created = flights.save(flights.new(gate="B7"))
    assert (created.model, created.version) == (flights.new(gate="B7"), 1)
    assert flights.stored() == {"flight_id": "TL1", "seats": 3, "passengers": [], "gate": "B7", "version": 1}
    loaded = flights.must_load()
    assert (loaded.model, loaded.version) == (created.model, 1)
    changed = flights.save(loaded.changed_to(flights.new(seats=4, passengers=["ada"])))
    assert (changed.model, changed.version) == (flights.new(seats=4, passengers=["ada"]), 2)
    assert flights.stored() == {"flight_id": "TL1", "seats": 4, "passengers": ["ada"], "version": 2}
    flights.delete(changed)
    assert flights.stored() is None


def test_a_new_model_asserts_that_there_is_no_item_and_a_loaded_one_its_version(flights: Flights) -> None:
    first = flights.save(flights.new())
    with pytest.raises(Conflict, match="expected no item, found one with version 1"):
        flights.save(flights.new())
    flights.save(first.changed_to(flights.new(seats=4)))
    with pytest.raises(Conflict, match="expected version 1, found version 2") as caught:
        flights.save(first.changed_to(flights.new(seats=5)))
    found = flights.loaded(caught.value.found)
    assert (found.model, found.version) == (flights.new(seats=4), 2)
    assert flights.save(found.changed_to(flights.new(seats=5))).version == 3


def test_modify_gets_a_model_and_returns_one(flights: Flights) -> None:
    def board(flight: Any) -> Any:
        if flight is None:
            return flights.new(passengers=["ada"])
        return flights.new(passengers=[*flight.passengers, "bob"])

    assert flights.modify("TL1", change=board).model == flights.new(passengers=["ada"])
    again = flights.modify("TL1", change=board)
    assert (again.model, again.version) == (flights.new(passengers=["ada", "bob"]), 2)
    assert flights.must_load() == again


def test_modify_changes_the_newer_model_after_a_conflict(flights: Flights) -> None:
    flights.save(flights.new())
    interfered = []

    def board(flight: Any) -> Any:
        if not interfered:
            interfered.append(flights.save(flights.must_load().changed_to(flights.new(passengers=["eve"]))))
        return flights.new(passengers=[*flight.passengers, "ada"])

    assert flights.modify("TL1", change=board).model.passengers == ["eve", "ada"]


def test_modify_writes_nothing_if_the_model_is_as_it_was(flights: Flights) -> None:
    flights.save(flights.new())
    flights.calls.clear()
    unchanged = flights.modify("TL1", change=lambda flight: flight)
    assert (unchanged.model, unchanged.version, flights.calls) == (flights.new(), 1, ["GetItem"])


def test_attributes_that_the_model_does_not_know_are_kept(flights: Flights) -> None:
    flights.plant(crew={"pilot": "amy"}, tags={"a", "b"}, version=7)
    flights.save(flights.must_load().changed_to(flights.new(seats=4)))
    flights.modify("TL1", change=lambda _: flights.new(seats=5))
    kept = {"crew": {"pilot": "amy"}, "tags": {"a", "b"}}
    assert flights.stored() == kept | {"flight_id": "TL1", "seats": 5, "version": 9}
