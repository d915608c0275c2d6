"""Models of pydantic's as items: its own validation and serialisation, and of its values those that DynamoDB has."""

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAliasType, Union, get_args, get_origin

from pydantic import AliasChoices, AliasPath, Json, TypeAdapter, ValidationError

from conditional_writes.core.items import Item
from conditional_writes.models.codecs import (
    UNFIT_KEYS,
    Codec,
    Fields,
    Unfit,
    UnfitModel,
    makes_empty_set,
    with_whole_numbers,
)
from conditional_writes.models.value_checks import annotations_of, check_of, has_fields


def codec_of[Model](model: type[Model]) -> tuple[Codec[Model], Fields]:
    adapter = TypeAdapter(model)
    tags = _check_class(model, model.__name__, {model})
    fields = _fields(model)._replace(tags=frozenset(tags))
    check = check_of(model, keeps_sets=True)

    def encode(value: Model) -> Item:
        if check:
            check("", value)
        # pydantic would warn of values that it didn't check. A value that doesn't come back is refused with its path.
        dumped = adapter.dump_python(value, by_alias=True, warnings=False)
        if not isinstance(dumped, dict):
            raise TypeError(f"{model.__name__}: its serializer returned {dumped!r}, expected a dict")
        return fields.without_defaults({name: _plain(element) for name, element in dumped.items()})

    def decode(item: Item) -> Model:
        try:
            # A strict model would take no text for a datetime, nor a list for a tuple, and DynamoDB has neither.
            return adapter.validate_python(with_whole_numbers(item), strict=False)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            raise Unfit("; ".join(map(_sentence, found))) from None

    return Codec(encode, decode), fields


def _sentence(error: Any) -> str:
    """Of a validator of the whole model it names no field."""
    return ": ".join([".".join(map(str, error["loc"])), error["msg"]] if error["loc"] else [error["msg"]])


_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


def _plain(value: Any) -> Any:
    """A value of `model_dump` as DynamoDB has it. A float stays one, for the error that names its path."""
    match value:
        case Enum():
            return _plain(value.value)
        case str() | bytes() | bool() | int() | Decimal() | float() | None:
            return value
        case bytearray():
            return bytes(value)
        case dict():
            return {name if type(name) is str else str(_plain(name)): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(element) for element in value]
        case set() | frozenset():
            return {_plain(element) for element in value} or []
    if hasattr(value, "get_secret_value"):
        raise TypeError(f"{value!r} is a secret, which pydantic would write as asterisks: give its field a serializer")
    try:
        return _ANYTHING.dump_python(value, mode="json")
    except ValueError:  # a time zone, or in pydantic 2.10 an address: its field reads its text
        return str(value)


def _fields(model: Any) -> Fields:
    names, defaults = set(), {}
    for name, field in model.__pydantic_fields__.items():
        written = field.serialization_alias or name
        names.add(written)
        default = field.default_factory() if makes_empty_set(field.default_factory) else field.default
        if default is None or default in (set(), frozenset()):
            defaults[written] = default
    computed = {each.info.alias or name for name, each in _computed(model).items()}
    return Fields(frozenset(names | computed), defaults, frozenset(computed))


def _computed(model: Any) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = model.__pydantic_decorators__.computed_fields
    return fields


def _check_class(model: Any, path: str, seen: set[Any]) -> set[tuple[str, Any]]:
    """The tags in its unions. Raises UnfitModel for what DynamoDB has no type for, or what would be read as another."""
    if hasattr(model, "__pydantic_fields__"):
        _check_names(model, path)
    tags = set[tuple[str, Any]]()
    for name, annotation in annotations_of(model).items():
        for part in _parts(annotation):
            _check_part(part, f"{path}.{name}")
            if get_origin(part) in {Union, UnionType}:
                tags |= _tags(part)
            if has_fields(part) and part not in seen:
                seen.add(part)
                tags |= _check_class(part, f"{path}.{name}", seen)
    return tags


def _check_names(model: Any, path: str) -> None:
    config = getattr(model, "model_config", None) or getattr(model, "__pydantic_config__", {})
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    by_alias = config.get("validate_by_alias", True)
    for name, field in model.__pydantic_fields__.items():
        written = field.serialization_alias or name
        aliases = [] if field.validation_alias is None or not by_alias else _choices(field.validation_alias)
        read = [*aliases, *([name] if by_name or not aliases else [])]
        if written != read[0] and not field.exclude:
            raise UnfitModel(
                f"{path}.{name} is written as {written} and read as {' or '.join(map(str, read))}:"
                f" give it one `alias` for both, or read {written} first"
            )
    if config.get("extra") == "forbid" and _computed(model):
        raise UnfitModel(f"{path} forbids extra attributes, and writes some: {', '.join(_computed(model))}")


def _choices(alias: str | AliasPath | AliasChoices) -> list[str | AliasPath]:
    return alias.choices if isinstance(alias, AliasChoices) else [alias]


