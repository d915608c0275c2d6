"""The four kinds of writes, their conditions, those that make one version of an item of another, and their requests."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

from conditional_writes.core.items import Item, Key, diff, serialized, to_dynamodb
from conditional_writes.core.own_attributes import VERSION_ID, WRITE_ID

MAXIMUM_WRITES = 100
"""DynamoDB's limit for the items of one TransactWriteItems."""
MAXIMUM_CHARACTERS = 4_096
"""DynamoDB's limit for the length of an expression."""

type AttributePath = str | tuple[str, ...]
"""An attribute's name, or the names from an attribute down to an element of a map in it. A dot is part of its name."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A write's assumption about its item, or a query's choice of items.

    In `template` each `{}` stands for an attribute or path, and each `[]` for a value.

    Conditions combine with `&`, `|` and `~`. The truth value of a condition raises TypeError, because `a and b` would
    silently be `b`. A condition that has no function below is written out: `Condition("size({}) < []", ("lines",),
    (100,))`.
    """

    template: str
    names: tuple[AttributePath, ...] = ()
    values: tuple[Any, ...] = ()

    def __and__(self, other: "Condition") -> "Condition":
        return self._joined("AND", other)

    def __or__(self, other: "Condition") -> "Condition":
        return self._joined("OR", other)

    def __invert__(self) -> "Condition":
        return Condition(f"NOT ({self.template})", self.names, self.values)

    def __bool__(self) -> NoReturn:
        raise TypeError("a condition is checked by DynamoDB, not by Python: combine conditions with &, | and ~")

    def _joined(self, operator: str, other: "Condition") -> "Condition":
        if not isinstance(other, Condition):
            raise _no_condition(other)
        return Condition(
            f"({self.template}) {operator} ({other.template})",
            self.names + other.names,
            self.values + other.values,
        )


def _no_condition(value: object) -> TypeError:
    """The error for what was given as a condition, and is none, such as a text, or one of boto3's."""
    return TypeError(f"{value!r} is no condition: make one with `equals`, `exists` and the like")


def both(condition: Condition | None, other: Condition | None) -> Condition | None:
    """The two joined by AND, of which either may be missing."""
    if condition is None:
        return other
    return condition if other is None else condition & other


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


class Expected(NamedTuple):
    """The version that a write assumes, and the attribute that has it.

    `version` is None if the item must not exist, 0 if it must exist without a version. `version_id` is the write that
    made the version, None if that isn't known: an item that was deleted and created anew may reach the same version.
    """

    version: int | None
    attribute: str
    version_id: str | None = None


class Put(NamedTuple):
    """Puts the whole item if the condition holds. `expected` is given if the item is to have versions."""

    key: Key
    item: Item
    condition: Condition | None = None
    expected: Expected | None = None


class Update(NamedTuple):
    """Sets, removes and adds to attributes, or elements of their maps, if the condition holds. Others stay as they are.

    `added` has numbers by attribute, `appended` elements of lists, and `defaults` values of attributes that may be
    missing. Alone, an update that adds or appends is sent as a transaction, which has one effect, however often the SDK
    sends it, unless it `may_repeat`: then it costs half as much, and may add twice, if its answer is lost and another
    write comes before the SDK's second try. With `return_new` the answer has the item as it is afterwards, so the
    update is no transaction and may repeat. `expected` is given if `values` has the item's next version;
    `makes_version` if `added` counts it, whatever it was.

    An update of an item that others save must count its version, as `VersionedTable.adding` does. Otherwise a save that
    was planned before it overwrites the attributes that both change.
    """

    key: Key
    values: Mapping[Any, Any]
    condition: Condition | None = None
    removed: Collection[AttributePath] = ()
    added: Mapping[str, int | Decimal] = {}
    expected: Expected | None = None
    return_new: bool = False
    makes_version: bool = False
    appended: Mapping[str, list[Any]] = {}
    defaults: Mapping[str, Any] = {}
    may_repeat: bool = False

    @property
    def accumulates(self) -> bool:
        """Whether a second one does more than the first."""
        return bool(self.added or self.appended)

    @property
    def counts_once(self) -> bool:
        return self.accumulates and not (self.return_new or self.may_repeat)


