"""Tables of models: dataclasses, msgspec structs, pydantic models, and a class with a codec."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest

from conditional_writes import Conflict, Deadline, Item, NoSuchItem, equals, read, write_together
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.models import Codec, Loaded, Misfit, ModelTable, UnfitModel
from tests.support.new_tables import calls_of, index, new_table
from tools.local_aws.server import Endpoint

pytestmark = pytest.mark.usefixtures("driver")


@dataclass(frozen=True)
class Flight:
    """The model in most tests, as a dataclass. The same is below in each other kind."""

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
    (FlightStruct, FlightStruct),
    (FlightModel, FlightModel),
    (PlainFlight, Codec(encode, decode)),
]


class Flights(ModelTable[Any]):
    """The table under test, with direct access to its items."""

    def __init__(self, client: Any, name: str, kind: Any, model: Any, **settings: Any) -> None:
        super().__init__(client, name, "flight_id", model=model, **settings)
        self.client, self.name, self.kind = client, name, kind
        self.calls = calls_of(client)

    def new(self, **changes: Any) -> Any:
        return self.kind(**{"flight_id": "TL1", "seats": 3} | changes)

    def stored(self) -> Item | None:
        """The item in DynamoDB, without the library's own attributes."""
        response = self.client.get_item(TableName=self.name, Key={"flight_id": {"S": "TL1"}}, ConsistentRead=True)
        item = from_dynamodb(response["Item"]) if "Item" in response else None
        return item and {name: value for name, value in item.items() if not name.startswith("cw:")}

    def plant(self, **values: Any) -> None:
        self.client.put_item(TableName=self.name, Item=to_dynamodb({"flight_id": "TL1", "seats": 3} | values))

    def must_load(self) -> Loaded[Any]:
        loaded = self.load("TL1")
        assert loaded is not None
        return loaded


@pytest.fixture
def table(dynamodb: Endpoint) -> str:
    return new_table(dynamodb.client("dynamodb"), {"flight_id": "S"})


@pytest.fixture(params=KINDS, ids=lambda kind: kind[0].__name__)
def flights(request: pytest.FixtureRequest, dynamodb: Endpoint, table: str) -> Flights:
    return Flights(dynamodb.client("dynamodb"), table, *request.param)


type Make = Callable[..., Flights]


@pytest.fixture
def make(dynamodb: Endpoint, table: str) -> Make:
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


def test_attributes_that_the_model_does_not_know_are_kept(flights: Flights) -> None:
    flights.plant(crew={"pilot": "amy"}, tags={"a", "b"}, version=7)
    flights.save(flights.must_load().changed_to(flights.new(seats=4)))
    flights.modify("TL1", change=lambda _: flights.new(seats=5))
    kept = {"crew": {"pilot": "amy"}, "tags": {"a", "b"}}
    assert flights.stored() == kept | {"flight_id": "TL1", "seats": 5, "version": 9}


# --- what is kept ----------------------------------------------------------------------------------------


@dataclass
class Line:
    sku: str
    pieces: int


class LineModel(pydantic.BaseModel):
    sku: str
    pieces: int


@dataclass
class Basket:
    flight_id: str
    at: datetime = datetime(2026, 2, 28, 12, tzinfo=UTC)
    lines: list[Line] = field(default_factory=list)
    by_sku: dict[str, Line] = field(default_factory=dict)
    gift: Line | None = None


class BasketModel(pydantic.BaseModel):
    flight_id: str
    at: datetime = datetime(2026, 2, 28, 12, tzinfo=UTC)
    lines: list[LineModel] = []
    by_sku: dict[str, LineModel] = {}
    gift: LineModel | None = None


BASKETS: list[tuple[Any, Any]] = [(Basket, Line), (BasketModel, LineModel)]


def line(sku: str, pieces: int) -> Item:
    """A line as another program stores it, with an attribute that the model doesn't know."""
    return {"sku": sku, "pieces": pieces, "note": f"of {sku}"}


@pytest.mark.parametrize(("basket", "line_of"), BASKETS)
def test_attributes_that_a_nested_model_does_not_know_are_kept(make: Make, basket: Any, line_of: Any) -> None:
    baskets = make(basket)
    baskets.plant(
        lines=[line("a", 1), line("b", 2), line("c", 3)],
        by_sku={"a": line("a", 1), "b": line("b", 2)},
        gift=line("d", 1),
    )

    def change(found: Any) -> Any:
        del found.lines[0]
        found.lines.append(line_of(sku="e", pieces=5))
        del found.by_sku["a"]
        found.by_sku["b"].pieces = 9
        found.gift.pieces = 2
        return found

    baskets.modify("TL1", change=change)
    stored = baskets.stored()
    assert stored is not None
    assert stored["by_sku"] == {"b": line("b", 9)}
    assert stored["gift"] == line("d", 2)
    assert [each["sku"] for each in stored["lines"]] == ["b", "c", "e"]


