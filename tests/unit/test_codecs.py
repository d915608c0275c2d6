"""Models as items and back, through DynamoDB's own types: each kind of value, and a sentence for each impossible model.

The classes below stand in the order of their use.
"""

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag, StrEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from conditional_writes import Update, VersionedItem
from conditional_writes.core.items import Item, from_dynamodb, same, to_dynamodb
from conditional_writes.models import Misfit, ModelTable
from conditional_writes.models.codecs import UNFIT_KEYS, Codec, Unfit, UnfitModel
from conditional_writes.models.kinds import codec_of
from conditional_writes.models.table import laid_over

KINDS = ("dataclass", "frozen dataclass with slots", "struct", "frozen struct", "pydantic")
type Json = dict[str, Json] | list[Json] | str | int | None
FLOAT = "is a float, and DynamoDB's numbers are exact decimals: make it a Decimal"
OF_SETS = "is a set, and DynamoDB's sets are of texts, numbers or bytes: make it a list"
ODD = datetime(1900, 1, 1, tzinfo=timezone(timedelta(seconds=1172)))
Moment = NewType("Moment", datetime)
AS_ANOTHER = "and would come back as another type"
FLOAT_IN_ANY = r"it.a\[0\]: 1.5 is a float, and DynamoDB's numbers are exact decimals: use Decimal\('1.5'\)"


class Cabin(Enum):
    FIRST = "F"
    ECONOMY = "Y"


class Rank(IntEnum):
    CAPTAIN = 1
    MATE = 2


class Deck(Enum):
    LOWER = 1
    UPPER = 2


class Status(StrEnum):
    OPEN = "open"


class Meals(IntFlag):
    BREAKFAST = 1
    DINNER = 2


class Point(NamedTuple):
    x: int
    y: int


class Extra(TypedDict):
    kilograms: int


@dataclass(frozen=True)
class Seat:
    row: int
    cabin: Cabin
    tags: frozenset[str] = frozenset()
    holder: str | None = None


class SeatModel(pydantic.BaseModel):
    row: int
    cabin: Cabin
    tags: frozenset[str] = frozenset()
    holder: str | None = None


class Paired(pydantic.BaseModel):
    low: int
    high: int

    @pydantic.model_validator(mode="after")
    def check_order(self) -> "Paired":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


OF_EACH_KIND: dict[str, tuple[Any, Any]] = {
    "text": (str, "TL1 ✈"),
    "whole": (int, 10**30),
    "exact": (Decimal, Decimal("12.50")),
    "yes": (bool, True),
    "binary": (bytes, b"\x00\xff"),
    "moment": (datetime, datetime(2026, 2, 28, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))),
    "day": (date, date(2026, 2, 28)),
    "hour": (time, time(12, 30)),
    "long": (timedelta, timedelta(days=1, seconds=5)),
    "uuid": (UUID, UUID(int=7)),
    "cabin": (Cabin, Cabin.FIRST),
    "rank": (Rank, Rank.MATE),
    "status": (Status, Status.OPEN),
    "meals": (Meals, Meals.BREAKFAST | Meals.DINNER),
    "literal": (Literal["a", "b"], "b"),
    "limited": (Annotated[int, msgspec.Meta(ge=0), ["unhashable"]], 3),
    "point": (Point, Point(1, 2)),
    "points": (list[Point], [Point(3, 4)]),
    "extra": (Extra, {"kilograms": 20}),
    "texts": (set[str], {"a", "b"}),
    "wholes": (frozenset[int], frozenset({1, 2})),
    "exacts": (set[Decimal], {Decimal("1.5"), Decimal(2)}),
    "binaries": (set[bytes], {b"a"}),
    "uuids": (set[UUID], {UUID(int=1), UUID(int=2)}),
    "cabins": (set[Cabin], {Cabin.FIRST, Cabin.ECONOMY}),
    "names": (list[str], ["ada", "bob"]),
    "pair": (tuple[str, int], ("a", 1)),
    "many": (tuple[Decimal, ...], (Decimal("1.5"), Decimal(2))),
    "by_name": (dict[str, int], {"a": 1}),
    "by_number": (dict[int, str], {1: "a"}),
    "by_cabin": (dict[Cabin, set[str]], {Cabin.FIRST: {"a"}, Cabin.ECONOMY: set()}),
    "by_rank": (dict[Rank, str], {Rank.MATE: "a"}),
    "by_hour": (dict[time, str], {time(12, 30): "a"}),
    "maybe": (int | None, None),
    "mixed": (int | str, "x"),
    "either": (set[str] | str, {"a"}),
    "anything": (Any, {"deep": [1, Decimal("1.5"), None, "x"]}),
}
"""The annotation and the value of a field of each kind, but for nested models."""


