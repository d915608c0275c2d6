"""Dataclasses and msgspec structs as items. Own code only for what msgspec leaves out: sets, and DynamoDB's numbers."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, get_origin

import msgspec
from msgspec import inspect

from conditional_writes.core.items import Item, copied
from conditional_writes.models.codecs import (
    UNFIT_KEYS,
    Codec,
    Fields,
    Unfit,
    UnfitModel,
    makes_empty_set,
    with_whole_numbers,
)
from conditional_writes.models.value_checks import check_of

type Restore = Callable[[Any], Any]
"""Makes sets again of the lists that msgspec makes of them. A value of another type than the annotation's stays as it
is: `decode` says what was expected."""

_Described = inspect.StructType | inspect.DataclassType
_MAPS = inspect.DataclassType | inspect.TypedDictType | inspect.DictType

_AS_THEY_ARE = (bytes, bytearray, Decimal)
_KEYS = (
    inspect.StrType,
    inspect.IntType,
    inspect.EnumType,
    inspect.LiteralType,
    inspect.UUIDType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.TimeDeltaType,
    inspect.AnyType,
)
"""Types that msgspec turns into one text, and the text into the same value."""
_IN_SETS = (
    inspect.StrType,
    inspect.IntType,
    inspect.DecimalType,
    inspect.BytesType,
    inspect.EnumType,
    inspect.LiteralType,
    inspect.UUIDType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.TimeDeltaType,
)
"""Types that msgspec turns into text, a number or bytes."""


def codec_of[Model](model: type[Model]) -> tuple[Codec[Model], Fields]:
    try:
        described = inspect.type_info(model)
    except (TypeError, NotImplementedError, RecursionError) as error:  # the last for a type alias inside of itself
        raise UnfitModel(f"{_name_of(model)} can't be a model: {error}") from None
    if not isinstance(described, _Described) or _is_array(described):
        raise UnfitModel(f"{_name_of(model)} can't be a model: it is array_like, and an item is a map")
    sets = _Sets()
    restored = sets.restored(described, described.cls.__name__)
    fields = _fields(described)._replace(tags=frozenset(sets.tags))
    check = check_of(model, keeps_sets=False)

    def encode(value: Model) -> Item:
        if check:
            check("", value)
        item = msgspec.to_builtins(value, builtin_types=_AS_THEY_ARE, str_keys=True)
        # msgspec passes a bytearray on as it is, and the model may be changed in place.
        return fields.without_defaults(copied(restored(item) if restored else item))

    def decode(item: Item) -> Model:
        try:
            return msgspec.convert(with_whole_numbers(item), model, str_keys=True)
        except msgspec.ValidationError as error:
            raise Unfit(_with_field_first(str(error))) from None

    return Codec(encode, decode), fields


def _name_of(model: Any) -> str:
    name: str = (get_origin(model) or model).__name__
    return name


def _with_field_first(text: str) -> str:
    """msgspec's "Expected `int`, got `str` - at `$.seats`" as "seats: expected `int`, got `str`"."""
    what, at, path = text.partition(" - at ")
    path = path.strip("`").removeprefix("$").removeprefix(".")
    return f"{path}: {what[0].lower()}{what[1:]}" if at and path else text


def _fields(described: _Described) -> Fields:
    names = {field.encode_name for field in described.fields}
    if isinstance(described, inspect.StructType) and described.tag_field is not None:
        names.add(described.tag_field)
    defaults = {field.encode_name: _default(field) for field in described.fields}
    return Fields(
        frozenset(names),
        {name: value for name, value in defaults.items() if value is None or value in (set(), frozenset())},
    )


def _default(field: inspect.Field) -> Any:
    made = field.default_factory
    return made() if makes_empty_set(made) else field.default


def _is_array(described: inspect.Type) -> bool:
    return isinstance(described, inspect.StructType) and described.array_like