def _tags(union: Any) -> set[tuple[str, Any]]:
    """Names and values of the literals by which members of a union are told from each other."""
    return {
        (field.serialization_alias or name, value)
        for member in _parts(union)
        if has_fields(member) and hasattr(member, "__pydantic_fields__")
        for name, field in member.__pydantic_fields__.items()
        if get_origin(field.annotation) is Literal
        for value in get_args(field.annotation)
    }


_JSON: Any = Json


def _check_part(part: Any, path: str) -> None:
    kind = get_origin(part) or part
    if part is float:
        raise UnfitModel(f"{path} is a float, and DynamoDB's numbers are exact decimals: make it a Decimal")
    if part is _JSON or isinstance(part, _JSON):
        raise UnfitModel(f"{path} is a Json, which is read from a text and written as a value: name the value's type")
    if kind in (Iterable, Generator):
        raise UnfitModel(f"{path} is an {kind.__name__}, which pydantic reads as a generator, once: make it a list")
    if kind in (set, frozenset):
        _check_set(part, path)
    elif kind in (Union, UnionType):
        _check_union(part, path)
    elif isinstance(kind, type) and issubclass(kind, Mapping) and not has_fields(kind):
        _check_keys(part, path)
    elif isinstance(kind, type) and issubclass(kind, Enum) and not all(map(_is_value, kind)):
        raise UnfitModel(f"{path} is a {kind.__name__}, whose values are no texts, numbers or bytes")


def _is_value(member: Enum) -> bool:
    return member.value is None or isinstance(member.value, str | bytes | int | Decimal)


def _check_set(annotation: Any, path: str) -> None:
    for part in itertools.chain.from_iterable(map(_parts, get_args(annotation))):
        kind = get_origin(part) or part
        if has_fields(kind) or (isinstance(kind, type) and issubclass(kind, tuple | frozenset | bool)):
            raise UnfitModel(f"{path} is a set, and DynamoDB's sets are of texts, numbers or bytes: make it a list")


def _check_union(annotation: Any, path: str) -> None:
    """A union's members must differ in an item: a datetime is a text there, and a set may be a list."""
    members = [*_members(annotation)]
    for what, kinds in (
        ("texts", {each for each in members if _is_text(each)}),
        ("numbers", {_number(each) for each in members} - {None}),
        ("lists", {get_origin(each) or each for each in members if _is_list(get_origin(each) or each)}),
    ):
        if len(kinds) > 1:
            names = " or ".join(sorted(getattr(kind, "__name__", str(kind)) for kind in kinds))
            raise UnfitModel(f"{path} is {names}, and all are {what} in an item: name one, or give a Codec")


def _members(annotation: Any) -> Iterator[Any]:
    """The members of a union, and of those inside of it, without what is annotated to them."""
    if isinstance(annotation, TypeAliasType):
        annotation = annotation.__value__
    if get_origin(annotation) is Annotated:
        yield from _members(get_args(annotation)[0])
    elif get_origin(annotation) in {Union, UnionType}:
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation


_NO_TEXTS = (bytes, bytearray, bool, int, Decimal, NoneType, Mapping, list, tuple, set, frozenset)


def _is_text(kind: Any) -> bool:
    if not isinstance(kind, type) or has_fields(kind):
        return False
    if issubclass(kind, Enum):
        return any(isinstance(member.value, str) for member in kind)
    return kind is not object and not issubclass(kind, _NO_TEXTS)


def _number(kind: Any) -> Any:
    """int for each type of equal numbers, None for a type of others than numbers."""
    if not isinstance(kind, type) or not issubclass(kind, int | Decimal | Enum) or kind is bool:
        return None
    if issubclass(kind, Enum):
        return kind if any(isinstance(member.value, int | Decimal) for member in kind) else None
    return int


def _is_list(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, list | tuple | set | frozenset)


_NO_KEYS = (bytes, bytearray, tuple, frozenset)


def _check_keys(annotation: Any, path: str) -> None:
    """A map's keys are texts. Of the text of any other key pydantic must make the same key again."""
    [key, *others] = _members((get_args(annotation) or (Any,))[0])
    kind = get_origin(key) or key
    if others or kind is None or (isinstance(kind, type) and issubclass(kind, _NO_KEYS)):
        raise UnfitModel(f"{path} {UNFIT_KEYS}")
    if not all(isinstance(value, str) for value in _values(key)):
        raise UnfitModel(
            f"{path} has keys that pydantic doesn't read from their texts: make them of an IntEnum or StrEnum"
        )


def _values(key: Any) -> Iterable[Any]:
    """Those of a Literal or an Enum. pydantic reads an IntEnum from its text, and no other number."""
    if get_origin(key) is Literal:
        return get_args(key)
    is_enum = isinstance(key, type) and issubclass(key, Enum) and not issubclass(key, int)
    return [member.value for member in key] if is_enum else []


def _parts(annotation: Any, aliases: tuple[TypeAliasType, ...] = ()) -> Iterator[Any]:
    """The annotation and all that it is made of. An alias may be made of itself."""
    if isinstance(annotation, TypeAliasType):
        if annotation not in aliases:
            yield from _parts(annotation.__value__, (*aliases, annotation))
        return
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part, aliases)
