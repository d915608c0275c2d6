"""Conditions named for what they mean."""

from collections.abc import Iterable
from typing import Any

from conditional_writes.core.requests import AttributePath, Condition


def absent(attribute: AttributePath) -> Condition:
    """The item doesn't have the attribute. If it is part of the primary key: the item doesn't exist."""
    return Condition("attribute_not_exists({})", (attribute,))


def exists(attribute: AttributePath) -> Condition:
    """The item has the attribute. If it is part of the primary key: the item exists."""
    return Condition("attribute_exists({})", (attribute,))


def version_is(version: int, attribute: AttributePath = "version") -> Condition:
    """The item has this version. False for a deleted item, so that a write doesn't bring it back."""
    return equals(attribute, version)


def equals(attribute: AttributePath, value: Any) -> Condition:
    """The attribute has this value. Like every comparison, false if the item doesn't have the attribute."""
    return Condition("{} = []", (attribute,), (value,))


def less_than(attribute: AttributePath, value: Any) -> Condition:
    return Condition("{} < []", (attribute,), (value,))


def at_most(attribute: AttributePath, value: Any) -> Condition:
    return Condition("{} <= []", (attribute,), (value,))


def more_than(attribute: AttributePath, value: Any) -> Condition:
    return Condition("{} > []", (attribute,), (value,))


def at_least(attribute: AttributePath, value: Any) -> Condition:
    return Condition("{} >= []", (attribute,), (value,))


def between(attribute: AttributePath, least: Any, most: Any) -> Condition:
    """The attribute is at least `least`, and at most `most`."""
    return Condition("{} BETWEEN [] AND []", (attribute,), (least, most))


def begins_with(attribute: AttributePath, prefix: str | bytes) -> Condition:
    """The text, or the binary, begins with this prefix."""
    return Condition("begins_with({}, [])", (attribute,), (prefix,))


def contains(attribute: AttributePath, value: Any) -> Condition:
    """The set or list has this element, or the string this substring."""
    return Condition("contains({}, [])", (attribute,), (value,))


def is_map(attribute: AttributePath) -> Condition:
    return Condition("attribute_type({}, [])", (attribute,), ("M",))


def all_of(conditions: Iterable[Condition]) -> Condition:
    """All the conditions hold. For many of them: `&` nests, and an expression holds only 300 operators and 4 kB."""
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
