"""Versioned items of any table: each write asserts the version that it was made from, and makes the next version.

There is no batch write: DynamoDB's BatchWriteItem takes no conditions, so a batch would silently overwrite the changes
of other writers. Writes that belong together go into one transaction: `write_together`. So do new items: `put_many`.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from conditional_writes.core.items import Item, Key, item_bytes
from conditional_writes.core.loop import (
    CONFLICTS_BEFORE_PAUSE,
    CONFLICTS_BEFORE_PAUSE_IF_PACED,
    Observed,
    Plan,
    write,
)
from conditional_writes.core.packing import packed
from conditional_writes.core.requests import MAXIMUM_WRITES, Condition, Put, Update, both, version_condition, version_of
from conditional_writes.core.steps import Deadline, Steps, blocking, deadline_or_default, steps
from conditional_writes.core.together import VersionedItem, write_once
from conditional_writes.core.unconditional import read, read_one
from conditional_writes.versioned import queries
from conditional_writes.versioned.pacing import Pace
from conditional_writes.versioned.writes import VersionedWrites, existing, loaded_of

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient  # noqa: F401 (in the class's base)

    from conditional_writes.upserts import MapEntry, Upserted


MAXIMUM_BYTES = 4_000_000
"""The items of a transaction of `put_many`. DynamoDB's limit is 4 MB, with the library's attributes."""


class _Change(NamedTuple):
    """The result of `modify` for an item, which is None before it exists. `saving` is None if nothing changes."""

    before: Item | None
    after: Item
    saving: Put | Update | None = None


class VersionedTable(VersionedWrites["DynamoDBClient"]):
    """A table of versioned items: `VersionedTable(client, "Orders", "order_id")`, with the names of its key.

    `version` names the attribute with an item's version. The first save of a new item makes version 1. An item that has
    no version yet gets version 1 with its next save. Beside the version, `cw:version_id` names the write that made it:
    a write recognises its own effect by it, and tells a recreated item from the deleted one.

    `templates` make the key of fields, for several kinds of items in one table: `VersionedTable(client, "Shop", "pk",
    "sk", templates={"pk": "CUSTOMER#{customer_id}", "sk": "ORDER#{order_id}"})`. A key's values are those of the fields
    then, in this order: `orders.get("c-1", "o-7")`. A save makes the key of the item's fields. Queries and scans leave
    out items whose keys are of another kind. `within` makes a query's condition.

    With `checked=False` saves and deletes assert no version, unless a call says otherwise: the last writer wins, for
    the attributes that it changed. The version still grows, so that other writers notice.

    Each call takes a deadline, by default ten seconds from now. Each may raise DeadlinePassed, OutcomeUnknown,
    NoSuchTable, WrongKey and botocore's other errors, as `write` does. After OutcomeUnknown and botocore's errors the
    write may have taken effect. After the others nothing was written.
    """

    @blocking
    def load(
        self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None
    ) -> Steps[VersionedItem | None]:
        """The item as it is now (a consistent read), None if it doesn't exist."""
        key = self.key(*key_values)
        found = yield from steps(read_one)(self._client, key, deadline)
        return None if found is None else VersionedItem(found)

    @blocking
    def get(self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None) -> Steps[VersionedItem]:
        """As `load`, but raises NoSuchItem if the item doesn't exist."""
        found = yield from steps(VersionedTable.load)(self, *key_values, deadline=deadline)
        return existing(self.key(*key_values), found)

    @blocking
    def load_many(self, keys: Iterable[Key], *, deadline: Deadline | None = None) -> Steps[list[VersionedItem | None]]:
        """The items of these keys as they are now, in the order of the keys; None for each that doesn't exist.

        `orders.load_many([orders.key("o-1"), orders.key("o-2")])`: one request per 100 keys, of consistent reads.
        Raises ValueError for the key of another table.
        """
        wanted = [*keys]
        for key in wanted:
            if not isinstance(key, Key) or key.table != self._name:
                raise ValueError(f"{self._name}: {key} is no key of this table: make one with its `key`")
        observed = yield from steps(read)(self._client, wanted, deadline)
        return [None if found is None else VersionedItem(found) for found in map(observed.__getitem__, wanted)]

    def query(  # noqa: PLR0913 (seven have defaults that are seldom changed)
        self,
        condition: Condition,
        *,
        index: str | None = None,
        matching: Condition | None = None,
        consistent: bool = False,
        descending: bool = False,
        page_size: int | None = None,
        after: Key | str | None = None,
        deadline: Deadline | None = None,
    ) -> queries.Pages[VersionedItem]:
        """The items whose keys fulfil the condition, in the order of their sort keys. They can be saved.

        The condition has `equals` of the partition key, and may have `equals`, `less_than`, `at_most`, `more_than`,
        `at_least`, `between` or `begins_with` of the sort key, joined by `&`. With an `index` it is about that one's
        key. `matching` is a condition of any kind on other attributes: items that don't fulfil it cost their read
        units, and are left out. `after` is the key of an item, there still or not: those behind it are returned. Or it
        is the `token` of a `page()` of the same query.

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
        after: Key | str | None = None,
        segment: tuple[int, int] | None = None,
        deadline: Deadline | None = None,
    ) -> queries.Pages[VersionedItem]:
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
            fields=self._fields_of(key_values),
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
        written = yield from steps(write_once)(self._client, [saving], deadline)
        returned = written.found.get(saving.key)
        return VersionedItem(returned) if returned else self._as_saved(loaded_of(item), item, saving, written.write_id)

    @blocking
    def put_many(self, items: Iterable[Item], *, deadline: Deadline | None = None) -> Steps[list[VersionedItem]]:
        """Creates the items that aren't there yet. Returns those that were there, as they are: none is overwritten.

        They go in transactions of at most 100 items and 4 MB, one after another, and are taken from `items` as they go.
        If one of them ends in an error, those before it were made, and the same call may be made again. An item costs
        twice the write units of a `save`. Without a deadline each transaction has ten seconds.

        Raises ValueError for an item that was loaded, and for two items of one key in a transaction.
        """
        there: list[VersionedItem] = []
        for puts in packed(map(self._creating, items), lambda put: item_bytes(put.item), MAXIMUM_WRITES, MAXIMUM_BYTES):

            def plan(observed: Observed, puts: list[Put] = puts) -> Plan[list[Item]]:
                found = [item for item in observed.values() if item is not None]
                return Plan(found, [put for put in puts if observed.get(put.key) is None])

            written = yield from steps(write)(self._client, plan, {}, deadline)
            there += map(VersionedItem, written.result)
        return there

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
        yield from steps(write_once)(self._client, [update], deadline)
        return version + 1

    @blocking
    def add(
        self,
        *key_values: str | int | Decimal | bytes,
        numbers: Mapping[str, int | Decimal] = {},
        appended: Mapping[str, list[Any]] = {},
        defaults: Mapping[str, Any] = {},
        when: Condition | None = None,
        deadline: Deadline | None = None,
    ) -> Steps[None]:
        """Adds to numbers, appends to lists, and sets the `defaults` that are missing, whatever the item's version is.

        The item needn't be loaded, and may be missing, unless `when` says otherwise. The version grows, so that writers
        who have loaded the item notice. It is one transaction: however often the SDK sends it, it is made once. So it
        costs twice the write units of a save, and no read.

        Raises Conflict if `when` doesn't hold, and ValueError for the key, the version or the library's attributes.
        """
        adding = self.adding(*key_values, numbers=numbers, appended=appended, defaults=defaults, when=when)
        yield from steps(write_once)(self._client, [adding], deadline)

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
        yield from steps(write_once)(self._client, [deleting], deadline)

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

    def _found(
        self, operation: queries.Operation, request: dict[str, Any], deadline: Deadline | None
    ) -> queries.Pages[VersionedItem]:
        return queries.Pages(self._client, operation, request, deadline, self.fits, self._made(request))
