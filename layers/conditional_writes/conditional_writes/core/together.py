"""Writes that are made once, all of them or none, or raise Conflict: nothing is planned again."""

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from conditional_writes.core.items import Item, copied
from conditional_writes.core.loop import Observed, Plan, Written, write
from conditional_writes.core.own_attributes import VERSION_ID, is_own
from conditional_writes.core.requests import Expected, Write
from conditional_writes.core.steps import Deadline, Steps, blocking, steps

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class VersionedItem(dict[str, Any]):
    """An item as it was loaded, or as a query or a plan's `observed` has it.

    Change the item in place, or make a changed copy with `|`, and save that. `loaded` is the item before any change, so
    a save writes the difference. The library's own attributes are in `loaded` alone.

    `index` names the index that the item was found in, which may lack attributes of it, even the version. An item that
    was saved has it still, unless the save was unchecked: that one returns the whole item.
    """

    def __init__(self, loaded: Item, index: str | None = None) -> None:
        super().__init__(copied(loaded))
        for name in filter(is_own, loaded):
            del self[name]
        self.loaded, self.index = loaded, index

    def __or__(self, changes: Mapping[str, Any]) -> Self:  # type: ignore[override]
        changed = copy.copy(self)
        changed.update(changes)
        return changed

    copy = copy.copy


class Conflict(Exception):
    """The item isn't what the write assumed. Nothing was written, and nothing of its transaction either.

    `key` is the item's. `expected_version` is None if no item was expected, 0 if one without a version. `found` is the
    item as it is, None if it doesn't exist: it can be changed and saved instead.
    """

    def __init__(self, refused: Write, found: Item | None) -> None:
        super().__init__(refused, found)
        self.key = refused.key
        self.expected_version = refused.expected.version if refused.expected else None
        self.found = None if found is None else VersionedItem(found)

    def __str__(self) -> str:
        refused, found = self.args
        return f"{refused.key}: {_difference(refused.expected, found)}"


def _difference(expected: Expected | None, found: Item | None) -> str:
    if found is None:
        is_adopting = expected is not None and expected.version == 0
        return f"there is no such item, or no longer{': to create one, save a plain dict' if is_adopting else ''}"
    if expected is None:
        return "the condition doesn't hold"
    if expected.version is None:
        return f"expected no item, found one with {_named(found.get(expected.attribute))}"
    if expected.version == found.get(expected.attribute, 0):
        if expected.version_id is not None and expected.version_id != found.get(VERSION_ID):
            return f"{_named(expected.version)}, as expected, but of another item: it was deleted and made anew"
        return f"{_named(expected.version)}, as expected, but the condition doesn't hold"
    return f"expected {_named(expected.version)}, found {_named(found.get(expected.attribute))}"


def _named(version: object) -> str:
    return f"version {version}" if version else "no version"


@blocking
def write_together(
    client: "DynamoDBClient", writes: Sequence[Write], *, deadline: Deadline | None = None
) -> Steps[None]:
    """Makes all these writes, or none: at most 100, each to another item. A single write goes without a transaction.

    `VersionedTable`'s `saving`, `deleting` and `checking` make the writes of versioned items. An item that was saved
    must be loaded again before it is changed further. To decide again after a conflict, give `write` a plan instead.

    Raises Conflict for the first item that isn't what its write assumed, and ValueError, before anything is sent, for
    writes that no transaction takes.
    """
    yield from steps(write_once)(client, writes, deadline)


@blocking
def write_once(client: "DynamoDBClient", writes: Sequence[Write], deadline: Deadline | None) -> Steps[Written[None]]:
    """As `write`, but raises Conflict instead of planning again."""

    def plan(observed: Observed) -> Plan[None]:
        for refused in writes if observed else ():  # the loop has checked them by then
            if refused.key in observed:
                raise Conflict(refused, observed[refused.key])
        return Plan(None, writes, once=True)

    return steps(write)(client, plan, {}, deadline)
