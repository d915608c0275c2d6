"""The difference between two states of a versioned item, and the write that turns one into the other."""

from collections.abc import Collection
from decimal import Decimal
from typing import NamedTuple

from conditional_writes.conditions import Condition, absent, equals, exists, version_is
from conditional_writes.items import Item, Key, same
from conditional_writes.own_attributes import VERSION_ID, is_own
from conditional_writes.requests import Check, Expected, Put, Update


class ItemDiff(NamedTuple):
    """Attributes to set, and names of those to remove."""

    values: Item
    removed: list[str]


def diff(before: Item, after: Item, ignored: Collection[str]) -> ItemDiff:
    """The changes from `before` to `after`, without those of `ignored` names and of the library's own attributes."""
    values = {
        name: value
        for name, value in after.items()
        if name not in before or not (before[name] is value or same(before[name], value))
    }
    return ItemDiff(
        {name: value for name, value in values.items() if name not in ignored and not is_own(name)},
        [name for name in before if name not in after and name not in ignored and not is_own(name)],
    )


def replacing(key: Key, before: Item | None, after: Item, version_attribute: str = "version") -> Put | Update:
    """The write that turns `before` into `after`, which has a later version; `before` is None for a new item.

    Its condition: the item still has the version of `before`; a new item doesn't exist; an item without a version still
    has none. A deleted item fails the condition, so the write doesn't bring it back.

    Raises ValueError if the version of `after` isn't later than that of `before`, or if `before` has a `cw:version_id`
    and no version; TypeError if a version isn't a whole number.
    """
    if before is None:
        return Put(key, after, absent(key.attributes[0][0]), Expected(None, version_attribute))
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
        return Check(key, absent(key.attributes[0][0]), Expected(None, version_attribute))
    expected, condition = version_condition(key, before, version_attribute)
    return Check(key, condition, expected)


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
        return Expected(0, version_attribute), exists(key.attributes[0][0]) & absent(version_attribute)
    version, version_id = version_of(key, before, version_attribute), before.get(VERSION_ID)
    expected = Expected(version, version_attribute, version_id)
    condition = version_is(version, version_attribute)
    if version_id is not None:
        condition &= equals(VERSION_ID, version_id)
    return expected, condition


def version_of(key: Key, item: Item, version_attribute: str) -> int:
    """The item's version, 0 if it has none. Raises TypeError if the attribute isn't a whole number."""
    version = item.get(version_attribute, 0)
    if isinstance(version, bool) or not isinstance(version, int | Decimal) or version != int(version):
        raise TypeError(f"{key}: {version_attribute} is {version!r}, expected a whole number, to count versions with")
    return int(version)
