"""Models of pydantic's as items: its own validation and serialisation, and of its values those that DynamoDB has."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAliasType, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from conditional_writes.codecs import Codec, Fields, Unfit, UnfitModel, with_whole_numbers
from conditional_writes.items import Item


def codec_of[Model](model: type[Model]) -> tuple[Codec[Model], Fields]:
    adapter = TypeAdapter(model)
    fields = _fields(model)
    _check(model, model.__name__, {model})

    def encode(value: Model) -> Item:
        dumped = adapter.dump_python(value, by_alias=True)
        return fields.without_defaults({name: _plain(element) for name, element in dumped.items()})

    def decode(item: Item) -> Model:
        try:
            # A strict model would take no text for a datetime, nor a list for a tuple, and DynamoDB has neither.
            return adapter.validate_python(with_whole_numbers(item), strict=False)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            raise Unfit("; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)) from None

    return Codec(encode, decode), fields


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
    return _ANYTHING.dump_python(value, mode="json")


def _fields(model: Any) -> Fields:
    config = getattr(model, "model_config", None) or getattr(model, "__pydantic_config__", {})
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    names, defaults = set(), {}
    for name, field in _infos(model).items():
        written = field.serialization_alias or name
        read = _names_read(name, field) | ({name} if by_name else set())
        if written not in read and not field.exclude:
            raise UnfitModel(
                f"{model.__name__}.{name} is written as {written} and read as {' or '.join(sorted(read))}:"
                " give it one `alias` for both"
            )
        names.add(written)
        default = field.default_factory() if field.default_factory in {set, frozenset} else field.default
        if default is None or default in (set(), frozenset()):
            defaults[written] = default
    computed = model.__pydantic_decorators__.computed_fields
    names |= {each.info.alias or name for name, each in computed.items()}
    return Fields(frozenset(names), defaults)


def _infos(model: Any) -> Mapping[str, FieldInfo]:
    is_model = isinstance(model, type) and issubclass(model, BaseModel)
    infos: Mapping[str, FieldInfo] = model.model_fields if is_model else model.__pydantic_fields__
    return infos


def _names_read(name: str, field: FieldInfo) -> set[str]:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return {choice for choice in alias.choices if isinstance(choice, str)}
    return {name} if alias is None else {str(alias)}


def _check(model: Any, path: str, seen: set[Any]) -> None:
    """Raises UnfitModel for annotations that DynamoDB has no type for."""
    for name, annotation in _annotations(model):
        for part in _parts(annotation):
            if part is float:
                raise UnfitModel(
                    f"{path}.{name} is a float, and DynamoDB's numbers are exact decimals: make it a Decimal"
                )
            if get_origin(part) in {set, frozenset}:
                _check_set(part, f"{path}.{name}")
            if _has_fields(part) and part not in seen:
                seen.add(part)
                _check(part, f"{path}.{name}", seen)


def _check_set(annotation: Any, path: str) -> None:
    for part in itertools.chain.from_iterable(map(_parts, get_args(annotation))):
        kind = get_origin(part) or part
        if _has_fields(kind) or (isinstance(kind, type) and issubclass(kind, tuple | frozenset | bool)):
            raise UnfitModel(f"{path} is a set, and DynamoDB's sets are of texts, numbers or bytes: make it a list")


def _has_fields(part: Any) -> bool:
    return isinstance(part, type) and (hasattr(part, "__pydantic_validator__") or dataclasses.is_dataclass(part))


def _annotations(model: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(model, "__pydantic_validator__"):
        yield from ((name, field.annotation) for name, field in _infos(model).items())
    else:
        yield from get_type_hints(model).items()


def _parts(annotation: Any, aliases: tuple[TypeAliasType, ...] = ()) -> Iterator[Any]:
    """The annotation and all that it is made of. An alias may be made of itself."""
    if isinstance(annotation, TypeAliasType):
        if annotation not in aliases:
            yield from _parts(annotation.__value__, (*aliases, annotation))
        return
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part, aliases)
