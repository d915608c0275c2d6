"""Versioned items of any table: each write asserts the version that it was made from, and makes the next version.

There is no batch write: DynamoDB's BatchWriteItem takes no conditions, so a batch would silently overwrite the changes
of other writers. Writes that belong together go into one transaction: `write_together`.
"""

import copy
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from conditional_writes.conditions import Condition, exists
from conditional_writes.deadline import Deadline, deadline_or_default
from conditional_writes.item_diff import diff, replacing, unchanged, version_condition, version_of
from conditional_writes.items import Item, Key, check_names, copied, same
from conditional_writes.loop import Observed, Plan, Written, write, write_paced
from conditional_writes.own_attributes import MARKS, VERSION_ID, is_own
from conditional_writes.pacing import Pace
from conditional_writes.reading import read_one
from conditional_writes.requests import Check, Delete, Expected, Put, Update, Write

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class VersionedItem(dict[str, Any]):
    """An item as it was loaded, or as a query or a plan's `observed` has it.

    Change the item in place, or make a changed copy with `|`, and save that. `loaded` is the item before any change, so
    a save writes the difference.
    """

    def __init__(self, loaded: Item) -> None:
        super().__init__(copied(loaded))
        for mark in MARKS:
            self.pop(mark, None)
        self.loaded = loaded

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
        return "there is no such item, or no longer"
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


