"""Items and primary keys, in Python's types and in DynamoDB's."""

import functools
import math
from collections.abc import Collection, Iterable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Underflow
from types import NoneType
from typing import Any, NamedTuple, override

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from conditional_writes.core.own_attributes import PREFIX

type Item = dict[str, Any]
"""Attribute names to values: str, bytes, bool, None, int, Decimal, and lists, sets and maps of them."""

EXACT = Context(prec=38, Emin=-130, Emax=125, traps=[Inexact, InvalidOperation, Overflow, Underflow])
"""Arithmetic on DynamoDB's numbers: 38 digits, 1E-130 to 9.9E+125. Raises an error instead of rounding."""


_TOO_LONG = 10**EXACT.prec
"""The smallest natural number with too many digits for `str`: they may be zeros."""


class _Serializer(TypeSerializer):
    """boto3's serializer, but for every number that DynamoDB holds: boto3 refuses 10**38, for its 39 digits.

    The types of most values come first. boto3 itself asks for up to ten types before it knows one.
    """

    @override
    def serialize(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return {"S": value}
        if kind is Decimal or kind is int:
            return {"N": self._serialize_n(value)}
        if kind is dict:
            return {"M": self._serialize_m(value)}
        if isinstance(value, set | frozenset):
            if not value:
                raise TypeError("an empty set, which DynamoDB has no type for: remove the attribute")
            if any(isinstance(element, bool) for element in value):
                raise TypeError("a set with a bool, which DynamoDB would take for a number: make it a list")
        return super().serialize(value)

    def _serialize_n(self, value: int | Decimal) -> str:
        if type(value) is int and -_TOO_LONG < value < _TOO_LONG:
            return str(value)
        number = Decimal(value)
        if not number.is_finite():
            raise TypeError(f"{number}: DynamoDB has no such number")
        exact = EXACT.normalize(number) if number else Decimal(0)
        if int(exact.as_tuple().exponent) < EXACT.Emin:
            raise Underflow
        # 10 instead of 1E+1, which is the same to DynamoDB, but not to moto's ADD.
        return format(exact, "f") if 0 <= exact.adjusted() < EXACT.prec else str(exact)

    def _serialize_m(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        check_names(value)
        return {name: self.serialize(element) for name, element in value.items()}


def check_names(attributes: Iterable[object]) -> None:
    """Raises TypeError for a name that is no text: 42 and "42" would be one name, and one value would be lost."""
    for name in attributes:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no text, as the names in an item and its maps are: use {str(name)!r}")


class _Deserializer(TypeDeserializer):
    """boto3's deserializer, but for every number that DynamoDB holds, and with immutable bytes for binaries.

    The types of most values come first. boto3 itself looks for a method by its name.
    """

    @override
    def deserialize(self, value: Any) -> Any:
        for kind, plain in value.items():
            if kind == "S":
                return plain
            if kind == "N":
                return Decimal(plain)
            if kind == "M":
                return {name: self.deserialize(element) for name, element in plain.items()}
        return super().deserialize(value)

    def _deserialize_n(self, value: str) -> Decimal:
        return Decimal(value)

    def _deserialize_b(self, value: bytes) -> bytes:
        return bytes(value)


_serializer = _Serializer()
_deserializer = _Deserializer()


class Key(NamedTuple):
    """An item's table and primary key. `key` makes one."""

    table: str
    attributes: tuple[tuple[str, str | int | Decimal | bytes], ...]

    def __str__(self) -> str:
        return f"{self.table} " + ", ".join(
            f"{name}={value}" if isinstance(value, Decimal) else f"{name}={value!r}" for name, value in self.attributes
        )


def no_key(value: object) -> TypeError:
    """The error for what was given as a key, and is none."""
    return TypeError(f"{value!r} is no key: make one with `key`")


def key(table: str, /, **attributes: str | int | Decimal | bytes) -> Key:
    """The primary key of an item: `key("Orders", order_id="o-1")`."""
    return Key(table, tuple(sorted(attributes.items())))


def to_dynamodb(item: Item) -> dict[str, Any]:
    """`{"name": value}` as `{"name": {"S": value}}`. Raises what `serialized` raises."""
    check_names(item)
    return {name: serialized(name, value) for name, value in item.items()}


def serialized(name: str, value: Any) -> Any:
    """`value` as `{"S": value}`. `name` is for the error's text.

    Raises TypeError for a float, for any other type that DynamoDB doesn't have, and for a name in a map that is no
    text; ValueError for a number that DynamoDB can't hold exactly.
    """
    try:
        return _serializer.serialize(value)
    except (TypeError, ArithmeticError) as error:
        raise _explained(name, value, error) from None


def from_dynamodb(attributes: dict[str, Any]) -> Item:
    """`{"name": {"S": value}}` as `{"name": value}`. Every number becomes a Decimal."""
    return {name: _deserializer.deserialize(value) for name, value in attributes.items()}


_PLAIN = {str, Decimal, bool, int, bytes, NoneType}
"""Most values have one of these immutable types. A look-up takes less time than a check for `Mapping`."""


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same in DynamoDB: 1 is Decimal("1.0"). True isn't 1, and no float is anything.

    In Python they may be equal.
    """
    kind = type(one)
    if kind is type(other):
        if kind in _PLAIN:
            return bool(one == other)
        if kind is dict:
            return one.keys() == other.keys() and all(map(same, one.values(), map(other.__getitem__, one)))
        if kind is list:
            return len(one) == len(other) and all(map(same, one, other))
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case (float(), _) | (_, float()):
            return False
        case ((set() | frozenset()), (set() | frozenset())):
            has_float = any(isinstance(each, float) for each in (*one, *other))
            return one == other and _bools(one) == _bools(other) and not has_float
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _bools(elements: Iterable[Any]) -> set[Any]:
    return {element for element in elements if isinstance(element, bool)}


class ItemDiff(NamedTuple):
    """Attributes to set, and names of those to remove."""

    values: Item
    removed: list[str]


def diff(before: Item, after: Item, ignored: Collection[str]) -> ItemDiff:
    """The changes from `before` to `after`, without those of `ignored` names and of the library's own attributes."""
    values = {
        name: value
        for name, value in after.items()
        if name not in before or not (before[name] is value or same(before[name], value))
    }
    return ItemDiff(
        {name: value for name, value in values.items() if name not in ignored and not name.startswith(PREFIX)},
        [name for name in before if name not in after and name not in ignored and not name.startswith(PREFIX)],
    )


def copied(value: Any) -> Any:
    """A deep copy: the same value, with no mutable part in common."""
    if type(value) in _PLAIN:
        return value
    match value:
        case list() | tuple():
            return [copied(element) for element in value]
        case set():
            return set(value)
        case bytearray():
            return bytes(value)
        case dict() | Mapping():
            # Most elements are plain: for these a call would take longer than all the rest.
            return {name: each if type(each) in _PLAIN else copied(each) for name, each in value.items()}
    return value


def _explained(path: str, value: Any, error: Exception) -> Exception:
    """The error for this value, or for the element of it that is to blame."""
    match value:
        case float():
            advice = f"use Decimal({str(value)!r})" if math.isfinite(value) else "DynamoDB has no such number"
            return TypeError(f"{path}: {value!r} is a float, and DynamoDB's numbers are exact decimals: {advice}")
        case Mapping():
            elements = [(f"{path}.{name}", element) for name, element in value.items()]
        case list() | tuple() | set() | frozenset():
            elements = [(f"{path}[{index}]", element) for index, element in enumerate(value)]
        case _:
            elements = []
    for element_path, element in elements:
        try:
            _serializer.serialize(element)
        except (TypeError, ArithmeticError) as element_error:
            return _explained(element_path, element, element_error)
    if isinstance(error, ArithmeticError):
        return ValueError(
            f"{path}: {value} can't be held exactly: DynamoDB's numbers have at most {EXACT.prec} digits,"
            f" and are between 1E{EXACT.Emin} and 9.9E+{EXACT.Emax}"
        )
    return TypeError(f"{path}: {error}")


MAXIMUM_ITEM_BYTES = 409_600
"""DynamoDB's limit for an item: 400 kB."""


def item_bytes(item: Item) -> int:
    """The size of an item, by DynamoDB's rules.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
    """
    return sum(len(name.encode()) + value_bytes(value) for name, value in item.items())


def value_bytes(value: Any) -> int:
    match value:
        case str():
            return len(value.encode())
        case bool() | None:
            return 1
        case int() | Decimal():
            return _number_bytes(value)
        case list() | tuple():
            return 3 + len(value) + sum(map(value_bytes, value))
        case set() | frozenset():
            return sum(map(value_bytes, value))
        case bytes() | bytearray():
            return len(value)
    return 3 + sum(1 + len(name.encode()) + value_bytes(element) for name, element in value.items())


@functools.lru_cache(1024)
def _number_bytes(number: int | Decimal) -> int:
    """Two digits take a byte. Zeros at the end take none, and neither do those in front of 0.001."""
    digits = f"{Decimal(number):f}".lstrip("-0.").replace(".", "").rstrip("0")
    return math.ceil(len(digits) / 2) + 2