def everything(seat: Any) -> dict[str, Any]:
    nested = {"seat": seat, "seats": [seat, seat], "plan": {"1A": seat}}
    return nested | {name: value for name, (_, value) in OF_EACH_KIND.items()}


def model_of(kind: str) -> tuple[Any, Any]:
    """A class with a field of each kind, and the class of its nested models."""
    nested = SeatModel if kind == "pydantic" else Seat
    annotations = {name: annotation for name, (annotation, _) in OF_EACH_KIND.items()}
    annotations |= {"seat": nested, "seats": list[nested], "plan": dict[str, nested]}
    match kind:
        case "dataclass":
            return dataclasses.make_dataclass("Model", annotations.items()), nested
        case "frozen dataclass with slots":
            return dataclasses.make_dataclass("Model", annotations.items(), frozen=True, slots=True), nested
        case "struct":
            return msgspec.defstruct("Model", annotations.items()), nested
        case "frozen struct":
            return msgspec.defstruct("Model", annotations.items(), frozen=True), nested
        case _:
            fields: Any = {name: (annotation, ...) for name, annotation in annotations.items()}
            return pydantic.create_model("Model", **fields), nested


def through_dynamodb(codec: Codec[Any], model: Any) -> tuple[Item, Any]:
    item = from_dynamodb(to_dynamodb(codec.encode(model)))
    return item, codec.decode(item)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_value_comes_back(kind: str) -> None:
    model, nested = model_of(kind)
    values = everything(nested(row=1, cabin=Cabin.ECONOMY, tags=frozenset({"window"})))
    codec, _ = codec_of(model)
    item, back = through_dynamodb(codec, model(**values))
    for name, value in values.items():
        assert getattr(back, name) == value, name
        assert type(getattr(back, name)) is type(value), name
    assert same(codec.encode(back), item)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_stored_as_other_programs_expect_them(kind: str) -> None:
    model, nested = model_of(kind)
    item, _ = through_dynamodb(codec_of(model)[0], model(**everything(nested(row=1, cabin=Cabin.ECONOMY))))
    assert item["moment"] == "2026-02-28T12:00:00.123456+02:00"
    assert item["day"] == "2026-02-28"
    assert item["uuid"] == "00000000-0000-0000-0000-000000000007"
    assert (item["cabin"], item["rank"], item["status"]) == ("F", 2, "open")
    assert item["texts"] == {"a", "b"}
    assert item["wholes"] == {1, 2}
    assert item["binaries"] == {b"a"}
    assert item["cabins"] == {"F", "Y"}
    assert item["by_number"] == {"1": "a"}
    assert item["by_cabin"] == {"F": {"a"}, "Y": []}
    assert item["maybe"] is None
    assert item["seat"] == {"row": 1, "cabin": "Y", "tags": [], "holder": None}


# --- None, empty sets and defaults -----------------------------------------------------------------------


@dataclass
class Sparse:
    name: str
    needed: str | None
    note: str | None = None
    gate: str | None = "B7"
    tags: set[str] = field(default_factory=set)
    ranks: frozenset[int] = field(default_factory=frozenset[int])
    wanted: set[str] | None = None
    kinds: frozenset[str] = frozenset({"new"})


class SparseModel(pydantic.BaseModel):
    name: str
    needed: str | None
    note: str | None = None
    gate: str | None = "B7"
    tags: set[str] = set()
    ranks: frozenset[int] = pydantic.Field(default_factory=frozenset[int])
    wanted: set[str] | None = None
    kinds: frozenset[str] = frozenset({"new"})


