"""Versioned items of any table: each write asserts the version that it was made from, and makes the next version.

There is no batch write: DynamoDB's BatchWriteItem takes no conditions, so a batch would silently overwrite the changes
of other writers. Writes that belong together go into one transaction: `write_together`.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from conditional_writes.core.conditions import exists
from conditional_writes.core.deadline import Deadline, deadline_or_default
from conditional_writes.core.items import Item, Key, check_names, copied, same, to_dynamodb
from conditional_writes.core.loop import (
    CONFLICTS_BEFORE_PAUSE,
    CONFLICTS_BEFORE_PAUSE_IF_PACED,
    Observed,
    Plan,
    write,
)
from conditional_writes.core.own_attributes import MARKS, VERSION_ID, is_own
from conditional_writes.core.reading import read_one
from conditional_writes.core.requests import (
    Check,
    Condition,
    Delete,
    Put,
    Update,
    both,
    diff,
    replacing,
    unchanged,
    version_condition,
    version_of,
)
from conditional_writes.core.steps import Steps, blocking, steps
from conditional_writes.core.together import VersionedItem, write_once
from conditional_writes.versioned import queries
from conditional_writes.versioned.pacing import Pace

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

    from conditional_writes.upserts import MapEntry, Upserted


class NoSuchItem(LookupError):
    """The item doesn't exist. `key` is the item's."""

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"{self.key}: there is no such item"


class _Change(NamedTuple):
    """What `modify` makes of an item, which is None before it exists. `saving` is None if nothing changes."""

    before: Item | None
    after: Item
    saving: Put | Update | None = None


class VersionedTable:
    """A table of versioned items: `VersionedTable(client, "Orders", "order_id")`, with the names of its key.

    `version` names the attribute with an item's version. The first save of a new item makes version 1. An item that has
    no version yet gets version 1 with its next save. Beside the version, `cw:version_id` names the write that made it:
    a write recognises its own effect by it, and tells a recreated item from the deleted one.

    With `checked=False` saves and deletes assert no version, unless a call says otherwise: the last writer wins, for
    the attributes that it changed. The version still grows, so that other writers notice.

    Each call takes a deadline, by default ten seconds from now. Each may raise DeadlinePassed, OutcomeUnknown,
    NoSuchTable, WrongKey and botocore's other errors, as `write` does. After OutcomeUnknown and botocore's errors the
    write may have taken effect. After the others nothing was written.
    """

    def __init__(
        self, client: "DynamoDBClient", name: str, *key_names: str, version: str = "version", checked: bool = True
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no table's name: expected VersionedTable(client, name, *key_names)")
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

    def key_of(self, item: Item) -> Key:
        """The item's primary key: of a loaded item the one that it was loaded with.

        Raises TypeError for what is no item, and ValueError for an item without a part of the key.
        """
        if not isinstance(item, dict):
            raise TypeError(f"{self._name}: expected an item, got {item!r}")
        source = _loaded(item) or item
        for name in self._key_names:
            if name not in source:
                raise ValueError(f"{self._name}: an item without {name}, which is part of its key")
        return self.key(*(source[name] for name in self._key_names))

    @blocking
    def load(
        self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None
    ) -> Steps[VersionedItem | None]:
        """The item as it is now (a consistent read), None if it doesn't exist."""
        key = self.key(*key_values)
        found = yield from steps(read_one)(self._client, key, deadline_or_default(deadline))
        return None if found is None else VersionedItem(found)

    @blocking
    def get(self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None) -> Steps[VersionedItem]:
        """As `load`, but raises NoSuchItem if the item doesn't exist."""
        found = yield from steps(VersionedTable.load)(self, *key_values, deadline=deadline)
        return _existing(self.key(*key_values), found)

    def load_from(self, observed: Observed, *key_values: str | int | Decimal | bytes) -> VersionedItem | None:
        """The item as a plan's `observed` has it, None if it doesn't exist. Raises ValueError if it wasn't read."""
        key = self.key(*key_values)
        if key not in observed:
            raise ValueError(f"{key}: wasn't read: name its key among those that the plan starts from")
        found = observed[key]
        return None if found is None else VersionedItem(found)

    def get_from(self, observed: Observed, *key_values: str | int | Decimal | bytes) -> VersionedItem:
        """As `load_from`, but raises NoSuchItem if the item doesn't exist."""
        return _existing(self.key(*key_values), self.load_from(observed, *key_values))

    def query(  # noqa: PLR0913 (seven have defaults that are seldom changed)
        self,
        condition: Condition,
        *,
        index: str | None = None,
        matching: Condition | None = None,
        consistent: bool = False,
        descending: bool = False,
        page_size: int | None = None,
        after: Key | None = None,
        deadline: Deadline | None = None,
    ) -> Iterator[VersionedItem]:
        """The items whose keys fulfil the condition, in the order of their sort keys. They can be saved.

        The condition has `equals` of the partition key, and may have `equals`, `less_than`, `at_most`, `more_than`,
        `at_least`, `between` or `begins_with` of the sort key, joined by `&`. With an `index` it is about that one's
        key. `matching` is a condition of any kind on other attributes: items that don't fulfil it cost their read
        units, and are left out. `after` is the key of an item, there still or not: those behind it are returned.

        A page is read when its first item is asked for. It takes one request, and has at most `page_size` items, those
        left out among them, or 1 MB. A throttled page is read again until the deadline. It is that of all pages;
        without one each page has ten seconds.

        Raises ValueError, before anything is sent, for a condition that isn't one on a key. As items are asked for,
        DeadlinePassed, NoSuchTable, WrongKey, and botocore's other errors.
        """
        request = queries.query_request(self._name, self._key_names, condition, index, matching)
        request |= {"ScanIndexForward": False} if descending else {}
        request |= self._pages(index, consistent=consistent, page_size=page_size, after=after)
        return self._found("query", request, deadline)

    def scan(  # noqa: PLR0913 (as `query`)
        self,
        *,
        index: str | None = None,
        matching: Condition | None = None,
        consistent: bool = False,
        page_size: int | None = None,
        after: Key | None = None,
        segment: tuple[int, int] | None = None,
        deadline: Deadline | None = None,
    ) -> Iterator[VersionedItem]:
        """All items of the table, or of the index, in no order, page by page. They can be saved.

        `segment=(0, 4)` is the first quarter: four workers, each with its segment, read the table together. The other
        parameters, and the errors, are those of `query`.
        """
        request = queries.scan_request(matching)
        if segment is not None:
            if not isinstance(segment, tuple) or len(segment) != 2 or not 0 <= segment[0] < segment[1]:
                raise ValueError(f"segment: {segment}, expected one as (0, 4): the four quarters are (0, 4) to (3, 4)")
            request["Segment"], request["TotalSegments"] = segment
        request |= self._pages(index, consistent=consistent, page_size=page_size, after=after)
        return self._found("scan", request, deadline)

    @blocking
    def upsert(
        self,
        *key_values: str | int | Decimal | bytes,
        entries: "Iterable[MapEntry]",
        forget_after: timedelta | None = None,
        deadline: Deadline | None = None,
    ) -> "Steps[Upserted]":
        """Sets entries of maps in the item, which may be missing: `upserts.upsert`, with its parameters and errors.

        No version is asserted: of two entries the later one wins. Each request that writes makes a version, so that the
        `save` of a writer that loaded the item before is a Conflict.
        """
        from conditional_writes.upserts import upsert  # noqa: PLC0415 (a function without upserts starts faster)

        return steps(upsert)(
            self._client,
            self.key(*key_values),
            entries,
            version_attribute=self._version,
            forget_after=forget_after,
            deadline=deadline,
        )

    @blocking
    def save(
        self,
        item: Item,
        *,
        when: Condition | None = None,
        checked: bool | None = None,
        deadline: Deadline | None = None,
    ) -> Steps[VersionedItem]:
        """Saves an item that was loaded, or creates one that wasn't. Returns it with its new version.

        Only the attributes that changed are written, each as a whole. Other attributes stay as they are, so writers
        that don't count versions lose nothing. Neither a checked nor an unchecked save brings a deleted item back.
        `when` is a further condition.

        Raises Conflict, and ValueError for an item that can't be saved.
        """
        saving = self.saving(item, when=when, checked=checked)
        written = yield from steps(write_once)(self._client, [saving], deadline_or_default(deadline))
        returned = written.found.get(saving.key)
        return VersionedItem(returned) if returned else self._as_saved(_loaded(item), item, saving, written.write_id)

    @blocking
    def update(
        self,
        *key_values: str | int | Decimal | bytes,
        version: int,
        values: Item,
        removed: Collection[str] = (),
        when: Condition | None = None,
        deadline: Deadline | None = None,
    ) -> Steps[int]:
        """Sets and removes attributes of an item of which only the version is known. Returns its new version.

        For a version that a client sends back, as in HTTP's If-Match. `version` is 0 for an item that has none yet.
        Raises Conflict, ValueError for attributes that can't be changed, and TypeError for a version that is no whole
        number.
        """
        key = self.key(*key_values)
        version = version_of(key, {self._version: version}, self._version)
        before = {self._version: version} if version else {}
        self._check_change(key, before, values)
        self._check_removed(key, removed)
        both_ways = sorted(set(values) & set(removed))
        if both_ways:
            raise ValueError(f"{key}: {', '.join(both_ways)}: in `values` and in `removed`: leave it in one of them")
        expected, still_same = version_condition(key, before, self._version)
        values = {name: value for name, value in values.items() if name not in dict(key.attributes)}
        update = Update(key, values | {self._version: version + 1}, both(still_same, when), removed, expected=expected)
        yield from steps(write_once)(self._client, [update], deadline_or_default(deadline))
        return version + 1

    @blocking
    def delete(
        self,
        item: Item,
        *,
        when: Condition | None = None,
        checked: bool | None = None,
        deadline: Deadline | None = None,
    ) -> Steps[None]:
        """Deletes an item that was loaded. If the delete is unchecked, an item that is gone already is no error.

        Raises Conflict. A deleted item can't carry the mark of its write: if the response is lost, and the item is gone
        at the second try, this delete or another may have done it, and OutcomeUnknown is raised.
        """
        deleting = self.deleting(item, when=when, checked=checked)
        yield from steps(write_once)(self._client, [deleting], deadline_or_default(deadline))

    @blocking
    def modify(
        self,
        *key_values: str | int | Decimal | bytes,
        change: Callable[[VersionedItem | None], Item],
        deadline: Deadline | None = None,
    ) -> Steps[VersionedItem]:
        """Reads the item, changes it and saves it; after each conflict it changes and saves the newer item.

        `change` gets the item, None if it doesn't exist, and returns the item as it should be. It must be a pure
        function of what it gets, because it is called again after each conflict. If it raises an error, nothing is
        written and the error passes through. If it changes nothing, nothing is written either. Costs one read and one
        write, and one write more for each conflict. A thread that changes an item at which it met conflicts leaves the
        others some round trips before it reads the item again.
        """
        deadline = deadline_or_default(deadline)
        key = self.key(*key_values)

        def plan(observed: Observed) -> Plan[_Change]:
            found = observed[key]
            before = None if found is None else VersionedItem(found)
            after = change(before)
            if not isinstance(after, dict):
                raise TypeError(f"{key}: `change` returned {after!r}, expected the item as it should be")
            self._check_change(key, found, after)
            saving = self._replacing(key, found, after)
            if found is not None and self._changes_nothing(saving):
                return Plan(_Change(found, found))
            return Plan(_Change(found, after, saving), [saving])

        is_paced = yield from steps(Pace.wait)(self._pace, key, deadline)
        asked_at = time.monotonic()
        found = yield from steps(read_one)(self._client, key, deadline)
        request_seconds = time.monotonic() - asked_at
        conflicts_before_pause = CONFLICTS_BEFORE_PAUSE_IF_PACED if is_paced else CONFLICTS_BEFORE_PAUSE
        written = yield from steps(write)(
            self._client, plan, {key: found}, deadline, conflicts_before_pause=conflicts_before_pause
        )
        before, after, saving = written.result
        if saving is None:
            return VersionedItem(after)
        saved = self._as_saved(before, after, saving, written.write_id)
        if is_paced or written.conflicts:
            self._pace.note(key, saved[self._version], written.conflicts, request_seconds)
        return saved

    def saving(self, item: Item, *, when: Condition | None = None, checked: bool | None = None) -> Put | Update:
        """The write of a `save`, for `write_together` or a plan of your own."""
        before = _loaded(item)
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
        self, index: str | None, *, consistent: bool, page_size: int | None, after: Key | None
    ) -> dict[str, Any]:
        """The parameters that queries and scans have in common."""
        request: dict[str, Any] = {"TableName": self._name, "ConsistentRead": consistent}
        if index is not None:
            request["IndexName"] = index
        if page_size is not None:
            if not isinstance(page_size, int) or page_size < 1:
                raise ValueError(f"page_size: {page_size!r}, expected 1 or more")
            request["Limit"] = page_size
        if after is not None:
            if index is not None:
                raise ValueError(
                    f"{index}: the key of an item says nothing of its place in an index: go on with a condition on the"
                    " index's sort key"
                )
            if not isinstance(after, Key) or after.table != self._name:
                raise ValueError(f"{self._name}: expected the key of one of its items to go on after, got {after}")
            request["ExclusiveStartKey"] = to_dynamodb(dict(after.attributes))
        return request

    def _found(
        self, operation: queries.Operation, request: dict[str, Any], deadline: Deadline | None
    ) -> Iterator[VersionedItem]:
        index = request.get("IndexName")
        return (VersionedItem(item, index) for item in queries.found(self._client, operation, request, deadline))

    def _is_checked(self, *, checked: bool | None) -> bool:
        """The argument of the call; None: the setting of the table."""
        return self._checked if checked is None else checked

    def _replacing(self, key: Key, before: Item | None, after: Item) -> Put | Update:
        version = version_of(key, before or {}, self._version) + 1
        return replacing(key, before, {**after, self._version: version}, self._version)

    def _version_loaded(self, key: Key, item: Item, instead: str) -> Item:
        """The item as it was loaded. Raises ValueError if it wasn't: the sentence says what to do instead."""
        before = _loaded(item)
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

    def _check_removed(self, key: Key, removed: Collection[str]) -> None:
        """Raises ValueError for names of what stays, TypeError for a name that is no text."""
        check_names(removed)
        staying = dict.fromkeys(dict(key.attributes), "part of the key") | {self._version: "the version"}
        for name in removed:
            whose = "the library's own attribute" if is_own(name) else staying.get(name)
            if whose:
                raise ValueError(f"{key}: removed: {name} is {whose}, which stays")

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


def _existing(key: Key, item: VersionedItem | None) -> VersionedItem:
    if item is None:
        raise NoSuchItem(key)
    return item


def _loaded(item: Item) -> Item | None:
    return item.loaded if isinstance(item, VersionedItem) else None
