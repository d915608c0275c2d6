"""Conditions named for what they mean."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

type AttributePath = str | tuple[str, ...]
"""An attribute's name; or the names from it down to an element of a map in it. Dots in a name are part of it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a write assumes of the item. In `template` each `{}` stands for an attribute or path, each `[]` for a value.

    Conditions combine with `&`, `|` and `~`. The truth value of one raises TypeError: `a and b` would
    silently be `b`. What has no name below is spelled out:
    `Condition("size({}) < []", ("lines",), (100,))`.
    """

    template: str
    names: tuple[AttributePath, ...] = ()
    values: tuple[Any, ...] = field(default=())

    def __and__(self, other: "Condition") -> "Condition":
        return self._joined("AND", other)

    def __or__(self, other: "Condition") -> "Condition":
        return self._joined("OR", other)

    def __invert__(self) -> "Condition":
        return Condition(f"NOT ({self.template})", self.names, self.values)

    def __bool__(self) -> NoReturn:
        raise TypeError("a condition is checked by DynamoDB, not by Python: combine conditions with &, | and ~")

    def _joined(self, operator: str, other: "Condition") -> "Condition":
        return Condition(
            f"({self.template}) {operator} ({other.template})",
            self.names + other.names,
            self.values + other.values,
        )


def absent(attribute: AttributePath) -> Condition:
    """The attribute isn't there; for an attribute of the primary key: the item isn't."""
    return Condition("attribute_not_exists({})", (attribute,))


def exists(attribute: AttributePath) -> Condition:
    """The attribute is there; for an attribute of the primary key: the item is."""
    return Condition("attribute_exists({})", (attribute,))


def version_is(version: int, attribute: AttributePath = "version") -> Condition:
    """The item still has this version. False for an item that was deleted: a write won't bring it back."""
    return equals(attribute, version)


def equals(attribute: AttributePath, value: Any) -> Condition:
    """False where the attribute isn't there, as all comparisons are."""
    return Condition("{} = []", (attribute,), (value,))


def less_than(attribute: AttributePath, value: Any) -> Condition:
    return Condition("{} < []", (attribute,), (value,))


def at_most(attribute: AttributePath, value: Any) -> Condition:
    return Condition("{} <= []", (attribute,), (value,))


def more_than(attribute: AttributePath, value: Any) -> Condition:
    return Condition("{} > []", (attribute,), (value,))


def at_least(attribute: AttributePath, value: Any) -> Condition:
    return Condition("{} >= []", (attribute,), (value,))


def contains(attribute: AttributePath, value: Any) -> Condition:
    """A set or list has this element, a string this substring."""
    return Condition("contains({}, [])", (attribute,), (value,))


def is_map(attribute: AttributePath) -> Condition:
    return Condition("attribute_type({}, [])", (attribute,), ("M",))


def all_of(conditions: Iterable[Condition]) -> Condition:
    """For many: `&` nests, and an expression has room for 4 kB and 300 operators."""
    return _flat(" AND ", conditions)


def any_of(conditions: Iterable[Condition]) -> Condition:
    return _flat(" OR ", conditions)


def _flat(operator: str, conditions: Iterable[Condition]) -> Condition:
    parts = list(conditions)
    return Condition(
        operator.join(part.template if len(parts) == 1 else f"({part.template})" for part in parts),
        tuple(name for part in parts for name in part.names),
        tuple(value for part in parts for value in part.values),
    )
