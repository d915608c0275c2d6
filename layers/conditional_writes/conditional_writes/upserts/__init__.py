"""Upserts of map entries: the item, the map, or any map around it may be missing, and others write at the same time.

The first request assumes a shape of the item. If DynamoDB refuses it, the item that comes back shows the true shape,
and the next request is planned from that. Why the clocks are where they are: docs/decisions/clocks-beside-the-maps.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError

from conditional_writes.deadline import Deadline, deadline_or_default
from conditional_writes.items import Key
from conditional_writes.loop import write
from conditional_writes.upserts import strategies
from conditional_writes.upserts.clocks import winning
from conditional_writes.upserts.entries import REMOVED, MapEntry, erasure
from conditional_writes.upserts.errors import ItemTooLarge, NotAMap, NotAnEntry
from conditional_writes.upserts.plan import Planner
from conditional_writes.upserts.splitting import erased_and_others, in_requests_from_any_on
from conditional_writes.upserts.strategies import Strategy
from conditional_writes.upserts.tidying import forgotten_before

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

__all__ = [
    "REMOVED",
    "ItemTooLarge",
    "MapEntry",
    "NotAMap",
    "NotAnEntry",
    "Progress",
    "Strategy",
    "Upserted",
    "erase",
    "erasure",
    "upsert",
    "upsert_in_requests",
]


class Progress(NamedTuple):
    """The entries that are done with one more request. `conflicts` counts the refused requests before it.

    An entry is superseded if the item has the same write, or a later one in the entry's place, around it or inside of
    it. The item is as if they had arrived in the other order. Of several entries with one path only the latest is
    named.
    """

    written: Sequence[MapEntry]
    superseded: Sequence[MapEntry]
    conflicts: int


class Upserted(NamedTuple):
    """`written` and `superseded` count entries, `conflicts` counts refused requests."""

    written: int
    superseded: int
    conflicts: int


def upsert(  # noqa: PLR0913 (four have defaults that are seldom changed)
    client: "DynamoDBClient",
    key: Key,
    entries: Iterable[MapEntry],
    *,
    strategy: Strategy = Strategy.ADAPTIVE,
    version_attribute: str | None = None,
    forget_after: timedelta | None = None,
    deadline: Deadline | None = None,
) -> Upserted:
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
    map and its new entries.

    Raises NotAMap, NotAnEntry, ItemTooLarge, DeadlinePassed, OutcomeUnknown, ValueError for an invalid entry, and
    botocore's errors.
    """
    entries = list(entries)
    written = conflicts = 0
    for progress in upsert_in_requests(
        client,
        key,
        entries,
        strategy=strategy,
        version_attribute=version_attribute,
        forget_after=forget_after,
        deadline=deadline,
    ):
        written += len(progress.written)
        conflicts += progress.conflicts
    return Upserted(written, len(entries) - written, conflicts)


def erase(
    client: "DynamoDBClient",
    key: Key,
    as_of: datetime,
    *,
    version_attribute: str | None = None,
    deadline: Deadline | None = None,
) -> Upserted:
    """Removes from an item all that isn't later than `as_of`: entries, clocks, and whatever has no clock.

    Only the key and a mark stay, and with `version_attribute` the version. An upsert as of the same time or an earlier
    one never brings anything back, whatever the order of arrival. An entry without `as_of` is written, whenever it
    arrives. Of several erasures the latest counts; another one is superseded, and changes nothing. The mark stays for
    good: it takes some 50 bytes.

    A missing item takes one request, for it needs the mark, too. Any other takes two, and more if it has hundreds of
    attributes: then a failure may leave it erased in part, and without the mark. Repeating it is harmless.

    Raises DeadlinePassed, ValueError for a time without its offset from UTC, and botocore's errors.
    """
    return upsert(client, key, [erasure(as_of)], version_attribute=version_attribute, deadline=deadline)


def upsert_in_requests(  # noqa: PLR0913 (four have defaults that are seldom changed)
    client: "DynamoDBClient",
    key: Key,
    entries: Iterable[MapEntry],
    *,
    strategy: Strategy = Strategy.ADAPTIVE,
    version_attribute: str | None = None,
    forget_after: timedelta | None = None,
    deadline: Deadline | None = None,
) -> Iterator[Progress]:
    """Does the same as `upsert`, and yields a Progress after each request.

    Its entries are done, even if a later request fails. An upsert of several requests begins with a random one of them.
    So a repetition gets further, even if most requests fail.
    """
    deadline = deadline_or_default(deadline)
    planner = Planner(key, strategy, version_attribute, forgotten_before(forget_after))
    erased, others = erased_and_others(winning(key, entries))
    if any(entry.path[0] == version_attribute for entry in others):
        raise ValueError(f"{key}: {version_attribute} can't hold entries: it is the version")
    requests = in_requests_from_any_on(others)
    pending = [erased, *requests] if erased else requests
    while pending:
        try:
            done = write(client, partial(planner.plan, pending), {}, deadline)
        except ClientError as error:
            if "Item size" in error.response["Error"].get("Message", ""):
                raise ItemTooLarge(key, None) from error
            raise
        for path, depth in done.result.depths.items():
            strategies.recent_depths.learn(key.table, path, depth)
        yield Progress(done.result.written, done.result.superseded, done.conflicts)
        paths = {entry.path for entry in (*done.result.written, *done.result.superseded)}
        rests = ([entry for entry in request if entry.path not in paths] for request in pending)
        pending = [rest for rest in rests if rest]
