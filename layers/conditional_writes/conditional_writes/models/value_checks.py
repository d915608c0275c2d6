"""Values that would silently come back as others. A save looks for them, at the places that the annotations name."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, time
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NewType,
    TypeAliasType,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

type Check = Callable[[str, Any], None]
"""Takes a value and its path, which is for the error's text. Raises TypeError."""


def check_of(model: Any, *, keeps_sets: bool) -> Check | None:
    """The check of a model's values, None if all that its annotations allow come back as they were.

    Refused are values in a field of any type that items don't have, offsets from UTC with seconds, and models of a
    subclass. `keeps_sets`: a set comes back as a set from a field of any type.
    """
    return _Checks(keeps_sets=keeps_sets).of(model)


def has_fields(kind: Any) -> bool:
    """Whether this is a model's class: pydantic's, a dataclass, a struct, a NamedTuple or a TypedDict."""
    return isinstance(kind, type) and (
        hasattr(kind, "__pydantic_validator__")
        or dataclasses.is_dataclass(kind)
        or hasattr(kind, "__struct_fields__")
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
        or is_typeddict(kind)
    )


def annotations_of(model: Any) -> dict[str, Any]:
    """The annotations of a class's fields, by their names in Python. `Box[int]` has those of Box, with int for T."""
    kind = get_origin(model) or model
    if hasattr(kind, "__pydantic_fields__"):
        serialized = {name for each in _serializers(kind) for name in each.info.fields}
        return {
            name: Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            for name, field in kind.__pydantic_fields__.items()
            if not {name, "*"} & serialized
        }
    given = dict(zip(getattr(kind, "__parameters__", ()), get_args(model), strict=False))
    return {name: _filled(each, given) for name, each in get_type_hints(kind, include_extras=True).items()}


def _serializers(kind: Any) -> Collection[Any]:
    """Those of pydantic's `field_serializer`: what they make of a value is their own."""
    found: Collection[Any] = kind.__pydantic_decorators__.field_serializers.values()
    return found


def _is_serializer(annotated: Any) -> bool:
    return type(annotated).__module__ == "pydantic.functional_serializers"


def _filled(annotation: Any, given: Mapping[Any, Any]) -> Any:
    if isinstance(annotation, TypeVar):
        return given.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    return annotation[tuple(given.get(each, Any) for each in parameters)] if parameters else annotation