@pytest.mark.parametrize("model", [Sparse, SparseModel])
def test_none_and_an_empty_set_are_no_attribute_if_the_default_brings_them_back(model: Any) -> None:
    empty = model(name="a", needed=None, note=None, gate=None, tags=set(), wanted=set(), kinds=frozenset())
    codec, _ = codec_of(model)
    item, back = through_dynamodb(codec, empty)
    assert item == {"name": "a", "needed": None, "gate": None, "wanted": [], "kinds": []}
    assert back == empty
    full = model(name="a", needed="b", note="c", gate="d", tags={"e"}, wanted={"f"}, kinds=frozenset({"g"}))
    assert through_dynamodb(codec, full)[1] == full
    without = model(name="a", needed=None, wanted=None)
    assert through_dynamodb(codec, without) == ({"name": "a", "needed": None, "gate": "B7", "kinds": {"new"}}, without)


# --- names -----------------------------------------------------------------------------------------------


class Camel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(alias_generator=to_camel, populate_by_name=True)
    flight_id: str
    seats_left: int = pydantic.Field(default=0, alias="left")
    old_gate: str = pydantic.Field(
        default="", validation_alias=pydantic.AliasChoices("gate", "old_gate"), serialization_alias="gate"
    )

    @pydantic.computed_field
    @property
    def is_full(self) -> bool:
        return self.seats_left == 0


def test_attributes_have_the_names_that_the_model_gives_them() -> None:
    codec, fields = codec_of(Camel)
    assert codec.encode(Camel(flight_id="TL1")) == {"flightId": "TL1", "left": 0, "gate": "", "isFull": True}
    assert codec.decode({"flightId": "TL1", "old_gate": "B7", "isFull": True}) == Camel(flight_id="TL1", gate="B7")
    assert fields is not None
    assert fields.names == {"flightId", "left", "gate", "isFull"}


# --- what a model can't be -------------------------------------------------------------------------------


@dataclass
class Fare:
    price: float


class FareModel(pydantic.BaseModel):
    price: float | None = None


class Arrayed(msgspec.Struct, array_like=True):
    price: int


class Plain:
    price: int


class Renamed(pydantic.BaseModel):
    price: int = pydantic.Field(default=0, validation_alias="cost")


class OldFirst(pydantic.BaseModel):
    price: int = pydantic.Field(
        default=0, validation_alias=pydantic.AliasChoices("cost", "price"), serialization_alias="price"
    )