class _Sets:
    """Finds the sets in a model's annotations. Raises UnfitModel for types that DynamoDB doesn't have."""

    def __init__(self) -> None:
        self._classes: dict[int, dict[str, Restore]] = {}
        self.tags = set[tuple[str, Any]]()

    def restored(self, described: inspect.Type, path: str) -> Restore | None:
        """The function that makes a value's sets again, None if there are none. `path` is for the error's text."""
        match described:
            case inspect.FloatType():
                raise UnfitModel(f"{path} is a float, and DynamoDB's numbers are exact decimals: make it a Decimal")
            case inspect.CustomType(cls=kind):
                raise UnfitModel(f"{path} is of {kind.__name__}, which items don't have: give a Codec for the model")
            case inspect.RawType() | inspect.ExtType() | inspect.MemoryViewType():
                raise UnfitModel(f"{path} is of a type that items don't have: give a Codec for the model")
            case inspect.SetType(item_type=element) | inspect.FrozenSetType(item_type=element):
                return self._set(element, path)
            case inspect.ListType(item_type=element) | inspect.VarTupleType(item_type=element):
                return _each(self.restored(element, f"{path}[]"))
            case inspect.DictType(key_type=key, value_type=element):
                return self._map(key, element, path)
            case inspect.TupleType(item_types=elements):
                return _in_turn([self.restored(element, f"{path}[{i}]") for i, element in enumerate(elements)])
            case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType() | inspect.NamedTupleType():
                return self._class(described, path)
            case inspect.UnionType(types=members):
                return self._union(members, path)
        return None

    def _map(self, key: inspect.Type, element: inspect.Type, path: str) -> Restore | None:
        if not isinstance(key, _KEYS):
            raise UnfitModel(f"{path} {UNFIT_KEYS}")
        return _each_value(self.restored(element, f"{path}.*"))

    def _set(self, element: inspect.Type, path: str) -> Restore:
        self.restored(element, f"{path}[]")
        kinds = element.types if isinstance(element, inspect.UnionType) else (element,)
        if not all(isinstance(kind, _IN_SETS) for kind in kinds):
            raise UnfitModel(f"{path} is a set, and DynamoDB's sets are of texts, numbers or bytes: make it a list")
        return _as_set

    def _class(
        self,
        described: inspect.StructType | inspect.DataclassType | inspect.TypedDictType | inspect.NamedTupleType,
        path: str,
    ) -> Restore | None:
        # One of the description, because Box[int] and Box[str] are of one class.
        if id(described) in self._classes:  # it may be inside of itself, so what it has isn't known yet
            return _fields_of(self._classes[id(described)])
        restores = self._classes[id(described)] = {}
        for field in described.fields:
            restore = self.restored(field.type, f"{path}.{field.name}")
            if restore:
                restores[field.encode_name] = restore
        if restores and (_is_array(described) or isinstance(described, inspect.NamedTupleType)):
            raise UnfitModel(f"{path} has a set in an array of fields: make it a dataclass, or give a Codec")
        return _fields_of(restores) if restores else None

    def _union(self, members: Iterable[inspect.Type], path: str) -> Restore | None:
        """msgspec has at most one array in a union, and one map, or structs that it knows by their tags."""
        arrays: list[Restore] = []
        maps: list[Restore] = []
        tagged: dict[Any, Restore] = {}
        for member in members:
            restore = self.restored(member, path)
            if isinstance(member, inspect.StructType) and member.tag_field is not None:
                self.tags.add((member.tag_field, member.tag))
            if restore is None:
                continue
            if isinstance(member, inspect.StructType) and member.tag_field is not None:
                tagged[member.tag_field, member.tag] = restore
            elif isinstance(member, inspect.StructType | _MAPS):
                maps.append(restore)
            else:
                arrays.append(restore)

        def restored(value: Any) -> Any:
            if isinstance(value, list | tuple):
                fitting = arrays
            elif isinstance(value, dict):
                fitting = maps or [restore for (name, tag), restore in tagged.items() if value.get(name) == tag]
            else:
                fitting = []
            return fitting[0](value) if fitting else value

        return restored if arrays or maps or tagged else None


def _as_set(elements: Any) -> Any:
    try:
        return set(elements) or [] if isinstance(elements, list) else elements
    except TypeError:  # an element is a list or a map
        return elements


def _each(restore: Restore | None) -> Restore | None:
    def restored(elements: Any) -> Any:
        return [*map(restore, elements)] if restore and isinstance(elements, list | tuple) else elements

    return restore and restored


def _each_value(restore: Restore | None) -> Restore | None:
    def restored(elements: Any) -> Any:
        if restore is None or not isinstance(elements, dict):
            return elements
        return {name: restore(element) for name, element in elements.items()}

    return restore and restored


def _in_turn(restores: list[Restore | None]) -> Restore | None:
    def restored(elements: Any) -> Any:
        if not isinstance(elements, list | tuple) or len(elements) != len(restores):
            return elements
        pairs = zip(restores, elements, strict=True)
        return [restore(element) if restore else element for restore, element in pairs]

    return restored if any(restores) else None


def _fields_of(restores: dict[str, Restore]) -> Restore:
    """Of a class that is an array of its fields, as a NamedTuple, no field has sets."""

    def restored(item: Any) -> Any:
        if not isinstance(item, dict):
            return item
        return {name: restores[name](value) if name in restores else value for name, value in item.items()}

    return restored
