"""The writes of versioned items, each from its item as it was loaded. No request is made."""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from typing import Any

from conditional_writes.core.items import Item, Key, check_names, copied, diff, same, to_dynamodb
from conditional_writes.core.loop import Observed
from conditional_writes.core.own_attributes import MARKS, VERSION_ID, is_own
from conditional_writes.core.requests import (
    Check,
    Condition,
    Delete,
    Put,
    Update,
    both,
    exists,
    replacing,
    unchanged,
    version_condition,
    version_of,
)
from conditional_writes.core.together import VersionedItem
from conditional_writes.versioned.key_templates import KeyTemplates
from conditional_writes.versioned.pacing import Pace
from conditional_writes.versioned.queries import key_in


class NoSuchItem(LookupError):
    """The item doesn't exist. `key` is the item's."""

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"{self.key}: there is no such item"


class VersionedWrites[Client]:
    """A table's keys, and the writes of its versioned items. `VersionedTable` makes them."""

    def __init__(
        self,
        client: Client,
        name: str,
        *key_names: str,
        templates: Mapping[str, str] = {},
        version: str = "version",
        checked: bool = True,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no table's name: expected VersionedTable(client, name, *key_names)")
        if not key_names:
            raise ValueError(f"{name}: expected the names of its key, got none")
        self._client, self._name, self._key_names = client, name, key_names
        self._version, self._checked = version, checked
        self._templates = KeyTemplates(name, key_names, templates) if templates else None
        self._key_fields = self._templates.fields if self._templates else key_names
        self._pace = Pace()

    def key(self, *values: str | int | Decimal | bytes) -> Key:
        """The item's primary key from its values, in the order of the table's key names, or of its templates' fields.

        Raises ValueError and TypeError for values that make no key.
        """
        if len(values) != len(self._key_fields):
            raise TypeError(f"{self._name}: expected {', '.join(self._key_fields)}; got {len(values)} values")
        for field, value in zip(self._key_fields, values, strict=True):
            if isinstance(value, dict | list):  # as boto3 takes a key: {"order_id": "o-1"}
                raise TypeError(f"{self._name}: {field} is {value!r}, expected a text, a number or bytes")
        if self._templates is not None:
            values = tuple(self._templates.key_values(dict(zip(self._key_fields, values, strict=True))))
        return self._key(values)

    def _key(self, values: Iterable[Any]) -> Key:
        return Key(self._name, tuple(sorted(zip(self._key_names, values, strict=True))))

    def key_of(self, item: Item) -> Key:
        """The item's primary key: of a loaded item the one that it was loaded with.

        Raises TypeError for what is no item, and ValueError for an item without a part of the key.
        """
        if not isinstance(item, dict):
            raise TypeError(f"{self._name}: expected an item, got {item!r}")
        before = loaded_of(item)
        source, names = (before, self._key_names) if before else (item, self._key_fields)
        for name in names:
            if name not in source:
                raise ValueError(f"{self._name}: an item without {name}, which is part of its key")
        values = [source[name] for name in names]
        return self._key(values) if before else self.key(*values)

    def fits(self, item: Item) -> bool:
        """Whether the key of an item of this table is as the templates make it. Without templates each is."""
        return self._templates is None or self._templates.fit(item)

    def within(self, *values: str | int) -> Condition:
        """The condition of a query: keys of the table's templates whose first fields have these values.

        Raises TypeError if there are no templates, and as `key`. The values of the partition key must be among them.
        """
        if self._templates is None or len(values) > len(self._key_fields):
            raise TypeError(f"{self._name}: expected templates of its key, and values of {', '.join(self._key_fields)}")
        return self._templates.beginning(dict(zip(self._key_fields, values, strict=False)))

    def load_from(self, observed: Observed, *key_values: str | int | Decimal | bytes) -> VersionedItem | None:
        """The item as a plan's `observed` has it, None if it doesn't exist. Raises ValueError if it wasn't read."""
        key = self.key(*key_values)
        if key not in observed:
            raise ValueError(f"{key}: wasn't read: name its key among those that the plan starts from")
        found = observed[key]
        return None if found is None else VersionedItem(found)

    def get_from(self, observed: Observed, *key_values: str | int | Decimal | bytes) -> VersionedItem:
        """As `load_from`, but raises NoSuchItem if the item doesn't exist."""
        return existing(self.key(*key_values), self.load_from(observed, *key_values))

    def saving(self, item: Item, *, when: Condition | None = None, checked: bool | None = None) -> Put | Update:
        """The write of a `save`, for `write_together` or a plan of your own."""
        before = loaded_of(item)
        key = self.key_of(item)
        self._check_change(key, before, item)
        if self._is_checked(checked=checked):
            self._check_has_version(key, item)
            saving = self._replacing(key, before, item)
        else:
            values, removed = diff(before or {}, item, ignored=[*dict(key.attributes), self._version])
            condition = None if before is None else exists(self._key_names[0])
            added = {self._version: 1}
            saving = Update(key, values, condition, removed, added, return_new=True, makes_version=True)
        return saving._replace(condition=both(saving.condition, when))

    def _creating(self, item: Item) -> Put:
        """Raises ValueError for an item that was loaded, and what `serialized` raises: a size is asked for before."""
        putting = self.saving(item, checked=True)
        if loaded_of(item) is not None:
            raise ValueError(f"{putting.key}: was loaded, so it is no new item: save it")
        assert isinstance(putting, Put)
        to_dynamodb(putting.item)
        return putting

    def adding(
        self,
        *key_values: str | int | Decimal | bytes,
        numbers: Mapping[str, int | Decimal] = {},
        appended: Mapping[str, list[Any]] = {},
        defaults: Mapping[str, Any] = {},
        when: Condition | None = None,
    ) -> Update:
        """The write of an `add`, for the same. It counts the version, so no save of another writer overwrites it.

        Raises ValueError for the key, the version or the library's attributes.
        """
        key = self.key(*key_values)
        names = [*numbers, *appended, *defaults]
        if not names or len({*names}) < len(names):
            raise ValueError(f"{key}: expected attributes to add to, each once, got {names}")
        self._check_removed(key, names, "add")
        added = {self._version: 1, **numbers}
        fields = self._fields_of(key_values)
        return Update(
            key, {}, when, added=added, makes_version=True, appended=appended, defaults={**fields, **defaults}
        )

    def _fields_of(self, key_values: Iterable[Any]) -> Item:
        """The fields of the templates. An item that is created without a save has them, too."""
        pairs = zip(self._key_fields, key_values, strict=True)
        return {name: value for name, value in pairs if name not in self._key_names}

    def deleting(self, item: Item, *, when: Condition | None = None, checked: bool | None = None) -> Delete:
        """The write of a `delete`, for the same. Raises ValueError if a checked item wasn't loaded."""
        key = self.key_of(item)
        if not self._is_checked(checked=checked):
            return Delete(key, when)
        before = self._version_loaded(key, item, "load it, or delete it with checked=False")
        expected, still_same = version_condition(key, before, self._version)
        return Delete(key, both(still_same, when), expected)

    def checking(self, item: VersionedItem, *, when: Condition | None = None) -> Check:
        """A check for a transaction that only read the item: the item still has the version that was loaded.

        Raises ValueError if the item wasn't loaded.
        """
        key = self.key_of(item)
        check = unchanged(key, self._version_loaded(key, item, "load it"), self._version)
        return check if when is None else check._replace(condition=check.condition & when)

    def _pages(
        self, index: str | None, *, consistent: bool, page_size: int | None, after: Key | str | None
    ) -> dict[str, Any]:
        """The parameters that queries and scans have in common."""
        request: dict[str, Any] = {"TableName": self._name, "ConsistentRead": consistent}
        if index is not None:
            request["IndexName"] = index
        if page_size is not None:
            if not isinstance(page_size, int) or page_size < 1:
                raise ValueError(f"page_size: {page_size!r}, expected 1 or more")
            request["Limit"] = page_size
        if isinstance(after, str):
            request["ExclusiveStartKey"] = key_in(after)
        elif after is not None:
            if index is not None:
                raise ValueError(
                    f"{index}: the key of an item says nothing of its place in an index: go on after the token of a"
                    " `page()`"
                )
            if not isinstance(after, Key) or after.table != self._name:
                raise ValueError(f"{self._name}: expected the key of one of its items to go on after, got {after}")
            request["ExclusiveStartKey"] = to_dynamodb(dict(after.attributes))
        return request

    def _made(self, request: dict[str, Any]) -> Callable[[Item], VersionedItem]:
        """Makes the items that a query or a scan has found."""
        return functools.partial(VersionedItem, index=request.get("IndexName"))

    def _is_checked(self, *, checked: bool | None) -> bool:
        """The argument of the call; None: the setting of the table."""
        return self._checked if checked is None else checked

    def _replacing(self, key: Key, before: Item | None, after: Item) -> Put | Update:
        version = version_of(key, before or {}, self._version) + 1
        return replacing(key, before, {**after, self._version: version}, self._version)

    def _version_loaded(self, key: Key, item: Item, instead: str) -> Item:
        """The item as it was loaded. Raises ValueError if it wasn't: the sentence says what to do instead."""
        before = loaded_of(item)
        if before is None:
            raise ValueError(f"{key}: wasn't loaded, so there is no version to assert: {instead}")
        self._check_has_version(key, item)
        return before

    def _check_has_version(self, key: Key, item: Item) -> None:
        """Raises ValueError if the item is from an index that lacks its version, or the version's id."""
        if not isinstance(item, VersionedItem) or item.index is None:
            return
        for name in (self._version, VERSION_ID):
            if name not in item.loaded:
                raise ValueError(
                    f"{key}: is from the index {item.index}, which lacks its {name}: load the item, or let the index"
                    f" project {self._version} and {VERSION_ID}"
                )

    def _changes_nothing(self, saving: Put | Update) -> bool:
        return isinstance(saving, Update) and saving.values.keys() == {self._version} and not saving.removed

    def _as_saved(self, before: Item | None, after: Item, saving: Put | Update, version_id: str) -> VersionedItem:
        values = saving.item if isinstance(saving, Put) else saving.values
        own = {name: value for name, value in (before or {}).items() if is_own(name)}
        made = {self._version: values[self._version], VERSION_ID: version_id}
        index = after.index if isinstance(after, VersionedItem) else None
        return VersionedItem(copied({**own, **after, **dict(saving.key.attributes), **made}), index)

    def _check_removed(self, key: Key, removed: Collection[str], doing: str = "removed") -> None:
        """Raises ValueError for names of what stays, TypeError for a name that is no text."""
        check_names(removed)
        staying = dict.fromkeys([*self._key_names, *self._key_fields], "part of the key")
        staying[self._version] = "the version"
        for name in removed:
            whose = "the library's own attribute" if is_own(name) else staying.get(name)
            if whose:
                raise ValueError(f"{key}: {doing}: {name} is {whose}, which stays")

    def _check_fields(self, key: Key, before: Item | None, after: Item) -> None:
        """Raises ValueError if fields of the key aren't as the key has them."""
        if before is None:
            if self.key_of(dict(after)) != key:
                raise ValueError(f"{key}: is the key of an item whose {', '.join(self._key_fields)} are others")
            return
        for name in self._key_fields:
            if not same(after.get(name), before.get(name)):
                raise ValueError(f"{key}: {name} is part of the key: to change it, save a new item and delete this one")

    def _check_change(self, key: Key, before: Item | None, after: Item) -> None:
        """Raises ValueError if the key, the version or an attribute of the library was changed.

        Raises TypeError for a name that is no text.
        """
        for name, value in key.attributes:
            if after.get(name, value) != value:
                raise ValueError(f"{key}: {name} is part of the key: to change it, save a new item and delete this one")
        check_names(after)
        if self._templates is not None:
            self._check_fields(key, before, after)
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


def existing(key: Key, item: VersionedItem | None) -> VersionedItem:
    if item is None:
        raise NoSuchItem(key)
    return item


def loaded_of(item: Item) -> Item | None:
    return item.loaded if isinstance(item, VersionedItem) else None