class ByName(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(validate_by_alias=False, validate_by_name=True)
    price: int = pydantic.Field(default=0, alias="cost")


class Closed(pydantic.BaseModel, extra="forbid"):
    @pydantic.computed_field
    @property
    def price(self) -> int:
        return 1


class Pair(Enum):
    ONE = (1, 2)


def dataclass_of(annotation: Any) -> Any:
    return dataclasses.make_dataclass("Model", [("it", annotation)])


def pydantic_of(annotation: Any) -> Any:
    return pydantic.create_model("Model", it=(annotation, ...))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Fare, f"Fare.price {FLOAT}"),
        (dataclass_of(dict[str, list[Fare | None]]), f"Model.it.*[].price {FLOAT}"),
        (FareModel, f"FareModel.price {FLOAT}"),
        (pydantic_of(dict[str, list[FareModel]]), f"Model.it.price {FLOAT}"),
        (dataclass_of(complex), "Model.it is of complex, which items don't have: give a Codec for the model"),
        (dataclass_of(object), "Model.it is of object, which items don't have: give a Codec for the model"),
        (dataclass_of(msgspec.Raw), "Model.it is of a type that items don't have: give a Codec for the model"),
        (dataclass_of(set[Point]), f"Model.it {OF_SETS}"),
        (dataclass_of(set[bool]), f"Model.it {OF_SETS}"),
        (pydantic_of(set[Point]), f"Model.it {OF_SETS}"),
        (pydantic_of(frozenset[tuple[int, int]] | None), f"Model.it {OF_SETS}"),
        (pydantic_of(set[bool]), f"Model.it {OF_SETS}"),
        (pydantic_of(set[Seat]), f"Model.it {OF_SETS}"),
        (dataclass_of(Json), "Model can't be a model: maximum recursion depth exceeded"),
        (Arrayed, "Arrayed can't be a model: it is array_like, and an item is a map"),
        (dataclass_of(list[int] | set[int]), "Model can't be a model: Type unions may not contain more than one array"),
        (Renamed, "Renamed.price is written as price and read as cost: give it one `alias` for both"),
        (pydantic_of(list[Renamed]), "Model.it.price is written as price and read as cost: give it one `alias`"),
        (OldFirst, "OldFirst.price is written as price and read as cost or price: give it one `alias` for both, or re"),
        (ByName, "ByName.price is written as cost and read as price: give it one `alias` for both"),
        (Closed, "Closed forbids extra attributes, and writes some: price"),
        (pydantic_of(list[Closed]), "Model.it forbids extra attributes, and writes some: price"),
        (pydantic_of(Iterable[int]), "Model.it is an Iterable, which pydantic reads as a generator, once"),
        (pydantic_of(pydantic.Json[int]), "Model.it is a Json, which is read from a text and written as a value"),
        (pydantic_of(Pair), "Model.it is a Pair, whose values are no texts, numbers or bytes"),
        *((pydantic_of(dict[key, int]), f"Model.it {UNFIT_KEYS}") for key in (bytes, None, str | int, tuple[int, int])),
        *(
            (pydantic_of(dict[key, int]), "Model.it has keys that pydantic doesn't read")
            for key in (Deck, Literal[1, 2])
        ),
        *((dataclass_of(dict[key, int]), f"Model.it {UNFIT_KEYS}") for key in (bytes, bool, Decimal, None, str | int)),
        (pydantic_of(datetime | str), "Model.it is datetime or str, and all are texts in an item: name one"),
        (pydantic_of(list[UUID | str | None]), "Model.it is UUID or str, and all are texts in an item: name one"),
        (pydantic_of(date | datetime), "Model.it is date or datetime, and all are texts in an item: name one"),
        (pydantic_of(Cabin | str), "Model.it is Cabin or str, and all are texts in an item: name one"),
        (pydantic_of(Rank | int), "Model.it is Rank or int, and all are numbers in an item: name one"),
        (pydantic_of(list[int] | set[int]), "Model.it is list or set, and all are lists in an item: name one"),
        (pydantic_of(tuple[int, ...] | list[int]), "Model.it is list or tuple, and all are lists in an item: name one"),
        (Plain, "Plain'> is no model: expected a dataclass, a Struct of msgspec's, a model of pydantic's (2 or later)"),
        (Fare(1), "Fare(price=1) is no model: expected a dataclass"),
        (Arrayed | Fare, "Fare is no model: expected a dataclass"),
    ],
)
def test_a_class_that_no_item_can_be_is_refused_with_a_sentence(model: Any, why: str) -> None:
    with pytest.raises(UnfitModel) as caught:
        codec_of(model)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("model", "item", "why"),
    [
        (Seat, {"row": "x", "cabin": "F"}, "row: expected `int`, got `str`"),
        (Seat, {"row": Decimal("1.5"), "cabin": "F"}, "row: expected `int`, got `decimal`"),
        (Seat, {"row": 1, "cabin": "Z"}, "cabin: invalid enum value 'Z'"),
        (Seat, {"row": 1}, "Object missing required field `cabin`"),
        (SeatModel, {"row": "x"}, "row: Input should be a valid integer, unable to parse string as an integer; cabin"),
        (SeatModel, {"row": 1, "cabin": "F", "tags": 1}, "tags: Input should be a valid frozenset"),
        (Paired, {"low": 2, "high": 1}, "Value error, low is above high"),
    ],
)
def test_an_item_that_does_not_fit_says_which_field_and_what_was_expected(model: Any, item: Item, why: str) -> None:
    with pytest.raises(Unfit) as caught:
        codec_of(model)[0].decode(item)
    assert str(caught.value).startswith(why)


def test_a_secret_in_a_model_is_named_when_it_is_saved() -> None:
    with pytest.raises(TypeError, match="is a secret, which pydantic would write as asterisks"):
        codec_of(pydantic_of(pydantic.SecretStr))[0].encode(pydantic_of(pydantic.SecretStr)(it="x"))


class DeepSeat(Seat):
    """As Seat, for its values."""