class VersionedTable:
    """A table of versioned items: `VersionedTable(client, "Orders", "order_id")`, with the names of its key.

    `version` names the attribute with an item's version. The first save of a new item makes version 1. An item that has
    no version yet gets version 1 with its next save. Beside the version, `cw:version_id` names the write that made it:
    a write recognises its own effect by it, and tells a recreated item from the deleted one. `load` leaves it out.

    With `checked=False` saves and deletes assert no version, unless a call says otherwise: the last writer wins, for
    the attributes that it changed. The version still grows, so that other writers notice.

    Each call takes a deadline, by default ten seconds from now. Each may raise DeadlinePassed, OutcomeUnknown and
    botocore's own errors, as `write` does. After DeadlinePassed nothing was written. After the others the write may
    have taken effect.
    """

    def __init__(
        self, client: "DynamoDBClient", name: str, *key_names: str, version: str = "version", checked: bool = True
    ) -> None:
        if not key_names:
            raise ValueError(f"{name}: expected the names of its key, got none")
        self._client, self._name, self._key_names = client, name, key_names
        self._version, self._checked = version, checked
        self._pace = Pace()

    def key(self, *values: str | int | Decimal | bytes) -> Key:
        """The item's primary key from its values, in the order of the table's key names."""
        if len(values) != len(self._key_names):
            raise TypeError(f"{self._name}: expected {', '.join(self._key_names)}; got {len(values)} values")
        return Key(self._name, tuple(sorted(zip(self._key_names, values, strict=True))))

    def load(self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None) -> VersionedItem | None:
        """The item as it is now (a consistent read), None if it doesn't exist."""
        key = self.key(*key_values)
        found = read_one(self._client, key, deadline_or_default(deadline))
        return None if found is None else VersionedItem(found)

    def save(
        self,
        item: Item,
        *,
        when: Condition | None = None,
        checked: bool | None = None,
        deadline: Deadline | None = None,
    ) -> VersionedItem:
        """Saves an item that was loaded, or creates one that wasn't. Returns it with its new version.

        Only the attributes that changed are written, each as a whole. Other attributes stay as they are, so writers
        that don't count versions lose nothing. Neither a checked nor an unchecked save brings a deleted item back.
        `when` is a further condition.

        Raises Conflict, and ValueError for an item that can't be saved.
        """
        saving = self.saving(item, when=when, checked=checked)
        written = _write_once(self._client, [saving], deadline_or_default(deadline))
        returned = written.found.get(saving.key)
        return VersionedItem(returned) if returned else self._as_saved(item, saving, written.write_id)

    def update(
        self,
        *key_values: str | int | Decimal | bytes,
        version: int,
        values: Item,
        removed: Collection[str] = (),
        when: Condition | None = None,
        deadline: Deadline | None = None,
    ) -> int:
        """Sets and removes attributes of an item of which only the version is known. Returns its new version.

        For a version that a client sends back, as in HTTP's If-Match. `version` is 0 for an item that has none yet.
        Raises Conflict.
        """
        key, version = self.key(*key_values), int(version)
        before = {self._version: version} if version else {}
        self._check_change(key, before, values)
        expected, still_same = version_condition(key, before, self._version)
        values = {name: value for name, value in values.items() if name not in dict(key.attributes)}
        update = Update(key, values | {self._version: version + 1}, _both(still_same, when), removed, expected=expected)
        _write_once(self._client, [update], deadline_or_default(deadline))
        return version + 1

    def delete(
        self,
        item: Item,
        *,
        when: Condition | None = None,
        checked: bool | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Deletes an item that was loaded. If the delete is unchecked, an item that is gone already is no error.

        Raises Conflict. A deleted item can't carry the mark of its write: if the response is lost, and the item is gone
        at the second try, this delete or another may have done it, and OutcomeUnknown is raised.
        """
        _write_once(self._client, [self.deleting(item, when=when, checked=checked)], deadline_or_default(deadline))

    def modify(
        self,
        *key_values: str | int | Decimal | bytes,
        change: Callable[[VersionedItem | None], Item],
        deadline: Deadline | None = None,
    ) -> VersionedItem:
        """Reads the item, changes it and saves it; after each conflict it changes and saves the newer item.

        `change` gets the item, None if it doesn't exist, and returns the item as it should be. It must be a pure
        function of what it gets, because it is called again after each conflict. If it raises an error, nothing is
        written and the error passes through. If it changes nothing, nothing is written either. Costs one read and one
        write, and one write more for each conflict. A thread that changes an item at which it met conflicts leaves the
        others some round trips before it reads the item again.
        """
        deadline = deadline_or_default(deadline)
        key = self.key(*key_values)

        def plan(observed: Observed) -> Plan[tuple[Item, Put | Update | None]]:
            found = observed[key]
            before = None if found is None else VersionedItem(found)
            after = change(before)
            if not isinstance(after, dict):
                raise TypeError(f"{key}: `change` returned {after!r}, expected the item as it should be")
            self._check_change(key, found, after)
            saving = self._replacing(key, found, after)
            if found is not None and self._changes_nothing(saving):
                return Plan((found, None))
            return Plan((after, saving), [saving])

        is_paced = self._pace.wait(key, deadline)
        asked_at = time.monotonic()
        observed = {key: read_one(self._client, key, deadline)}
        request_seconds = time.monotonic() - asked_at
        written = (write_paced if is_paced else write)(self._client, plan, observed, deadline)
        item, saving = written.result
        if not saving:
            return VersionedItem(item)
        saved = self._as_saved(item, saving, written.write_id)
        if is_paced or written.conflicts:
            self._pace.note(key, saved[self._version], written.conflicts, request_seconds)
        return saved

    def saving(self, item: Item, *, when: Condition | None = None, checked: bool | None = None) -> Put | Update:
        """The write of a `save`, for `write_together` or a plan of your own."""
        before = _loaded(item)
        key = self._key_of(item)
        self._check_change(key, before, item)
        if self._is_checked(checked=checked):
            saving = self._replacing(key, before, item)
        else:
            values, removed = diff(before or {}, item, ignored=[*dict(key.attributes), self._version])
            condition = None if before is None else exists(self._key_names[0])
            saving = Update(key, values, condition, removed, {self._version: 1}, return_new=True)
        if when is None:
            return saving
        return saving._replace(condition=when if saving.condition is None else saving.condition & when)

    def deleting(self, item: Item, *, when: Condition | None = None, checked: bool | None = None) -> Delete:
        """The write of a `delete`, for the same. Raises ValueError if a checked item wasn't loaded."""
        key = self._key_of(item)
        if not self._is_checked(checked=checked):
            return Delete(key, when)
        before = _loaded(item)
        if before is None:
            raise ValueError(
                f"{key}: wasn't loaded, so there is no version to assert: load it, or delete it with checked=False"
            )
        expected, still_same = version_condition(key, before, self._version)
        return Delete(key, _both(still_same, when), expected)

    def checking(self, item: VersionedItem, *, when: Condition | None = None) -> Check:
        """A check for a transaction that only read the item: the item still has the version that was loaded."""
        check = unchanged(self._key_of(item), item.loaded, self._version)
        return check._replace(condition=_both(check.condition, when))

    def _is_checked(self, *, checked: bool | None) -> bool:
        """The argument of the call; None: the setting of the table."""
        return self._checked if checked is None else checked

    def _replacing(self, key: Key, before: Item | None, after: Item) -> Put | Update:
        version = version_of(key, before or {}, self._version) + 1
        return replacing(key, before, {**after, self._version: version}, self._version)

    def _changes_nothing(self, saving: Put | Update) -> bool:
        return isinstance(saving, Update) and saving.values.keys() == {self._version} and not saving.removed

    def _as_saved(self, item: Item, saving: Put | Update, version_id: str) -> VersionedItem:
        values = saving.item if isinstance(saving, Put) else saving.values
        made = {self._version: values[self._version], VERSION_ID: version_id}
        return VersionedItem(copied({**item, **dict(saving.key.attributes), **made}))

    def _key_of(self, item: Item) -> Key:
        if not isinstance(item, dict):
            raise TypeError(f"{self._name}: expected an item, got {item!r}")
        source = _loaded(item) or item
        for name in self._key_names:
            if name not in source:
                raise ValueError(f"{self._name}: an item without {name}, which is part of its key")
        return self.key(*(source[name] for name in self._key_names))

    def _check_change(self, key: Key, before: Item | None, after: Item) -> None:
        """Raises ValueError if the key, the version or an attribute of the library was changed.

        Raises TypeError for a name that is no text.
        """
        for name, value in key.attributes:
            if after.get(name, value) != value:
                raise ValueError(f"{key}: {name} is part of the key: to change it, save a new item and delete this one")
        check_names(after)
        for name in filter(is_own, after):
            if name in MARKS or not same((before or {}).get(name), after[name]):
                raise ValueError(
                    f"{key}: {name} is the library's own attribute: choose another name for yours; if this is an item"
                    " as it was read, save `VersionedItem(item)`"
                )
        if self._version not in after:
            return
        if before is None:
            raise ValueError(
                f"{key}: has {self._version} {after[self._version]} and wasn't loaded. A new item has none yet;"
                " to change one, load it, or say with `update` which version it must have"
            )
        if after[self._version] != before.get(self._version):
            raise ValueError(
                f"{key}: {self._version} was changed from {before.get(self._version)} to {after[self._version]}:"
                " a save counts it itself"
            )


def write_together(client: "DynamoDBClient", writes: Sequence[Write], *, deadline: Deadline | None = None) -> None:
    """Makes all these writes, or none: at most 100, each to another item. A single write goes without a transaction.

    `VersionedTable`'s `saving`, `deleting` and `checking` make the writes of versioned items. An item that was saved
    must be loaded again before it is changed further. To decide again after a conflict, give `write` a plan instead.

    Raises Conflict for the first item that isn't what its write assumed, and ValueError, before anything is sent, for
    writes that no transaction takes.
    """
    _write_once(client, writes, deadline_or_default(deadline))


def _write_once(client: "DynamoDBClient", writes: Sequence[Write], deadline: Deadline) -> Written[None]:
    """As `write`, but raises Conflict instead of planning again."""

    def plan(observed: Observed) -> Plan[None]:
        for refused in writes:
            if refused.key in observed:
                raise Conflict(refused, observed[refused.key])
        return Plan(None, writes, once=True)

    return write(client, plan, {}, deadline)


def _loaded(item: Item) -> Item | None:
    return item.loaded if isinstance(item, VersionedItem) else None


def _both(condition: Condition, when: Condition | None) -> Condition:
    return condition if when is None else condition & when
