"""Conditions named for what they mean."""

from dataclasses import dataclass, field
from typing import Any, NoReturn


@dataclass(frozen=True, slots=True)
class Condition:
    """What a write assumes of the item. Each `{}` in `template` stands for an attribute name, each `[]` for a value.

    Conditions combine with `&`, `|` and `~`. The truth value of one raises TypeError: `a and b` would
    silently be `b`. What has no name below is spelled out:
    `Condition("size({}) < []", ("lines",), (100,))`.
    """

    template: str
    names: tuple[str, ...] = ()
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


def absent(attribute: str) -> Condition:
    """The attribute isn't there; for an attribute of the primary key: the item isn't."""
    return Condition("attribute_not_exists({})", (attribute,))


def exists(attribute: str) -> Condition:
    """The attribute is there; for an attribute of the primary key: the item is."""
    return Condition("attribute_exists({})", (attribute,))


def unchanged(version: int, attribute: str = "version") -> Condition:
    """The item still has this version. False for an item that was deleted: a write won't bring it back."""
    return equals(attribute, version)


def equals(attribute: str, value: Any) -> Condition:
    """False where the attribute isn't there, as all comparisons are."""
    return Condition("{} = []", (attribute,), (value,))


def less_than(attribute: str, value: Any) -> Condition:
    return Condition("{} < []", (attribute,), (value,))


def at_most(attribute: str, value: Any) -> Condition:
    return Condition("{} <= []", (attribute,), (value,))


def more_than(attribute: str, value: Any) -> Condition:
    return Condition("{} > []", (attribute,), (value,))


def at_least(attribute: str, value: Any) -> Condition:
    return Condition("{} >= []", (attribute,), (value,))


def contains(attribute: str, value: Any) -> Condition:
    """A set or list has this element, a string this substring."""
    return Condition("contains({}, [])", (attribute,), (value,))
