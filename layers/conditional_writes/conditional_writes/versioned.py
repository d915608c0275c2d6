"""Items with a version, of any table: each write asserts the version that it was made from, and makes the next.

Nothing here writes in batches: DynamoDB's BatchWriteItem takes no conditions, so a batch would overwrite what another
writer changed, without a word. What must be written together goes into a transaction: `write_together`.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from conditional_writes.conditions import Condition, exists
from conditional_writes.deadline import Deadline, deadline_or_default
from conditional_writes.item_diff import diff, replacing, version_condition, version_of
from conditional_writes.items import Item, Key, check_names, copied, same
from conditional_writes.loop import Observed, Plan, Written, write
from conditional_writes.own_attributes import MARKS, VERSION_ID, is_own
from conditional_writes.reading import read_one
from conditional_writes.requests import Check, Delete, Expected, Put, Update, Write

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class VersionedItem(dict[str, Any]):
    """An item as it was loaded, or as a query or a plan's `observed` has it. Change it in place, or make a changed one
    with `|`, and save that.

    It remembers what was loaded: a save writes the difference.
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
    """The item isn't what the write assumed, so nothing was written: of a transaction, none of its writes.

    `key` is the item's. `expected_version` is None where no item was expected, 0 where one without a version.
    `found` is the item as it is, None where there is none: what can be changed instead, and saved.
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
    """A table whose items have a version, and the names of its key: `VersionedTable(client, "Orders", "order_id")`.

    `version` is the attribute that has it. The first save of an item makes version 1. An item that is older than the
    attribute has none yet: its next save adopts it, as version 1. Beside it is a `version_id`: the write that made it,
    so that a write knows its own work, and an item made anew isn't taken for the one that was deleted. It isn't part of
    what `load` returns.

    With `checked=False` saves and deletes assert no version, unless a call says otherwise: the last writer wins, for
    the attributes that it changed. The version moves on all the same, so that others notice.

    Each call may be given a deadline; without one it has ten seconds. Each may raise DeadlinePassed, OutcomeUnknown and
    botocore's own errors, as `write` does. After DeadlinePassed nothing was written; after one of the others it isn't
    known whether the write took effect.
    """

    def __init__(
        self, client: "DynamoDBClient", name: str, *key_names: str, version: str = "version", checked: bool = True
    ) -> None:
        if not key_names:
            raise ValueError(f"{name}: expected the names of its key, got none")
        self._client, self._name, self._key_names = client, name, key_names
        self._version, self._checked = version, checked

    def key(self, *values: str | int | Decimal | bytes) -> Key:
        """The item's primary key: its values in the order of the names."""
        if len(values) != len(self._key_names):
            raise TypeError(f"{self._name}: expected {', '.join(self._key_names)}; got {len(values)} values")
        return Key(self._name, tuple(sorted(zip(self._key_names, values, strict=True))))

    def load(self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None) -> VersionedItem | None:
        """The item as it is now (a consistent read), None where there is none."""
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
        """Saves what was loaded and changed, or creates what wasn't loaded; returns it with its new version.

        Only the attributes that changed are written, each whole, so those that others write apart from the version stay
        as they are. An item that was deleted meanwhile isn't brought back, checked or not. `when` must hold too.

        Raises Conflict, and ValueError for an item that can't be meant.
        """
        saving = self.saving(item, when=when, checked=checked)
        written = _write_once(self._client, [saving], deadline_or_default(deadline))
        handed_back = written.found.get(saving.key)
        return VersionedItem(handed_back) if handed_back else self._as_saved(item, saving, written.write_id)

    def update(
        self,
        *key_values: str | int | Decimal | bytes,
        version: int,
        values: Item,
        removed: Collection[str] = (),
        when: Condition | None = None,
        deadline: Deadline | None = None,
    ) -> int:
        """Sets and removes attributes of an item of which only the version is known; returns its new version.

        For one whose version a client sends back, as in HTTP's If-Match; 0 for one that has none yet. Raises Conflict.
        """
        key, version = self.key(*key_values), int(version)
        before = {self._version: version} if version else {}
        self._check_kept(key, before, values)
        expected, assumed = version_condition(key, before, self._version)
        values = {name: value for name, value in values.items() if name not in dict(key.attributes)}
        update = Update(key, values | {self._version: version + 1}, _both(assumed, when), removed, expected=expected)
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
        """Deletes the item that was loaded. Unchecked, an item that is gone already is no error.

        A deleted item has no room for a mark: when the response is lost, and the item is gone at the second try,
        OutcomeUnknown says that it may have been this delete or another. Raises Conflict.
        """
        _write_once(self._client, [self.deleting(item, when=when, checked=checked)], deadline_or_default(deadline))

    def modify(
        self,
        *key_values: str | int | Decimal | bytes,
        change: Callable[[VersionedItem | None], Item],
        deadline: Deadline | None = None,
    ) -> VersionedItem:
        """Reads the item, changes it and saves it, again from what is there for as long as others are faster.

        `change` gets the item, None where there is none, and returns it as it should be. It is called again after each
        conflict, so it must be a pure function of what it gets. What it raises passes through, with nothing
        written; where it changes nothing, nothing is written either. One read and one write, and a write for each
        conflict.
        """
        deadline = deadline_or_default(deadline)
        key = self.key(*key_values)

        def plan(observed: Observed) -> Plan[tuple[Item, Put | Update | None]]:
            found = observed[key]
            before = None if found is None else VersionedItem(found)
            after = change(before)
            if not isinstance(after, dict):
                raise TypeError(f"{key}: `change` returned {after!r}, expected the item as it should be")
            self._check_kept(key, found, after)
            saving = self._replacing(key, found, after)
            if found is not None and self._changes_nothing(saving):
                return Plan((found, None))
            return Plan((after, saving), [saving])

        written = write(self._client, plan, {key: read_one(self._client, key, deadline)}, deadline)
        item, saving = written.result
        return self._as_saved(item, saving, written.write_id) if saving else VersionedItem(item)

    def saving(self, item: Item, *, when: Condition | None = None, checked: bool | None = None) -> Put | Update:
        """The write that `save` makes, for `write_together` or a plan of your own."""
        before = _loaded(item)
        key = self._key_of(item)
        self._check_kept(key, before, item)
        if self._checked if checked is None else checked:
            saving = self._replacing(key, before, item)
        else:
            values, removed = diff(before or {}, item, ignored=self._kept(key))
            there = None if before is None else exists(self._key_names[0])
            saving = Update(key, values, there, removed, {self._version: 1}, return_new=True)
        if when is None:
            return saving
        return saving._replace(condition=when if saving.condition is None else saving.condition & when)

    def deleting(self, item: Item, *, when: Condition | None = None, checked: bool | None = None) -> Delete:
        """The write that `delete` makes."""
        key = self._key_of(item)
        if not (self._checked if checked is None else checked):
            return Delete(key, when)
        before = _loaded(item)
        if before is None:
            raise ValueError(
                f"{key}: wasn't loaded, so there is no version to assert: load it, or delete it with checked=False"
            )
        expected, assumed = version_condition(key, before, self._version)
        return Delete(key, _both(assumed, when), expected)

    def checking(self, item: VersionedItem, *, when: Condition | None = None) -> Check:
        """Asserts, in a transaction of others, that an item which was only read is still as it was loaded."""
        key = self._key_of(item)
        expected, assumed = version_condition(key, item.loaded, self._version)
        return Check(key, _both(assumed, when), expected)

    def _replacing(self, key: Key, before: Item | None, after: Item) -> Put | Update:
        version = version_of(key, before or {}, self._version) + 1
        return replacing(key, before, {**after, self._version: version}, self._version)

    def _changes_nothing(self, saving: Put | Update) -> bool:
        return isinstance(saving, Update) and saving.values.keys() == {self._version} and not saving.removed

    def _as_saved(self, item: Item, saving: Put | Update, version_id: str) -> VersionedItem:
        values = saving.item if isinstance(saving, Put) else saving.values
        made = {self._version: values[self._version], VERSION_ID: version_id}
        return VersionedItem(copied({**item, **dict(saving.key.attributes), **made}))

    def _kept(self, key: Key) -> list[str]:
        """What isn't the caller's to change."""
        return [*dict(key.attributes), self._version]

    def _key_of(self, item: Item) -> Key:
        if not isinstance(item, dict):
            raise TypeError(f"{self._name}: expected an item, got {item!r}")
        source = _loaded(item) or item
        for name in self._key_names:
            if name not in source:
                raise ValueError(f"{self._name}: an item without {name}, which is part of its key")
        return self.key(*(source[name] for name in self._key_names))

    def _check_kept(self, key: Key, before: Item | None, after: Item) -> None:
        """Raises ValueError where what isn't the caller's to change was changed, TypeError where a name is no text."""
        for name, value in key.attributes:
            if after.get(name, value) != value:
                raise ValueError(f"{key}: {name} is part of the key: to change it, save a new item and delete this one")
        check_names(after)
        for name in filter(is_own, after):
            if name in MARKS or not same((before or {}).get(name), after[name]):
                raise ValueError(
                    f"{key}: {name} is the library's own attribute: choose another name for yours, or, where this is an"
                    " item as it was read, save `VersionedItem(item)`"
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
                " a save counts it"
            )


def write_together(client: "DynamoDBClient", writes: Sequence[Write], *, deadline: Deadline | None = None) -> None:
    """Makes all these writes, or none: at most 100, each to another item. One alone goes as a plain write.

    `VersionedTable`'s `saving`, `deleting` and `checking` make those of versioned items. Items that were saved must be
    loaded again to be changed further. To decide again after a conflict, give `write` a plan instead.

    Raises Conflict with the first of the items that weren't as assumed, and ValueError, before anything is sent, for
    writes that no transaction takes.
    """
    _write_once(client, writes, deadline_or_default(deadline))


def _write_once(client: "DynamoDBClient", writes: Sequence[Write], deadline: Deadline) -> Written[None]:
    """Raises Conflict instead of planning again."""

    def plan(observed: Observed) -> Plan[None]:
        for refused in writes:
            if refused.key in observed:
                raise Conflict(refused, observed[refused.key])
        return Plan(None, writes, once=True)

    return write(client, plan, {}, deadline)


def _loaded(item: Item) -> Item | None:
    return item.loaded if isinstance(item, VersionedItem) else None


def _both(assumed: Condition, when: Condition | None) -> Condition:
    return assumed if when is None else assumed & when
