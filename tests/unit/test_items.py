"""Items in Python's types and in DynamoDB's: as boto3 converts them, but faster, and exactly."""

from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import Binary, TypeDeserializer, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import EXACT
from conditional_writes.core.items import copied, from_dynamodb, same, serialized, to_dynamodb
from tests.support.strategies import exact_numbers

texts = st.text(st.characters(codec="utf-8"))
numbers = exact_numbers() | st.just(Decimal(0)) | st.integers(-(10**40), 10**40)
scalars = st.none() | st.booleans() | texts | numbers | st.binary()
others = st.floats() | st.decimals() | st.dates() | st.binary().map(Binary) | st.binary().map(bytearray)
sets = st.one_of(*(st.sets(each, max_size=3) for each in (texts, numbers, st.binary())))
sets |= st.frozensets(scalars, max_size=3)


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(texts | st.integers(), inner, max_size=3)
        ),
        max_leaves=8,
    )


class Boto3sSerializer(TypeSerializer):
    """boto3's own steps from a value to its type, with the library's numbers, names and sets."""

    def serialize(self, value: Any) -> Any:
        if isinstance(value, set | frozenset) and not value:
            raise TypeError("empty set")
        if isinstance(value, set | frozenset) and any(isinstance(element, bool) for element in value):
            raise TypeError("bools")
        return super().serialize(value)

    def _serialize_n(self, value: int | Decimal) -> str:
        number = Decimal(value)
        if not number.is_finite():
            raise TypeError("no number")
        exact = EXACT.normalize(number) if number else Decimal(0)
        if int(exact.as_tuple().exponent) < EXACT.Emin:
            raise ArithmeticError
        return format(exact, "f") if 0 <= exact.adjusted() < EXACT.prec else str(exact)

    def _serialize_m(self, value: Any) -> Any:
        if not all(isinstance(name, str) for name in value):
            raise TypeError("name")
        return super()._serialize_m(value)


class Boto3sDeserializer(TypeDeserializer):
    """boto3's own steps from a type to a value, with the library's numbers and binaries."""

    def _deserialize_n(self, value: str) -> Decimal:
        return Decimal(value)

    def _deserialize_b(self, value: bytes) -> bytes:
        return bytes(value)


@given(nested(scalars | sets | others))
def test_every_value_becomes_what_boto3_makes_of_it_or_is_refused_as_by_boto3(value: Any) -> None:
    try:
        expected = Boto3sSerializer().serialize(value)
    except (TypeError, ArithmeticError) as error:
        told = ValueError if isinstance(error, ArithmeticError) else TypeError
        has_several = isinstance(value, dict | list | tuple)  # of several faults either may be told
        with pytest.raises((TypeError, ValueError) if has_several else told):
            serialized("value", value)
    else:
        assert serialized("value", value) == expected


@given(st.dictionaries(texts, nested(scalars | sets.filter(bool)), max_size=4))
def test_every_item_is_read_as_boto3_reads_it(item: dict[str, Any]) -> None:
    try:
        stored = to_dynamodb(item)
    except (TypeError, ValueError):
        return
    read = from_dynamodb(stored)
    assert read == {name: Boto3sDeserializer().deserialize(value) for name, value in stored.items()}
    assert same(from_dynamodb(to_dynamodb(read)), read)


@given(nested(scalars | sets.filter(bool)))
def test_a_copy_is_the_same_and_shares_nothing_that_changes(value: Any) -> None:
    copy = copied(value)
    assert same(copy, value)
    assert not {id(part) for part in mutable_parts(copy)} & {id(part) for part in mutable_parts(value)}


def mutable_parts(value: Any) -> list[Any]:
    match value:
        case dict():
            return [value, *(part for element in value.values() for part in mutable_parts(element))]
        case list() | tuple():
            parts = [part for element in value for part in mutable_parts(element)]
            return [value, *parts] if isinstance(value, list) else parts
        case set():
            return [value]
    return []
