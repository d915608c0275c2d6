"""Reads: one item, a hundred, a query's, a scan's."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from conditional_writes.testing import conditions, key_conditions, projections
from conditional_writes.testing.database import Answer, Database, Request
from conditional_writes.testing.errors import Refused, invalid, invalid_parameter
from conditional_writes.testing.expressions import Path
from conditional_writes.testing.placeholders import Placeholders
from conditional_writes.testing.store import POSITIONS, Place, Store
from conditional_writes.testing.tables import Index, Keys, Table
from conditional_writes.testing.units import Units
from conditional_writes.testing.values import Item, item_bytes
from conditional_writes.testing.writes import refuse_legacy

MAXIMUM_KEYS = 100
PAGE_BYTES = 1024 * 1024
MAXIMUM_BATCH_BYTES = 16 * 1024 * 1024


def checked_projection(request: Request) -> list[Path]:
    """The paths of a request that has a projection alone, none for whole items. Raises Refused."""
    refuse_legacy(request)
    given = Placeholders(request, "ProjectionExpression")
    text = request.get("ProjectionExpression")
    paths = projections.parsed(text).paths(given) if text is not None else []
    given.check_all_used()
    return paths


def projected(paths: Sequence[Path], item: Item) -> Item:
    return projections.project(paths, item) if paths else item


def get_item(database: Database, request: dict[str, Any]) -> Answer:
    paths = checked_projection(request)
    table = database.table(request["TableName"])
    table.check_paths(paths)
    place, is_consistent = table.place_of_key(request["Key"]), bool(request.get("ConsistentRead"))
    database.check_refusals(table, place, is_read=True)
    item = table.get(place, is_consistent=is_consistent)
    answer: Answer = {} if item is None else {"Item": projected(paths, item)}
    if "ReturnConsumedCapacity" in request:
        units = Units(request)
        units.read(table, item_bytes(item or {}), is_consistent=is_consistent)
        answer |= units.of(table)
    return answer


def batch_get_item(database: Database, request: dict[str, Any]) -> Answer:
    wanted: dict[str, dict[str, Any]] = request["RequestItems"]
    if sum(len(each["Keys"]) for each in wanted.values()) > MAXIMUM_KEYS:
        raise invalid("Too many items requested for the BatchGetItem call")
    projections_of = {name: checked_projection(each) for name, each in wanted.items()}
    units, total = Units(request), 0
    found: dict[str, list[Item]] = {}
    unprocessed: dict[str, dict[str, Any]] = {}
    placed = [(database.table(name), name, each, _places(database.table(name), each)) for name, each in wanted.items()]
    for table, name, each, keys in placed:
        table.check_paths(projections_of[name])
        items, left, is_consistent = [], [], bool(each.get("ConsistentRead"))
        for place, key in sorted(keys.items()):
            item = table.get(place, is_consistent=is_consistent)
            size = item_bytes(item or {})
            if total + size > MAXIMUM_BATCH_BYTES or (
                database.refusals and database.refusal(table, place, is_read=True)
            ):
                left.append(key)
                continue
            total += size
            units.read(table, size, is_consistent=is_consistent)
            if item is not None:
                items.append(projected(projections_of[name], item))
        found[name] = items
        if left:
            unprocessed[name] = {**each, "Keys": left}
    return {"Responses": found, "UnprocessedKeys": unprocessed} | units.of_all()


def _places(table: Table, wanted: Mapping[str, Any]) -> dict[Place, Item]:
    """The keys by their places, so that items come in another order than their keys: DynamoDB promises none."""
    keys = {table.place_of_key(key): key for key in wanted["Keys"]}
    if len(keys) < len(wanted["Keys"]):
        raise invalid("Provided list of item keys contains duplicates")
    return keys


class Selection(NamedTuple):
    """The wanted part of a query's or a scan's items: those of the filter, and of each the paths, none for all.

    `filtered` are the attributes that the filter asks for.
    """

    filter: conditions.Condition | None
    filtered: list[str]
    paths: list[Path]
    given: Placeholders

    @classmethod
    def of(cls, request: Request, given: Placeholders) -> "Selection":
        condition, filtered, paths = None, [], []
        if "FilterExpression" in request:
            parsed = conditions.parsed("FilterExpression", request["FilterExpression"])
            condition = parsed.check(given)
            filtered = [str(given.resolved(path)[0]) for path in parsed.used.paths]
        if "ProjectionExpression" in request:
            paths = projections.parsed(request["ProjectionExpression"]).paths(given)
        given.check_all_used()
        _check_select(request, paths)
        return cls(condition, filtered, paths, given)

    def takes(self, item: Item) -> bool:
        return self.filter is None or self.filter.holds(item, self.given)

    def check_filter(self, keys: Keys) -> None:
        """Raises Refused if a query's filter is of its key."""
        for name in self.filtered:
            if name in keys.names:
                raise invalid(
                    f"Filter Expression can only contain non-primary key attributes: Primary key attribute: {name}"
                )