@pytest.mark.parametrize(("basket", "line_of"), BASKETS)
def test_a_text_that_says_the_same_in_other_words_is_not_rewritten(make: Make, basket: Any, line_of: Any) -> None:
    baskets = make(basket)
    baskets.plant(at="2026-02-28T12:00:00.000+00:00", gift={"NULL": None, "sku": "a", "pieces": Decimal("1.0")})
    loaded = baskets.must_load()
    loaded.model.lines.append(line_of(sku="b", pieces=2))
    baskets.save(loaded)
    stored = baskets.stored()
    assert stored is not None
    assert stored["at"] == "2026-02-28T12:00:00.000+00:00"
    assert stored["gift"] == {"NULL": None, "sku": "a", "pieces": 1}


MUTABLE = [kind for kind in KINDS if kind[0] is not Flight]


@pytest.mark.parametrize("flights", MUTABLE, indirect=True, ids=lambda kind: kind[0].__name__)
def test_a_model_that_was_changed_in_place_is_saved(flights: Flights) -> None:
    flights.plant(passengers=["ada"], gate="B7")
    loaded = flights.must_load()
    loaded.model.passengers.append("bob")
    loaded.model.gate = None
    saved = flights.save(loaded)
    assert flights.stored() == {"flight_id": "TL1", "seats": 3, "passengers": ["ada", "bob"], "version": 1}

    def board(flight: Any) -> Any:
        flight.passengers.append("eve")
        return flight

    flights.modify("TL1", change=board)
    assert (flights.stored() or {})["passengers"] == ["ada", "bob", "eve"]
    assert saved.model.passengers == ["ada", "bob"]


@dataclass(frozen=True)
class Counted:
    flight_id: str
    seats: int
    revision: int = 0


class CountedModel(pydantic.BaseModel):
    flight_id: str
    seats: int
    revision: int = 0


class CountedStruct(msgspec.Struct, forbid_unknown_fields=True):
    flight_id: str
    seats: int
    revision: int = 0


@pytest.mark.parametrize("model", [Counted, CountedModel, CountedStruct])
def test_a_field_for_the_version_is_filled_and_not_saved(make: Make, model: Any) -> None:
    table = make(model, version="revision")
    assert table.save(model(flight_id="TL1", seats=3, revision=9)).model.revision == 1
    saved = table.save(table.must_load().changed_to(model(flight_id="TL1", seats=4, revision=7)))
    assert (saved.version, saved.model.revision) == (2, 2)
    assert table.modify("TL1", change=lambda found: found).model.revision == 2
    assert table.modify("TL1", change=lambda found: model(flight_id="TL1", seats=5)).model.revision == 3
    assert table.get("TL1").model.revision == table.get("TL1").version == 3


# --- items and models that don't fit ---------------------------------------------------------------------


MISFITS = [
    "isn't a Flight: seats: expected `int`, got `str`",
    "isn't a FlightStruct: seats: expected `int`, got `str`",
    "isn't a FlightModel: seats: Input should be a valid integer",
    "isn't a model: ValueError(",
]


@pytest.mark.parametrize(
    ("flights", "why"),
    [*zip(KINDS, MISFITS, strict=True)],
    indirect=["flights"],
    ids=[kind.__name__ for kind, _ in KINDS],
)
def test_an_item_that_does_not_fit_is_named_with_its_field(flights: Flights, why: str) -> None:
    flights.plant(seats="many")
    attempts: list[Callable[[], object]] = [
        lambda: flights.load("TL1"),
        lambda: flights.get("TL1"),
        lambda: flights.modify("TL1", change=lambda flight: flight),
        lambda: list(flights.scan()),
        lambda: flights.load_from(read(flights.client, [flights.key("TL1")], Deadline.after(10)), "TL1"),
    ]
    for attempt in attempts:
        with pytest.raises(Misfit) as caught:
            attempt()
        assert str(caught.value).startswith(f"{flights.name} flight_id='TL1': {why}")
        assert caught.value.key == flights.key("TL1")
    with pytest.raises(Misfit, match="flight_id='TL1'"):
        flights.put_many([flights.new(), flights.new(flight_id="TL2")])
    assert flights.get("TL2").version == 1


def test_a_change_that_returns_no_model_is_an_error_and_writes_nothing(flights: Flights) -> None:
    flights.save(flights.new())
    with pytest.raises(TypeError, match=r"`change` returned None, expected the .* as it should be"):
        flights.modify("TL1", change=lambda flight: None)
    with pytest.raises(TypeError):
        flights.modify("TL1", change=lambda flight: 7)
    assert flights.must_load().version == 1