class Delete(NamedTuple):
    """Deletes the item if the condition holds."""

    key: Key
    condition: Condition | None = None
    expected: Expected | None = None


class Check(NamedTuple):
    """Changes nothing. The other writes of its transaction take effect only if the condition holds."""

    key: Key
    condition: Condition
    expected: Expected | None = None


type Write = Put | Update | Delete | Check


def replacing(key: Key, before: Item | None, after: Item, version_attribute: str = "version") -> Put | Update:
    """The write that turns `before` into `after`, which has a later version; `before` is None for a new item.

    Its condition: the item still has the version of `before`; a new item doesn't exist; an item without a version still
    has none. A deleted item fails the condition, so the write doesn't bring it back.

    Raises ValueError if the version of `after` isn't later than that of `before`, or if `before` has a `cw:version_id`
    and no version; TypeError if a version isn't a whole number.
    """
    if before is None:
        return Put(key, after, _no_item(key), Expected(None, version_attribute))
    expected, condition = version_condition(key, before, version_attribute)
    was, is_now = expected.version or 0, version_of(key, after, version_attribute)
    if is_now <= was:
        raise ValueError(
            f"{key}: {version_attribute} is {is_now} after {was}, expected a later one (was `before` changed in place?)"
        )
    values, removed = diff(before, after, ignored=dict(key.attributes))
    return Update(key, values, condition, removed, expected=expected)


def unchanged(key: Key, before: Item | None, version_attribute: str = "version") -> Check:
    """The check that the item still has the version of `before`; None: that it still doesn't exist.

    Raises ValueError and TypeError as `replacing`.
    """
    if before is None:
        return Check(key, _no_item(key), Expected(None, version_attribute))
    expected, condition = version_condition(key, before, version_attribute)
    return Check(key, condition, expected)


def _no_item(key: Key) -> Condition:
    return Condition("attribute_not_exists({})", (key.attributes[0][0],))


def version_condition(key: Key, before: Item, version_attribute: str) -> tuple[Expected, Condition]:
    """The condition that the item still has the version that was read, or still has none if it had none.

    Raises ValueError if the item has a `cw:version_id` and no version, TypeError if the version isn't a whole number.
    """
    if version_attribute not in before:
        if VERSION_ID in before:
            raise ValueError(
                f"{key}: has a {VERSION_ID} and no {version_attribute}, so it is another's, and would be overwritten:"
                " the library has an attribute of this name. Choose another name for yours"
            )
        names = (key.attributes[0][0], version_attribute)
        return Expected(0, version_attribute), Condition("(attribute_exists({})) AND (attribute_not_exists({}))", names)
    version, version_id = version_of(key, before, version_attribute), before.get(VERSION_ID)
    expected = Expected(version, version_attribute, version_id)
    if version_id is None:
        return expected, Condition("{} = []", (version_attribute,), (version,))
    names = (version_attribute, VERSION_ID)
    return expected, Condition("({} = []) AND ({} = [])", names, (version, version_id))


def version_of(key: Key, item: Item, version_attribute: str) -> int:
    """The item's version, 0 if it has none. Raises TypeError if the attribute isn't a whole number."""
    version = item.get(version_attribute, 0)
    if isinstance(version, bool) or not isinstance(version, int | Decimal) or version != int(version):
        raise TypeError(f"{key}: {version_attribute} is {version!r}, expected a whole number, to count versions with")
    return int(version)


def as_request(write: Write, write_id: str) -> dict[str, Any]:
    """The write as parameters of its operation, alone or in a TransactWriteItems.

    Every item that is written has `write_id` as its mark: in `cw:version_id` if the write makes a version, else in
    `cw:write_id`. A write recognises its own effect by it.
    """
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    request: dict[str, Any] = {"TableName": write.key.table}
    condition = _condition(write, write_id)
    if condition is not None:
        request["ConditionExpression"] = expression(condition, names, values)
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    match write:
        case Put(item=item):
            request["Item"] = to_dynamodb(item | dict(write.key.attributes) | {_mark(write): write_id})
        case Update():
            request["Key"] = to_dynamodb(dict(write.key.attributes))
            request["UpdateExpression"] = _update(write, write_id, names, values)
        case Delete() | Check():
            request["Key"] = to_dynamodb(dict(write.key.attributes))
    return request | placeholders(names, values)


