"""Which items a call reads and writes. Calls that touch no common item can change places, and nobody sees it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from conditional_writes.testing import conditions, key_conditions
from conditional_writes.testing.database import Database
from conditional_writes.testing.errors import Refused
from conditional_writes.testing.placeholders import Placeholders
from conditional_writes.testing.store import Place, position
from conditional_writes.testing.wire import Call

type Region = tuple[str, Place]
"""A table's name, and the beginning of the places in it: all of a table with (), a partition, an item."""


class Footprint(NamedTuple):
    reads: frozenset[Region] = frozenset()
    writes: frozenset[Region] = frozenset()
    is_everywhere: bool = False

    def meets(self, other: "Footprint") -> bool:
        """Whether one writes what the other reads or writes."""
        if self.is_everywhere or other.is_everywhere:
            return True
        return (
            _overlap(self.writes, other.writes)
            or _overlap(self.writes, other.reads)
            or _overlap(self.reads, other.writes)
        )


NOTHING, EVERYTHING = Footprint(), Footprint(is_everywhere=True)


def _overlap(some: Iterable[Region], others: Iterable[Region]) -> bool:
    return any(
        table == other_table and place[: len(other)] == other[: len(place)]
        for table, place in some
        for other_table, other in others
    )


def footprint(call: Call, database: Database) -> Footprint:
    if not call.service.startswith("DynamoDB"):
        return Footprint(writes=frozenset({(call.service, ())}))
    read = _READERS.get(call.name)
    if read is None:
        return EVERYTHING
    try:
        touched = [*read(database, call.request)]
    except (Refused, KeyError, ValueError):  # the engine will refuse it, or it is of another form
        return EVERYTHING
    reads = frozenset(region for is_write, region in touched if not is_write)
    return Footprint(reads, frozenset(region for is_write, region in touched if is_write))


type Touched = Iterator[tuple[bool, Region]]


def _region(database: Database, request: dict[str, Any], key: dict[str, Any]) -> Region:
    table = database.table(request["TableName"])
    return table.name, table.keys.place(key)


def _of_key(*, is_write: bool) -> Callable[[Database, dict[str, Any]], Touched]:
    def read(database: Database, request: dict[str, Any]) -> Touched:
        yield is_write, _region(database, request, request.get("Item") or request["Key"])

    return read


def _batch_get(database: Database, request: dict[str, Any]) -> Touched:
    for name, wanted in request["RequestItems"].items():
        for key in wanted["Keys"]:
            yield False, _region(database, {"TableName": name}, key)


def _batch_write(database: Database, request: dict[str, Any]) -> Touched:
    for name, wanted in request["RequestItems"].items():
        for [each] in (write.values() for write in wanted):
            yield True, _region(database, {"TableName": name}, each.get("Item") or each["Key"])


def _transaction(database: Database, request: dict[str, Any]) -> Touched:
    for action in request["TransactItems"]:
        [(kind, each)] = action.items()
        yield kind not in {"Get", "ConditionCheck"}, _region(database, each, each.get("Item") or each["Key"])
    if "ClientRequestToken" in request:
        yield True, ("", (request["ClientRequestToken"],))


def _query(database: Database, request: dict[str, Any]) -> Touched:
    table = database.table(request["TableName"])
    if "IndexName" in request:
        yield False, (table.name, ())
        return
    given = Placeholders(request, "ProjectionExpression", "FilterExpression", "KeyConditionExpression")
    wanted = conditions.parsed(key_conditions.KIND, request["KeyConditionExpression"]).check(given)
    partition = key_conditions.partition(key_conditions.of(wanted, given), table.keys, table.types)
    yield False, (table.name, (position(partition), partition))


def _scan(database: Database, request: dict[str, Any]) -> Touched:
    yield False, (database.table(request["TableName"]).name, ())


_READERS: dict[str, Callable[[Database, dict[str, Any]], Touched]] = {
    "GetItem": _of_key(is_write=False),
    "PutItem": _of_key(is_write=True),
    "UpdateItem": _of_key(is_write=True),
    "DeleteItem": _of_key(is_write=True),
    "BatchGetItem": _batch_get,
    "BatchWriteItem": _batch_write,
    "TransactGetItems": _transaction,
    "TransactWriteItems": _transaction,
    "Query": _query,
    "Scan": _scan,
}