def test_models_are_found_by_queries_and_scans_and_in_plans_and_can_be_saved(flights: Flights) -> None:
    flights.save(flights.new(passengers=["ada"]))
    [found] = flights.query(equals("flight_id", "TL1"), matching=equals("seats", 3), consistent=True)
    assert flights.save(found.changed_to(flights.new(seats=4))).version == 2
    [scanned] = flights.scan(page_size=1)
    observed = read(flights.client, [flights.key("TL1"), flights.key("TL2")], Deadline.after(10))
    assert scanned.model == flights.get_from(observed, "TL1").model == flights.new(seats=4)
    assert flights.load_from(observed, "TL2") is None
    write_together(flights.client, [flights.deleting(scanned), flights.saving(flights.new(flight_id="TL2"))])
    for look in (lambda: flights.get("TL1"), lambda: flights.get_from(observed, "TL2")):
        with pytest.raises(NoSuchItem):
            look()


def test_what_is_no_model_of_the_table_is_refused(make: Make, flights: Flights) -> None:
    for other in (Basket("TL1"), {"flight_id": "TL1", "seats": 3}, None):
        with pytest.raises(TypeError, match="expected a Flight, or a loaded one; got "):
            make(Flight).save(other)
    of_flights = make(Flight)
    for take in (of_flights.delete, of_flights.deleting, of_flights.checking):
        with pytest.raises(TypeError, match=r": expected a loaded Flight, got .*Flight\("):
            take(Flight("TL1", 3))
    with pytest.raises(TypeError, match="`encode` returned 'TL1', expected an item"):
        ModelTable(flights.client, flights.name, "flight_id", model=Codec(str, str)).save("TL1")


def test_a_default_does_not_pass_for_what_an_index_lacks(dynamodb: Endpoint) -> None:
    client = dynamodb.client("dynamodb")
    versions = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["version", "cw:version_id"]}
    indexes = [index("by-seats", "seats", projection=versions)]
    name = new_table(client, {"flight_id": "S"}, {"seats": "N"}, GlobalSecondaryIndexes=indexes)
    flights = Flights(client, name, Flight, Flight)
    flights.save(flights.new(passengers=["ada"]))

    def of_index() -> Loaded[Any]:
        [found] = flights.query(equals("seats", 3), index="by-seats")
        assert found.model == flights.new()
        return found

    with pytest.raises(Conflict):
        flights.save(of_index().changed_to(flights.new(passengers=["bob"])))
    with pytest.raises(Conflict):
        write_together(client, [flights.saving(of_index().changed_to(flights.new(passengers=["bob"])))])
    saved = flights.save(of_index().changed_to(flights.new(gate="B7")), when=equals("seats", 3))
    with pytest.raises(Conflict):
        flights.save(saved.changed_to(flights.new(gate="B7", passengers=["bob"])))
    assert flights.get("TL1").model == flights.new(passengers=["ada"], gate="B7")


@dataclass
class Session:
    flight_id: str
    expires_at: datetime | None = None


class SessionModel(pydantic.BaseModel):
    flight_id: str
    expires_at: datetime | None = None


@pytest.mark.parametrize("model", [Session, SessionModel])
def test_a_time_to_live_is_stored_in_seconds_and_loaded_as_a_time(dynamodb: Endpoint, table: str, model: Any) -> None:
    sessions = Flights(dynamodb.client("dynamodb"), table, model, model, ttl="expires_at")
    late = datetime(2026, 3, 1, 12, 30, 0, 750_000, timezone(timedelta(hours=2)))
    saved = sessions.save(model(flight_id="TL1", expires_at=late))
    assert sessions.stored() == {"flight_id": "TL1", "expires_at": 1_772_361_000, "version": 1}
    assert sessions.must_load().model == saved.model == model(flight_id="TL1", expires_at=late.replace(microsecond=0))
    assert sessions.save(sessions.must_load()).version == 2
    sessions.save(sessions.must_load().changed_to(model(flight_id="TL1")))
    assert sessions.stored() == {"flight_id": "TL1", "version": 3}
    with pytest.raises(TypeError, match="expires_at is '2026-03-01T12:30:00', expected a datetime with its time zone"):
        sessions.save(model(flight_id="TL2", expires_at=datetime(2026, 3, 1, 12, 30)))  # noqa: DTZ001
    sessions.plant(expires_at="2026-03-01T10:30:00Z")  # as a program without `ttl` has written it
    assert sessions.must_load().model.expires_at == late.replace(microsecond=0)
    sessions.plant(expires_at=1_772_361_000_000)  # as one that counts in milliseconds
    with pytest.raises(Misfit, match=r"'TL1': isn't a Session.*: expires_at: 1772361000000, expected seconds"):
        sessions.must_load()
    with pytest.raises(UnfitModel, match="has no field until, which was to be the time to live"):
        Flights(dynamodb.client("dynamodb"), table, model, model, ttl="until")
