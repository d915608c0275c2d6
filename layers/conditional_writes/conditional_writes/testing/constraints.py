"""A request is checked by botocore's model of it, as DynamoDB does before all else: each fault is named.

botocore's own validation knows a part of it: neither enumerations nor the largest values and lengths.
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import botocore.session

from conditional_writes.testing.errors import Refused, invalid

type Check = Callable[[Any, str, list[str]], None]
"""Adds the faults of a value, which is at this place of the request."""
type Constraint = tuple[Callable[[Any], object], str]

_ELSEWHERE = {"AttributeName", "AttributeValue", "NonKeyAttributeNameList"}
"""Shapes whose values the engine checks with words of their own. Of the last one the model has an old maximum, 20."""
_SERVICES = {"DynamoDB_20120810": "dynamodb", "DynamoDBStreams_20120810": "dynamodbstreams"}

MUST_BE_THERE = "Member must not be null"


def check(operation: str, request: Mapping[str, Any]) -> None:
    """Raises Refused for a request that the model of its operation doesn't allow."""
    faults: list[str] = []
    if check := _of_operation(operation):
        check(request, "", faults)
    if faults:
        raise refusal(faults)


def refusal(faults: list[str]) -> Refused:
    number = f"{len(faults)} validation error{'s' if len(faults) > 1 else ''}"
    return invalid(f"{number} detected: {'; '.join(faults)}")


@functools.cache
def _of_operation(operation: str) -> Check | None:
    service, _, name = operation.partition(".")
    return _of(_model(_SERVICES[service]).operation_model(name).input_shape)


@functools.cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def _of(shape: Any) -> Check | None:
    """None if nothing can be wrong with a value of this shape."""
    constraints, inner = _constraints(shape), _inner(shape)
    if not constraints:
        return inner

    def check(value: Any, at: str, faults: list[str]) -> None:
        faults.extend(fault(value, at, text) for holds, text in constraints if not holds(value))
        if inner:
            inner(value, at, faults)

    return check


def fault(value: object, at: str, text: str) -> str:
    shown = "null" if value is None else f"'{value}'"
    return f"Value {shown} at '{at}' failed to satisfy constraint: {text}"


def _constraints(shape: Any) -> list[Constraint]:
    found: list[Constraint] = []
    if shape.name in _ELSEWHERE:
        return found
    is_number = shape.type_name in {"integer", "long"}
    size: Callable[[Any], int] = int if is_number else len
    member = f"Member must have {'value' if is_number else 'length'}"
    if (most := shape.metadata.get("max")) is not None:
        found.append((lambda value: size(value) <= most, f"{member} less than or equal to {most}"))
    if (least := shape.metadata.get("min")) is not None:
        found.append((lambda value: size(value) >= least, f"{member} greater than or equal to {least}"))
    if pattern := shape.metadata.get("pattern"):
        found.append((re.compile(pattern).fullmatch, f"Member must satisfy regular expression pattern: {pattern}"))
    if allowed := shape.metadata.get("enum"):
        found.append((allowed.__contains__, f"Member must satisfy enum value set: [{', '.join(allowed)}]"))
    return found


def _inner(shape: Any) -> Check | None:
    """The check of what a value of this shape consists of."""
    if shape.name in _ELSEWHERE:
        return None
    match shape.type_name:
        case "structure":
            return _of_structure(shape)
        case "list":
            return _of_list(shape)
        case "map":
            return _of_map(shape)
    return None


def _of_structure(shape: Any) -> Check | None:
    required = shape.required_members
    checks = {name: of_member for name, member in shape.members.items() if (of_member := _of(member))}
    if not required and not checks:
        return None

    def check(value: Mapping[str, Any], at: str, faults: list[str]) -> None:
        prefix = f"{at}." if at else ""
        faults.extend(fault(None, prefix + _lower(name), MUST_BE_THERE) for name in required if value.get(name) is None)
        for name, of_member in checks.items():
            if (member := value.get(name)) is not None:
                of_member(member, prefix + _lower(name), faults)

    return check


def _lower(name: str) -> str:
    return name[0].lower() + name[1:]


def _of_list(shape: Any) -> Check | None:
    of_member = _of(shape.member)
    if not of_member:
        return None

    def check(value: list[Any], at: str, faults: list[str]) -> None:
        for number, member in enumerate(value, 1):
            of_member(member, f"{at}.{number}.member", faults)

    return check


def _of_map(shape: Any) -> Check | None:
    """The constraints on a map's keys and values are the map's own; those inside of its values are theirs."""
    of_keys, of_values, inner = _constraints(shape.key), _constraints(shape.value), _inner(shape.value)
    if not of_keys and not of_values and not inner:
        return None

    def check(value: Mapping[str, Any], at: str, faults: list[str]) -> None:
        for which, constraints, parts in (("keys", of_keys, value.keys()), ("value", of_values, value.values())):
            if any(not holds(part) for holds, _ in constraints for part in parts):
                texts = ", ".join(text for _, text in constraints)
                faults.append(fault(value, at, f"Map {which} must satisfy constraint: [{texts}]"))
        if inner:
            for key, member in value.items():
                inner(member, f"{at}.{key}.member", faults)

    return check