class Source(NamedTuple):
    """The source of a query or a scan: a table or an index."""

    table: Table
    of_index: Index | None
    store: Store
    keys: Keys
    is_consistent: bool

    @classmethod
    def of(cls, database: Database, request: Request) -> "Source":
        table = database.table(request["TableName"])
        is_consistent = bool(request.get("ConsistentRead"))
        if "IndexName" not in request:
            database.check_refusals(table)
            store = table.store if is_consistent or table.lagging is None else table.lagging
            return cls(table, None, store, table.keys, is_consistent)
        index = table.index(request["IndexName"])
        if index.is_global and is_consistent:
            raise invalid("Consistent reads are not supported on global secondary indexes")
        database.check_refusals(table, index=index.name)
        store = index.store if index.lagging is None or is_consistent else index.lagging
        return cls(table, index, store, index.keys, is_consistent)

    def key_of(self, item: Item) -> Item:
        return {name: item[name] for name in dict.fromkeys([*self.table.keys.names, *self.keys.names])}

    def place_of(self, start: Item) -> Place:
        """The place after which a page begins. Raises Refused if the key is none of this source's."""
        names = {*self.table.keys.names, *self.keys.names}
        if start.keys() != names:
            raise invalid("The provided starting key is invalid")
        try:
            place = self.table.place_of_key({name: start[name] for name in self.table.keys.names})
        except Refused as refused:
            raise invalid(f"The provided starting key is invalid: {refused.message}") from None
        if self.of_index is None:
            return place
        if any(self.table.types[name] not in start[name] for name in self.keys.names):
            raise invalid("The provided starting key is invalid")
        return (*self.keys.place(start), place)


def query(database: Database, request: dict[str, Any]) -> Answer:
    refuse_legacy(request)
    given = Placeholders(request, "ProjectionExpression", "FilterExpression", "KeyConditionExpression")
    if "KeyConditionExpression" not in request:
        raise invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
    wanted = conditions.parsed(key_conditions.KIND, request["KeyConditionExpression"]).check(given)
    selection = Selection.of(request, given)
    source = Source.of(database, request)
    conditions_of = key_conditions.of(wanted, given)
    partition = key_conditions.partition(conditions_of, source.keys, source.table.types)
    bounds = key_conditions.bounds(conditions_of, source.keys)
    source.table.check_paths(given.paths)
    selection.check_filter(source.keys)
    after = None
    if "ExclusiveStartKey" in request:
        after = source.place_of(request["ExclusiveStartKey"])
        if after[1] != partition:
            raise invalid("The provided starting key is outside query boundaries based on provided conditions")
        if not wanted.holds(request["ExclusiveStartKey"], given):
            raise invalid("The provided starting key does not match the range key predicate")
    forward = request.get("ScanIndexForward", True)
    entries = (
        (place, item)
        for place, item in source.store.partition(partition, bounds, after, forward=forward)
        if wanted.holds(item, given)
    )
    return _page(request, source, entries, selection)