class _Checks:
    def __init__(self, *, keeps_sets: bool) -> None:
        self._keeps_sets = keeps_sets
        self._made: dict[Any, Check | None] = {}
        self._in_progress: set[Any] = set()

    def of(self, annotation: Any) -> Check | None:
        kind, arguments = get_origin(annotation) or annotation, get_args(annotation)
        if kind is Annotated:
            return self.of(arguments[0]) if not any(map(_is_serializer, arguments[1:])) else None
        if isinstance(kind, TypeAliasType):
            return self._once(annotation, lambda: self.of(kind.__value__[arguments] if arguments else kind.__value__))
        if kind in (Union, UnionType):
            return self._union(arguments)
        if isinstance(kind, NewType):
            return self.of(kind.__supertype__)
        if kind in (Any, object) or isinstance(kind, TypeVar):
            return self.of(kind.__bound__) if getattr(kind, "__bound__", None) else self._plain
        if has_fields(kind):
            return self._once(annotation, lambda: self._fields(annotation, kind))
        return self._of_type(kind, arguments) if isinstance(kind, type) else None

    def _of_type(self, kind: type, arguments: tuple[Any, ...]) -> Check | None:
        if kind in (datetime, time):
            return _check_offset
        if issubclass(kind, Mapping):
            return self._map(*(*arguments, Any, Any)[:2])
        if issubclass(kind, tuple) and arguments and arguments[-1] is not ...:
            return self._tuple(arguments)
        if issubclass(kind, Collection) and not issubclass(kind, str | bytes | bytearray | Enum):
            return self._each(self.of(arguments[0] if arguments else Any))
        return None

    def _once(self, annotation: Any, make: Callable[[], Check | None]) -> Check | None:
        """A class, or an alias, may be inside of itself."""
        if annotation in self._in_progress:
            return lambda path, value: _run(self._made[annotation], path, value)
        if annotation not in self._made:
            self._in_progress.add(annotation)
            self._made[annotation] = make()
            self._in_progress.remove(annotation)
        return self._made[annotation]

    def _union(self, members: Collection[Any]) -> Check | None:
        checks = [(_kind_of(member), check) for member in members if (check := self.of(member))]
        if any(check == self._plain for _, check in checks):
            return self._plain

        def check_member(path: str, value: Any) -> None:
            for kind, check in checks:
                if isinstance(value, kind):
                    return check(path, value)
            return None

        return check_member if checks else None

    def _fields(self, annotation: Any, kind: Any) -> Check | None:
        if getattr(getattr(kind, "__pydantic_decorators__", None), "model_serializers", None):
            return None
        checks = [(name, check) for name, each in annotations_of(annotation).items() if (check := self.of(each))]
        is_open = getattr(kind, "model_config", {}).get("extra") == "allow"

        def check_entries(path: str, values: Any) -> None:
            for name, check in checks:
                if name in values:
                    check(_joined(path, name), values[name])

        def check_fields(path: str, value: Any) -> None:
            if not isinstance(value, kind):
                return
            if type(value) is not kind:
                raise TypeError(
                    f"{path}: expected a {kind.__name__}, got {value!r}: a subclass would come back as that"
                )
            for name, check in checks:
                check(_joined(path, name), getattr(value, name))
            if is_open:
                self._plain(path, value.__pydantic_extra__)

        return check_entries if is_typeddict(kind) else check_fields

    def _map(self, key: Any, element: Any) -> Check | None:
        is_open = key in (Any, object) or isinstance(key, TypeVar)
        check, check_key = self.of(element), _check_text if is_open else self.of(key)

        def check_map(path: str, values: Any) -> None:
            for name, value in values.items() if isinstance(values, Mapping) else ():
                _run(check_key, path, name)
                _run(check, _joined(path, name), value)

        return check_map if check or check_key else None

    def _tuple(self, members: Collection[Any]) -> Check | None:
        checks = [self.of(member) for member in members]

        def check_tuple(path: str, values: Any) -> None:
            elements = values if isinstance(values, Collection) else ()
            for index, (check, value) in enumerate(zip(checks, elements, strict=False)):
                _run(check, f"{path}[{index}]", value)

        return check_tuple if any(checks) else None

    def _each(self, check: Check | None) -> Check | None:
        def check_each(path: str, values: Any) -> None:
            for index, value in enumerate(values if isinstance(values, Collection) else ()):
                _run(check, f"{path}[{index}]", value)

        return check_each if check else None

    def _plain(self, path: str, value: Any) -> None:
        """In a field of any type. A float passes: the error that names it is the serializer's."""
        kind = type(value)
        if kind is dict:
            check_map = self._map(Any, Any)
            assert check_map is not None
            check_map(path, value)
        elif kind is list:
            for index, element in enumerate(value):
                self._plain(f"{path}[{index}]", element)
        elif not (kind in _PLAIN or (self._keeps_sets and kind is set and value)):
            raise TypeError(
                f"{path}: {value!r} is of {kind.__name__}, and would come back as another type: name the type in the"
                " annotation, or make a value of it that items have"
            )


_PLAIN = {str, bytes, bytearray, bool, int, Decimal, float, NoneType}


def _joined(path: str, name: object) -> str:
    return f"{path}.{name}" if path else f"{name}"


def _run(check: Check | None, path: str, value: Any) -> None:
    if check is not None:
        check(path, value)


def _kind_of(annotation: Any) -> Any:
    kind: Any = get_origin(annotation) or annotation
    if kind is Annotated:
        return _kind_of(get_args(annotation)[0])
    if isinstance(kind, TypeAliasType):
        return _kind_of(kind.__value__)
    if isinstance(kind, NewType):
        return _kind_of(kind.__supertype__)
    if is_typeddict(kind):
        return dict
    return kind if isinstance(kind, type) else object


def _check_text(path: str, name: Any) -> None:
    """Of a key in a field of any type."""
    if type(name) is not str:
        raise TypeError(f"{path}: the key {name!r} is no text, and would come back as one")


def _check_offset(path: str, value: Any) -> None:
    """A time's text has an offset in minutes. msgspec rounds others, and pydantic cuts them off.

    A time of day in a named zone has none without its day.
    """
    offset = value.utcoffset() if isinstance(value, datetime | time) else None
    if offset is None and isinstance(value, datetime | time) and value.tzinfo is not None:
        raise TypeError(f"{path}: {value!r} has no offset from UTC, and would come back without its zone")
    if offset is not None and offset.total_seconds() % 60:
        raise TypeError(f"{path}: the offset of {value!r} has seconds, and its text can't: save it as of UTC")
