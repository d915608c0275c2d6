"""Upserts of map entries: the item, the map, or any map around it may be missing, and others write at the same time.

The first request assumes a shape of the item. If DynamoDB refuses it, the item that comes back shows the true shape,
and the next request is planned from that. Why the clocks are where they are: docs/decisions/clocks-beside-the-maps.md.
"""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError

from conditional_writes.deadline import Deadline, deadline_or_default
from conditional_writes.items import Key
from conditional_writes.loop import write
from conditional_writes.sizes import MAXIMUM_ITEM_BYTES
from conditional_writes.upserts import strategies
from conditional_writes.upserts.clocks import winning
from conditional_writes.upserts.entries import REMOVED, MapEntry
from conditional_writes.upserts.errors import ItemTooLarge, NotAMap, NotAnEntry
from conditional_writes.upserts.plan import in_requests, plan_request
from conditional_writes.upserts.strategies import Strategy, expected_depth

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

__all__ = [
    "REMOVED",
    "ItemTooLarge",
    "MapEntry",
    "NotAMap",
    "NotAnEntry",
    "Strategy",
    "Upserted",
    "upsert",
]


class Upserted(NamedTuple):
    """`written` and `superseded` count entries, `conflicts` counts refused requests.

    An entry is superseded if a later write of it, or the same, is already there.
    """

    written: int
    superseded: int
    conflicts: int


def upsert(  # noqa: PLR0913 (three have defaults that are seldom changed)
    client: "DynamoDBClient",
    key: Key,
    entries: Iterable[MapEntry],
    *,
    strategy: Strategy = Strategy.ADAPTIVE,
    version_attribute: str | None = None,
    deadline: Deadline | None = None,
) -> Upserted:
    """Sets these entries of an item. Missing maps are created, and so is a missing item.

    One request takes 100 entries of one map, or 27 of a map 16 levels deep. If an upsert of several requests fails,
    some of its entries may be written. Repeating it is harmless.

    No other writer's entry is lost, with one exception: a map without clocks can't be told from a map that is a value,
    so an entry set in its place replaces it.

    With `version_attribute` each request counts as a new version of the item. In a table of versioned items it is
    needed: without it a `VersionedTable.save` of the whole map, by a writer that loaded the item before, replaces the
    map and its new entries.

    Raises NotAMap, NotAnEntry, ItemTooLarge, DeadlinePassed, OutcomeUnknown, ValueError for an invalid entry, and
    botocore's errors.
    """
    deadline = deadline_or_default(deadline)
    written = superseded = conflicts = 0
    for request in in_requests(winning(key, entries)):
        map_paths = {entry.path[:-1] for entry in request}
        depths = {path: expected_depth(strategy, key.table, path) for path in map_paths}
        try:
            done = write(client, partial(plan_request, key, request, depths, version_attribute), {}, deadline)
        except ClientError as error:
            if "Item size" in error.response["Error"].get("Message", ""):
                raise ItemTooLarge(key, MAXIMUM_ITEM_BYTES) from error
            raise
        for path, depth in done.result.depths.items():
            strategies.recent_depths.learn(key.table, path, depth)
        written += done.result.written
        superseded += len(request) - done.result.written
        conflicts += done.conflicts
    return Upserted(written, superseded, conflicts)