def scan(database: Database, request: dict[str, Any]) -> Answer:
    refuse_legacy(request)
    given = Placeholders(request, "ProjectionExpression", "FilterExpression")
    selection = Selection.of(request, given)
    segment, segments = _segment(request)
    source = Source.of(database, request)
    source.table.check_paths(given.paths)
    after = source.place_of(request["ExclusiveStartKey"]) if "ExclusiveStartKey" in request else None
    lowest, highest = POSITIONS * segment // segments, POSITIONS * (segment + 1) // segments
    if after is not None and not lowest <= after[0] < highest:
        raise invalid(
            "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct"
            f" Segment. TotalSegments: {segments} Segment: {segment}"
        )
    return _page(request, source, source.store.segment(lowest, highest, after), selection)


_LACKING = "The {} parameter is required but was not present in the request when {} is present"


def _segment(request: Request) -> tuple[int, int]:
    segment, segments = request.get("Segment"), request.get("TotalSegments")
    if segment is None and segments is None:
        return 0, 1
    if segments is None:
        raise invalid(_LACKING.format("TotalSegments", "Segment parameter"))
    if segment is None:
        raise invalid(_LACKING.format("Segment", "parameter TotalSegments"))
    if segment >= segments:
        raise invalid(
            "The Segment parameter is zero-based and must be less than parameter TotalSegments:"
            f" Segment: {segment} is not less than TotalSegments: {segments}"
        )
    return segment, segments


def _check_select(request: Request, paths: Sequence[Path]) -> None:
    selected = request.get("Select")
    if paths and selected not in {None, "SPECIFIC_ATTRIBUTES"}:
        what = "only the Count" if selected == "COUNT" else selected
        raise invalid(f"Cannot specify the ProjectionExpression when choosing to get {what}")
    if selected == "SPECIFIC_ATTRIBUTES" and not paths:
        raise invalid(
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"
        )


def _page(request: Request, source: Source, entries: Iterator[tuple[Place, Item]], selection: Selection) -> Answer:
    paths = selection.paths
    whole_items = _check_attributes(request, source, selection)
    units = Units(dict(request))
    limit, size, scanned = request.get("Limit"), 0, 0
    found: list[Item] = []
    last: Item | None = None
    has_more = False
    for place, entry in entries:
        size, scanned, last = size + item_bytes(entry), scanned + 1, entry
        if selection.takes(entry):
            if whole_items:
                item = source.table.store.items.get(place[-1], entry)
                units.read(source.table, item_bytes(item), is_consistent=source.is_consistent)
                found.append(projected(paths, item))
            else:
                found.append(projected(paths, entry))
        if scanned == limit or size >= PAGE_BYTES:  # the last item may reach beyond it
            has_more = True
            break
    units.read(source.table, size, is_consistent=source.is_consistent, index=source.of_index)
    answer: Answer = {"Count": len(found), "ScannedCount": scanned}
    if request.get("Select") != "COUNT":
        answer["Items"] = found
    if has_more and last is not None:
        answer["LastEvaluatedKey"] = source.key_of(last)
    return answer | units.of(source.table)


def _check_attributes(request: Request, source: Source, selection: Selection) -> bool:
    """Whether the index's entries lack what is wanted, so that the items are read from the table."""
    index, selected = source.of_index, request.get("Select")
    if index is None:
        if selected == "ALL_PROJECTED_ATTRIBUTES":
            raise invalid_parameter("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
        return False
    if index.attributes is None:
        return False
    if unprojected := sorted({*selection.filtered} - index.attributes):
        raise invalid_parameter(
            f"Secondary index {index.name} does not project one or more filter attributes: [{', '.join(unprojected)}]"
        )
    if selected == "ALL_ATTRIBUTES":
        if index.is_global:
            raise invalid_parameter(
                f"Select type ALL_ATTRIBUTES is not supported for global secondary index {index.name}"
                " because its projection type is not ALL"
            )
        return True
    lacking = [str(path[0]) for path in selection.paths if path[0] not in index.attributes]
    if lacking and index.is_global:
        raise invalid_parameter(f"Global secondary index {index.name} does not project [{', '.join(lacking)}]")
    return bool(lacking)