def _condition(write: Write, write_id: str) -> Condition | None:
    """The write's condition. An addition also asserts that it wasn't made yet: a second try would count twice."""
    if not isinstance(write, Update) or not write.accumulates:
        return write.condition
    not_yet = Condition("attribute_not_exists({}) OR {} <> []", (_mark(write), _mark(write)), (write_id,))
    return both(write.condition, not_yet)


def _update(update: Update, write_id: str, names: dict[str, str], values: dict[str, Any]) -> str:
    assigned = [
        f"{_name(path, names)}={_value(path, value, values)}"
        for path, value in {**update.values, _mark(update): write_id}.items()
    ]
    for path, elements in update.appended.items():
        name, none = _name(path, names), _value(path, [], values)
        assigned.append(f"{name}=list_append(if_not_exists({name},{none}),{_value(path, elements, values)})")
    for path, value in update.defaults.items():
        name = _name(path, names)
        assigned.append(f"{name}=if_not_exists({name},{_value(path, value, values)})")
    clauses = ["SET " + ",".join(assigned)]
    if isinstance(update.removed, str):
        raise TypeError(f"{update.key}: removed: expected names, got one text, {update.removed!r}: put it in a list")
    if update.removed:
        clauses.append("REMOVE " + ",".join(_name(path, names) for path in update.removed))
    if update.added:
        added = [f"{_name(name, names)} {_value(name, number, values)}" for name, number in update.added.items()]
        clauses.append("ADD " + ",".join(added))
    expression = " ".join(clauses)
    if len(expression) > MAXIMUM_CHARACTERS:
        raise ValueError(
            f"{update.key}: {len(assigned) + len(update.removed)} changes at once: DynamoDB's expressions have room for"
            " some 400. Put the item whole, or change it in steps"
        )
    return expression


def _mark(write: Put | Update) -> str:
    makes_version = write.expected is not None or (isinstance(write, Update) and write.makes_version)
    return VERSION_ID if makes_version else WRITE_ID


def expression(condition: Condition, names: dict[str, str], values: dict[str, Any]) -> str:
    """The condition's expression. Adds its names to `{name: placeholder}`, its values to `{placeholder: value}`."""
    if not isinstance(condition, Condition):
        raise _no_condition(condition)
    # Placeholders are filled from left to right.
    paths = iter([_name(path, names) for path in condition.names])
    found = iter([_value("a condition's value", value, values) for value in condition.values])
    try:
        text = _PLACEHOLDER.sub(lambda hole: next(paths if hole[0] == "{}" else found), condition.template)
    except StopIteration:
        text = None
    if text is None or next(paths, None) or next(found, None):
        raise ValueError(
            f"a condition with other numbers of {{}} and [] than of names and values: {condition.template!r},"
            f" {condition.names}, {len(condition.values)} values"
        )
    return text


def placeholders(names: dict[str, str], values: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the names and values of a request's expressions. DynamoDB takes no empty ones."""
    request: dict[str, Any] = {}
    if names:
        request["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in names.items()}
    if values:
        request["ExpressionAttributeValues"] = values
    return request


_PLACEHOLDER = re.compile(r"\{\}|\[\]")


def _name(path: AttributePath, names: dict[str, str]) -> str:
    """The placeholder `#0`, or `#0.#1` for a path. A name that is used twice has one placeholder."""
    parts = (path,) if isinstance(path, str) else path
    return ".".join(names.setdefault(part, f"#{len(names)}") for part in parts)


def _value(path: AttributePath, value: Any, values: dict[str, Any]) -> str:
    placeholder = f":{len(values)}"
    values[placeholder] = serialized(path if isinstance(path, str) else ".".join(path), value)
    return placeholder
