"""Conditions named for what they mean."""

from dataclasses import dataclass, field
from typing import Any, NoReturn


@dataclass(frozen=True, slots=True)
class Condition:
    """What a write assumes of the item. Each `{}` in `template` stands for an attribute name, each `[]` for a value.

    Conditions combine with `&`, `|` and `~`. The truth value of one raises TypeError: `a and b` would
    silently be `b`.
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


def unchanged(version: int, attribute: str = "version") -> Condition:
    """The item still has this version. False for an item that was deleted: a write won't bring it back."""
    return Condition("{} = []", (attribute,), (version,))
