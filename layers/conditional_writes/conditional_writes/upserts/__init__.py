"""Upserts of map entries: the item, the map, or any map around it may be missing, and others write at the same time."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from conditional_writes.core.items import Key
from conditional_writes.core.steps import Deadline, Steps, blocking, steps
from conditional_writes.upserts.entries import REMOVED, MapEntry, erasure
from conditional_writes.upserts.errors import ItemTooLarge, NotAMap, NotAnEntry
from conditional_writes.upserts.plan import Progress, UpsertInRequests

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

__all__ = [
    "REMOVED",
    "ItemTooLarge",
    "MapEntry",
    "NotAMap",
    "NotAnEntry",
    "Progress",
    "UpsertInRequests",
    "Upserted",
    "erase",
    "erasure",
    "upsert",
]


class Upserted(NamedTuple):
    """`written` and `superseded` count entries, `conflicts` counts refused requests."""

    written: int
    superseded: int
    conflicts: int


@blocking
def upsert(  # noqa: PLR0913 (three have defaults that are seldom changed)
    client: "DynamoDBClient",
    key: Key,
    entries: Iterable[MapEntry],
    *,
    version_attribute: str | None = None,
    fields: Mapping[str, Any] = {},
    forget_after: timedelta | None = None,
    deadline: Deadline | None = None,
) -> Steps[Upserted]:
    """Sets these entries of an item. Missing maps are created, and so is a missing item.

    One request takes 100 entries of one map, or 27 of a map 16 levels deep. If an upsert of several requests fails,
    some of its entries may be written. Repeating it is harmless.

    Of an entry, its removal, and a map of the same name, the latest by `as_of` wins, whichever arrives first. No other
    writer's entry is lost, with two exceptions: an entry in place of a map replaces what has no clock in it; and a map
    without clocks can't be told from a map that is a value, so an entry set in its place replaces it.

    A removal leaves its clock, so that no earlier write brings the entry back. With `forget_after` the clocks of
    removals that are older are dropped: choose the longest time that a write may be on its way. Without it they stay.

    An `erasure` among the entries goes first, and takes the later ones along in its request.

    With `version_attribute` each request counts as a new version of the item. In a table of versioned items it is
    needed: without it a `VersionedTable.save` of the whole map, by a writer that loaded the item before, replaces the
    map and its new entries. An item that lacks some of the `fields` gets these: `VersionedTable.upsert` gives those of
    its templates.

    Raises NotAMap, NotAnEntry, ItemTooLarge, DeadlinePassed, OutcomeUnknown, ValueError for an invalid entry, and
    botocore's errors.
    """
    entries = list(entries)
    written = conflicts = 0
    upserting = UpsertInRequests(
        client,
        key,
        entries,
        version_attribute=version_attribute,
        fields=fields,
        forget_after=forget_after,
        deadline=deadline,
    )
    while upserting.pending:
        progress = yield from steps(UpsertInRequests.next_request)(upserting)
        written += len(progress.written)
        conflicts += progress.conflicts
    return Upserted(written, len(entries) - written, conflicts)


@blocking
def erase(
    client: "DynamoDBClient",
    key: Key,
    as_of: datetime,
    *,
    version_attribute: str | None = None,
    deadline: Deadline | None = None,
) -> Steps[Upserted]:
    """Removes from an item all that isn't later than `as_of`: entries, clocks, and whatever has no clock.

    Only the key and a mark stay, and with `version_attribute` the version. An upsert as of the same time or an earlier
    one never brings anything back, whatever the order of arrival. An entry without `as_of` is written, whenever it
    arrives. Of several erasures the latest counts; another one is superseded, and changes nothing. The mark stays for
    good: it takes some 50 bytes.

    A missing item takes one request, for it needs the mark, too. Any other takes two, and more if it has hundreds of
    attributes: then a failure may leave it erased in part, and without the mark. Repeating it is harmless.

    Raises DeadlinePassed, ValueError for a time without its offset from UTC, and botocore's errors.
    """
    return steps(upsert)(client, key, [erasure(as_of)], version_attribute=version_attribute, deadline=deadline)