@pytest.mark.parametrize("model_of_one", [dataclass_of, pydantic_of])
@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (Any, datetime(2026, 1, 1, tzinfo=UTC), f"it: .* is of datetime, {AS_ANOTHER}"),
        (dict[str, Any], {"a": [UUID(int=1)]}, rf"it.a\[0\]: .* is of UUID, {AS_ANOTHER}"),
        (tuple[int, Any], (1, Cabin.FIRST), rf"it\[1\]: .* is of Cabin, {AS_ANOTHER}"),
        (list[Any], [(1, 2)], rf"it\[0\]: \(1, 2\) is of tuple, {AS_ANOTHER}"),
        (Any, set(), f"it: .* is of set, {AS_ANOTHER}"),
        (Any, {1: 2}, "it: the key 1 is no text"),
        (dict[Any, int], {b"ab": 1}, "it: the key b'ab' is no text"),
        (datetime, ODD, "it: the offset of .* has seconds"),
        (dict[datetime, int], {ODD: 1}, "it: the offset of .* has seconds"),
        (time, time(12, tzinfo=ZoneInfo("Europe/Berlin")), "it: .* has no offset from UTC, and would come back with"),
        (Moment | None, ODD, "it: the offset of .* has seconds"),
        (list[datetime | None] | None, [None, ODD], r"it\[1\]: the offset of .* has seconds"),
        (list[Seat], [DeepSeat(1, Cabin.FIRST)], r"it\[0\]: expected a Seat, got DeepSeat\(.*: a subclass would come"),
    ],
    ids=str,
)
def test_a_value_that_would_come_back_as_another_is_named_when_it_is_saved(
    model_of_one: Callable[[Any], Any], annotation: Any, value: Any, why: str
) -> None:
    model = model_of_one(annotation)
    with pytest.raises(TypeError, match=why):
        codec_of(model)[0].encode(model(it=value))


def test_a_model_may_have_a_json_of_any_depth() -> None:
    model = pydantic_of(Json)
    value = model(it={"a": [1, {"b": None}]})
    assert through_dynamodb(codec_of(model)[0], value) == ({"it": {"a": [1, {"b": None}]}}, value)


# --- what a save changes ---------------------------------------------------------------------------------


@dataclass
class Tree:
    number: int | None = None
    texts: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    trees: list["Tree"] = field(default_factory=list)
    by_name: dict[str, "Tree"] = field(default_factory=dict)


TEXTS = st.sampled_from("abc")
NUMBERS = st.none() | st.integers(0, 2)
TREES = st.recursive(
    st.builds(Tree, NUMBERS, st.lists(TEXTS, max_size=3), st.sets(TEXTS)),
    lambda inner: st.builds(
        Tree, NUMBERS, trees=st.lists(inner, max_size=3), by_name=st.dictionaries(TEXTS, inner, max_size=2)
    ),
    max_leaves=6,
)


def with_unknown(item: Item) -> Item:
    """The item with an attribute in each of its maps that the model doesn't know."""
    trees = [with_unknown(tree) for tree in item["trees"]]
    by_name = {name: with_unknown(tree) for name, tree in item["by_name"].items()}
    return {**item, "trees": trees, "by_name": by_name, "unknown": 7}


@given(before=TREES, after=TREES)
def test_what_is_laid_over_an_item_is_the_changed_model_and_keeps_the_rest(before: Tree, after: Tree) -> None:
    codec, _ = codec_of(Tree)
    stored = with_unknown(codec.encode(before))
    known = codec.encode(codec.decode(stored))
    changed = laid_over(stored, known, codec.encode(after))
    assert codec.decode(changed) == after
    assert changed["unknown"] == 7
    for name, tree in after.by_name.items():
        assert ("unknown" in changed["by_name"][name]) is (name in before.by_name), tree
    assert laid_over(stored, known, codec.encode(before)) == stored


@dataclass
class Counting:
    number: int
    it: int = 0

    def __post_init__(self) -> None:
        self.it += 1


class Trimmed(pydantic.BaseModel):
    number: int
    it: dict[str, Annotated[str, pydantic.AfterValidator(lambda text: text[1:])]]


def table_of(model: Any) -> ModelTable[Any]:
    return ModelTable(None, "Flights", "number", model=model)


