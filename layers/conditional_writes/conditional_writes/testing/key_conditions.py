"""The conditions of a query on its keys."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from conditional_writes.testing.conditions import (
    AllOf,
    Attribute,
    Between,
    Compared,
    Condition,
    Function,
    Given,
    Operand,
    Size,
)
from conditional_writes.testing.errors import invalid, invalid_parameter
from conditional_writes.testing.placeholders import Placeholders
from conditional_writes.testing.tables import Keys, check_size
from conditional_writes.testing.values import Scalar, Value, kind_of, scalar

KIND = "KeyConditionExpression"
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class KeyCondition(NamedTuple):
    operator: str
    values: tuple[Value, ...]


def of(wanted: Condition, given: Placeholders) -> dict[str, KeyCondition]:
    """The conditions by the names of their attributes. Raises Refused for one that no query takes."""
    found: dict[str, KeyCondition] = {}
    for condition in _alone(wanted):
        name, key_condition = _of_key(condition, given)
        if name in found:
            raise invalid("KeyConditionExpressions must only contain one condition per key")
        found[name] = key_condition
    if len(found) > 2:
        raise invalid("Conditions can be of length 1 or 2 only")
    return found


def _alone(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, AllOf):
        for each in condition.conditions:
            yield from _alone(each)
    else:
        yield condition


def _of_key(condition: Condition, given: Placeholders) -> tuple[str, KeyCondition]:
    operator, named, operands = _parts(condition)
    if any(isinstance(operand, Size) for operand in (named, *operands)):
        raise invalid("KeyConditionExpressions cannot contain nested operations")
    if not isinstance(named, Attribute):
        raise _misused("No key attribute specified")
    path = given.resolved(named.path)
    if len(path) > 1:
        raise invalid("KeyConditionExpressions cannot have conditions on nested attributes")
    if not all(isinstance(operand, Given) for operand in operands):
        raise _misused("Multiple attribute names used in one condition")
    values = [operand.value({}, given) for operand in operands]
    return str(path[0]), KeyCondition(operator, tuple(value for value in values if value is not None))


def _parts(condition: Condition) -> tuple[str, Operand, tuple[Operand, ...]]:
    """The condition's operator, what should be its attribute, and the values beside it."""
    match condition:
        case Compared(operator, one, other) if operator != "<>":
            if isinstance(other, Attribute) and not isinstance(one, Attribute):
                return _TURNED[operator], other, (one,)
            return operator, one, (other,)
        case Between(one, lowest, highest):
            operator, operands = "BETWEEN", (lowest, highest)
        case Function("begins_with", (one, other)):
            operator, operands = "begins_with", (other,)  # type: ignore[assignment]  # as many as it takes
        case _:
            raise invalid(f"Invalid operator used in {KIND}: {_name_of(condition)}")
    if not isinstance(one, Attribute):
        raise _misused(f"{operator} operator must have the key attribute as its first operand")
    return operator, one, operands


def _misused(why: str) -> Exception:
    return invalid(f"Invalid condition in {KIND}: {why}")


def _name_of(condition: Condition) -> str:
    match condition:
        case Compared(operator):
            return operator
        case Function(name):
            return name
    return {"Not": "NOT", "AnyOf": "OR", "In": "IN"}[type(condition).__name__]


def partition(found: Mapping[str, KeyCondition], keys: Keys, types: Mapping[str, str]) -> Scalar:
    """The partition's key. Raises Refused if the conditions aren't those of this key."""
    if keys.hash not in found:
        raise invalid(f"Query condition missed key schema element: {keys.hash}")
    if len(found) > 1 and keys.range not in found:
        if keys.range is None:
            raise invalid("Query key condition not supported")
        raise invalid(f"Query condition missed key schema element: {keys.range}")
    for name, condition in found.items():
        if any(kind_of(value) != types[name] for value in condition.values):
            raise invalid_parameter("Condition parameter type does not match schema type")
        if any(types[name] != "N" and not value[types[name]] for value in condition.values):
            raise invalid(
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an"
                f" empty {'string' if types[name] == 'S' else 'binary'} value. Key: {name}"
            )
        if name == keys.range:
            for value in condition.values:
                check_size(value, is_hash=False)
    if found[keys.hash].operator != "=":
        raise invalid("Query key condition not supported")
    return scalar(found[keys.hash].values[0])


def bounds(found: Mapping[str, KeyCondition], keys: Keys) -> tuple[Scalar | None, Scalar | None]:
    """Between which sort keys a query's items are, None for no bound."""
    if keys.range is None or keys.range not in found:
        return None, None
    operator, values = found[keys.range]
    first = scalar(values[0])
    match operator:
        case "=":
            return first, first
        case "<" | "<=":
            return None, first
        case "BETWEEN":
            return first, scalar(values[1])
    return first, None