@pytest.mark.parametrize(
    ("model", "path"), [(Counting(7), "it"), (Trimmed.model_construct(number=7, it={"a": "bc"}), "it.a")]
)
def test_a_model_that_would_be_loaded_as_another_is_not_written(model: Any, path: str) -> None:
    with pytest.raises(Misfit, match=f"{path} would be loaded as another value than the one that is saved"):
        table_of(type(model)).saving(model)


def numbered(annotation: Any) -> Any:
    return dataclasses.make_dataclass("Model", [("number", int), ("it", annotation)])


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (numbered(Any)(7, {"a": [1.5]}), FLOAT_IN_ANY),
        (pydantic.create_model("Model", number=(int, ...), it=(Any, ...))(number=7, it={"a": [1.5]}), FLOAT_IN_ANY),
        (numbered(Decimal)(7, Decimal("NaN")), "it: NaN: DynamoDB has no such number"),
    ],
    ids=str,
)
def test_a_number_that_dynamodb_does_not_have_is_named_when_it_is_saved(model: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        table_of(type(model)).saving(model)


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (set[str], None, "it: expected `array`, got `null`"),
        (set[str], "ab", "it: expected `array`, got `str`"),
        (set[str], [["a"]], r"it\[0\]: expected `str`, got `array`"),
        (Seat, None, "it: expected `object`, got `null`"),
        (list[Seat], [None], r"it\[0\]: expected `object`, got `null`"),
        (list[Seat], 5, "it: expected `array`, got `int`"),
        (dict[str, Seat], [Seat(1, Cabin.FIRST)], "it: expected `object`, got `array`"),
        (tuple[set[str], int], ({"a"},), "it: expected `array` of length 2, got 1"),
    ],
    ids=str,
)
def test_a_value_that_the_annotation_does_not_allow_is_named_when_saved(annotation: Any, value: Any, why: str) -> None:
    model = numbered(annotation)
    with pytest.raises(Misfit, match=f"Flights number=7: isn't a Model: {why}"):
        table_of(model).saving(model(7, value))


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (int, "many", "it: Input should be a valid integer"),
        (int, "5", "it would be loaded as another value"),
        (SeatModel, "x", "it: Input should be a valid dictionary"),
        (list[SeatModel], None, "it: Input should be a valid list"),
        (datetime, "x", "it: Input should be a valid datetime"),
        (set[str], ["a"], "it would be loaded as another value"),
    ],
    ids=str,
)
def test_a_value_that_pydantic_did_not_check_is_named_without_its_warning(
    annotation: Any, value: Any, why: str
) -> None:
    model = pydantic.create_model("Model", number=(int, ...), it=(annotation, ...))
    with pytest.raises(Misfit, match=f"Flights number=7: isn't a Model: {why}"):
        table_of(model).saving(model.model_construct(number=7, it=value))


class Cat(msgspec.Struct, tag=True, omit_defaults=True):
    name: str = ""


class Dog(msgspec.Struct, tag=True, omit_defaults=True):
    name: str = ""
    chip: str | None = None


class Home(msgspec.Struct):
    number: int
    pet: Cat | Dog


def test_another_member_of_a_union_takes_over_nothing() -> None:
    table = table_of(Home)
    loaded = table.loaded(VersionedItem({"number": 7, "pet": {"type": "Cat", "chip": "c-1"}}))
    loaded.model.pet = Dog()
    saving = table.saving(loaded)
    assert isinstance(saving, Update)
    assert saving.values["pet"] == {"type": "Dog"}


# --- optional packages -----------------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules["msgspec"] = None
from dataclasses import dataclass
from conditional_writes.models import Codec, ModelTable

@dataclass
class Flight:
    flight_id: str

ModelTable(None, "Flights", "flight_id", model=Codec(vars, lambda item: Flight(**item)))
assert "pydantic" not in sys.modules
try:
    ModelTable(None, "Flights", "flight_id", model=Flight)
except ModuleNotFoundError as error:
    print(error)
"""


def test_without_msgspec_a_dataclass_is_refused_with_the_command_that_installs_it() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert run.stdout == ('Flight: a dataclass as a model needs msgspec: pip install "conditional-writes[msgspec]"\n')
