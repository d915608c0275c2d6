"""Entries of map attributes, set where the item, the map, or any map around it may not be there yet.

DynamoDB sets `a.b.c` only where `a.b` is a map, and sets `a` only as a whole. So each request names which maps it
assumes to be there: the entries are set in those, and where one is missing it is set whole, with the entries in it.
When the assumption is wrong, DynamoDB hands back the item, and the next request is planned from its shape.

An entry with a time, `as_of`, has a clock. Of two writes of an entry the later wins, whichever arrives first. The
clocks of a map's entries are in an attribute of their own, beside the map: `as_of ["preferences"]`.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import ClientError

from conditional_writes.conditions import Condition, Path, absent, all_of, any_of, at_least, equals, is_map, more_than
from conditional_writes.deadline import Deadline
from conditional_writes.items import Item, Key, copied, serialized, to_dynamodb
from conditional_writes.loop import Observed, Plan, write
from conditional_writes.own_attributes import CLOCKS_PREFIX, ITEM_BYTES, is_own
from conditional_writes.requests import Update
from conditional_writes.sizes import LARGEST_ITEM_BYTES, item_bytes, value_bytes

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

type MapPath = tuple[str, ...]


class _Removed:
    def __repr__(self) -> str:
        return "REMOVED"


REMOVED: Final = _Removed()
"""As an entry's value: it is removed. With a clock the removal is remembered, so that no earlier write undoes it."""


class MapEntry(NamedTuple):
    """`path`: the names from the attribute down to the entry, at least two. `as_of`: since when it is so.

    Without `as_of` the last to arrive wins. With it the later wins; of two of the same time, one and the same on every
    replay: a value before a removal, and of two values the one with the greater hash.
    """

    path: tuple[str, ...]
    value: Any
    as_of: datetime | None = None


class Strategy(StrEnum):
    """What the first request assumes. Where that holds the upsert takes one request, else two."""

    ENTRY_FIRST = "entry_first"  # all maps are there
    ATTRIBUTE_FIRST = "attribute_first"  # none is
    ADAPTIVE = "adaptive"  # as it was of late, for this table and path


class Upserted(NamedTuple):
    """How many were written, how many superseded (there was the same write, or a later), and the requests refused."""

    written: int
    superseded: int
    conflicts: int


class NotAMap(Exception):
    """Something on the way to an entry isn't a map that holds entries. Nothing of this request was written.

    `path` is where, `found` what is there: "a string", "an entry", …; `item` the item as it is, None where two entries
    of one call contradict each other.
    """

    def __init__(self, key: Key, path: MapPath, found: str, item: Item | None) -> None:
        super().__init__(key, path, found, item)
        self.key, self.path, self.found, self.item = key, path, found, item

    def __str__(self) -> str:
        return f"{self.key}: {'.'.join(self.path)} is {self.found}, expected a map, to hold entries"


class NotAnEntry(Exception):
    """The entry's place is taken by a map that holds entries of its own: setting it would lose them all.

    Nothing of this request was written.
    """

    def __init__(self, key: Key, path: MapPath, item: Item | None) -> None:
        super().__init__(key, path, item)
        self.key, self.path, self.item = key, path, item

    def __str__(self) -> str:
        return f"{self.key}: {'.'.join(self.path)} holds entries of its own, expected an entry"


class ItemTooLarge(Exception):
    """The item would be larger than DynamoDB's 400 kB, or too close to that. Nothing of this request was written."""

    def __init__(self, key: Key, bytes_needed: int) -> None:
        super().__init__(key, bytes_needed)
        self.key, self.bytes_needed = key, bytes_needed

    def __str__(self) -> str:
        expected = f"expected at most {MAXIMUM_ITEM_BYTES:,}: an item holds 400 kB"
        return f"{self.key}: would have {self.bytes_needed:,} bytes, {expected}"


MAXIMUM_ITEM_BYTES = LARGEST_ITEM_BYTES - 9_600
"""Room is left for what is counted too low, and for other writers of the item."""

_OPERATORS = 280
_CHARACTERS = 3_600
"""Of one expression DynamoDB takes 300 and 4,096; the rest is for the conditions that each request has."""


def upsert(  # noqa: PLR0913 (three have defaults that are seldom changed)
    client: "DynamoDBClient",
    key: Key,
    entries: Iterable[MapEntry],
    *,
    strategy: Strategy = Strategy.ADAPTIVE,
    version_attribute: str | None = None,
    deadline: Deadline | None = None,
) -> Upserted:
    """Sets these entries of an item, and creates what isn't there: 100 of a map in a request, 27 of one 16 deep.

    What takes several requests may be written in part where it fails. To send it again is harmless.

    `version_attribute` counts each request as a new version, for a table whose items have versions; the entries don't
    depend on it. No write of another's is lost, except of the same entry. (A map as a value, and a map whose entries
    never had a clock, can't be told apart: an entry set in its place replaces it.) A `VersionedTable.save` of the whole
    attribute by one who loaded it before is refused only where the upsert counted: give it the `version_attribute`.

    Raises NotAMap, NotAnEntry, ItemTooLarge, DeadlinePassed, ValueError for an entry that can't be meant, and
    botocore's own errors.
    """
    deadline = deadline or Deadline.after(10)
    written = superseded = conflicts = 0
    for request in _requests(_latest(key, entries)):
        upserting = _Upserting(key, request, version_attribute)
        depths = {path: _expected_depth(strategy, key.table, path) for path in upserting.parents}
        try:
            done = write(client, lambda observed: upserting.plan(observed, depths), {}, deadline)  # noqa: B023 (run here)
        except ClientError as error:
            if "Item size" in error.response["Error"].get("Message", ""):
                raise ItemTooLarge(key, LARGEST_ITEM_BYTES) from error
            raise
        for path, depth in done.result.depths.items():
            _recent.learn((key.table, path), depth)
        written += done.result.written
        superseded += len(request) - done.result.written
        conflicts += done.conflicts
    return Upserted(written, superseded, conflicts)


class _Done(NamedTuple):
    """`depths`: of each map's path, how many of its maps were there."""

    written: int
    depths: dict[MapPath, int]


class _Shape(NamedTuple):
    """What is there: maps, by their paths, and the clocks of their entries (None: not known which)."""

    maps: set[MapPath]
    clocks: dict[MapPath, Item | None]

    def depth(self, path: MapPath) -> int:
        return sum(path[:length] in self.maps for length in range(1, len(path) + 1))


class _Upserting(NamedTuple):
    """Entries of one item that go in one request."""

    key: Key
    entries: Sequence[MapEntry]
    version_attribute: str | None

    @property
    def parents(self) -> set[MapPath]:
        return {entry.path[:-1] for entry in self.entries}

    def plan(self, observed: Observed, depths: Mapping[MapPath, int]) -> Plan[_Done]:
        item = observed.get(self.key)
        if self.key in observed:
            shape = _seen(self.key, self.entries, item)
        else:
            maps = {node for path, depth in depths.items() for node in _nodes(path)[:depth]}
            shape = _Shape(maps, dict.fromkeys(maps))
        current = [entry for entry in self.entries if not self._superseded(entry, shape, item)]
        done = _Done(len(current), {path: shape.depth(path) for path in self.parents})
        return Plan(done, [self._update(current, shape, item)] if current else [])

    def _superseded(self, entry: MapEntry, shape: _Shape, item: Item | None) -> bool:
        clock = (shape.clocks.get(entry.path[:-1]) or {}).get(entry.path[-1])
        if clock == _MAP:
            raise NotAnEntry(self.key, entry.path, item)
        return clock is not None and entry.as_of is not None and clock >= _clock(entry)

    def _update(self, entries: Sequence[MapEntry], shape: _Shape, item: Item | None) -> Update:
        values: dict[Path, Any] = {}
        holds: list[Condition] = []
        fails: list[Condition] = []
        removed = [entry.path for entry in entries if entry.value is REMOVED and entry.path[:-1] in shape.maps]
        _set_entries(entries, shape, values, holds)
        _set_clocks(entries, shape, values, holds, fails)
        added = {self.version_attribute: 1} if self.version_attribute else {}
        bytes_added = sum(_bytes(path, value) for path, value in values.items())
        if bytes_added > MAXIMUM_ITEM_BYTES:
            raise ItemTooLarge(self.key, bytes_added)
        before = 0 if item is None else int(item.get(ITEM_BYTES, 0))
        if item is not None and before + bytes_added > MAXIMUM_ITEM_BYTES:
            holds.append(equals(ITEM_BYTES, before))
            values[ITEM_BYTES] = self._counted_anew(item, values, removed)
        else:
            added[ITEM_BYTES] = bytes_added
            fails.append(more_than(ITEM_BYTES, MAXIMUM_ITEM_BYTES - bytes_added))
        condition = all_of([*holds, ~any_of(fails)]) if fails else all_of(holds)
        return Update(self.key, values, condition, removed, added)

    def _counted_anew(self, item: Item, values: Mapping[Path, Any], removed: Iterable[MapPath]) -> int:
        """What was counted as written is more than is there: here is the item, so this is what it will have."""
        after = copied(item) | dict(self.key.attributes)
        for path, value in values.items():
            *way, name = (path,) if isinstance(path, str) else path
            _follow(after, way)[name] = value
        for *way, name in removed:
            _follow(after, way).pop(name, None)
        size = item_bytes(to_dynamodb(after))
        if size > MAXIMUM_ITEM_BYTES:
            raise ItemTooLarge(self.key, size)
        return size


def _set_entries(entries: Sequence[MapEntry], shape: _Shape, values: dict[Path, Any], holds: list[Condition]) -> None:
    """In the maps that are there; and the highest map that is missing, whole, with all that belongs in it."""
    for node in _all_nodes(entries):
        if node in shape.maps:
            holds.append(is_map(node))
        elif node[:-1] in shape.maps or len(node) == 1:
            holds.append(absent(node))
            values[node] = {}
    for entry in entries:
        *way, name = entry.path
        if tuple(way) in shape.maps:
            if entry.value is not REMOVED:
                values[entry.path] = entry.value
            continue
        new = next(node for node in _nodes(tuple(way)) if node in values)
        inside = values[new]
        for step in way[len(new) :]:
            inside = inside.setdefault(step, {})
        if entry.value is not REMOVED:
            inside[name] = entry.value


def _set_clocks(
    entries: Sequence[MapEntry],
    shape: _Shape,
    values: dict[Path, Any],
    holds: list[Condition],
    fails: list[Condition],
) -> None:
    """Each entry's, where it is later than the one there; and for each map the mark that it is one, and no entry.

    What has no clock asserts only that it doesn't replace such a map.
    """
    fails += [
        equals((_clocks_attribute(entry.path[:-1]), entry.path[-1]), _MAP) for entry in entries if entry.as_of is None
    ]
    clocked = [entry for entry in entries if entry.as_of is not None]
    clocks: dict[MapPath, Item] = {node: {} for node in _all_nodes(clocked)}
    for node in clocks:
        if node[:-1] in clocks:
            clocks[node[:-1]][node[-1]] = _MAP
    for entry in clocked:
        clocks[entry.path[:-1]][entry.path[-1]] = _clock(entry)
    for node, new in clocks.items():
        attribute = _clocks_attribute(node)
        if node not in shape.clocks:
            holds.append(absent(attribute))
            values[attribute] = new
            continue
        holds.append(is_map(attribute))
        there = shape.clocks[node]
        for name, clock in new.items():
            if clock != _MAP:
                fails.append(at_least((attribute, name), clock))
                values[attribute, name] = clock
            elif (*node, name) not in shape.clocks and (there or {}).get(name) != _MAP:
                holds.append(absent((attribute, name)))
                values[attribute, name] = _MAP


def _seen(key: Key, entries: Sequence[MapEntry], item: Item | None) -> _Shape:
    """The item's shape, on the ways to these entries. Raises NotAMap."""
    shape = _Shape(set(), {})
    for node in _all_nodes(entries):
        clocks = (item or {}).get(_clocks_attribute(node))
        if clocks is not None:
            shape.clocks[node] = clocks
        if (shape.clocks.get(node[:-1]) or {}).get(node[-1], _MAP) != _MAP:
            raise NotAMap(key, node, "an entry", item)
        inside: Any = _follow(item or {}, node[:-1]) if node[:-1] in shape.maps or len(node) == 1 else {}
        if node[-1] not in inside:
            continue
        found = inside[node[-1]]
        if not isinstance(found, dict):
            raise NotAMap(key, node, _TYPES[next(iter(serialized("", found)))], item)
        shape.maps.add(node)
    return shape


_TYPES = {
    "S": "a string",
    "N": "a number",
    "B": "binary",
    "BOOL": "a truth value",
    "NULL": "null",
    "L": "a list",
    "SS": "a set of strings",
    "NS": "a set of numbers",
    "BS": "a set of binaries",
}


def _follow(item: Item, way: Iterable[str]) -> Item:
    for name in way:
        item = item[name]
    return item


def _nodes(path: MapPath) -> list[MapPath]:
    """The maps on a path: its attribute, and so on down to itself."""
    return [path[:length] for length in range(1, len(path) + 1)]


def _all_nodes(entries: Iterable[MapEntry]) -> list[MapPath]:
    """Of all maps on the ways to these entries, outer ones first."""
    return sorted({node for entry in entries for node in _nodes(entry.path[:-1])}, key=lambda node: (len(node), node))


def _clocks_attribute(path: MapPath) -> str:
    return CLOCKS_PREFIX + json.dumps(path, ensure_ascii=False)


_MAP = "~"
"""In place of a clock, and later than any: this is a map with entries of its own."""


def _clock(entry: MapEntry) -> str:
    """Compares as the writes do: by time, then a value before a removal, then by the value's hash."""
    assert entry.as_of is not None
    time = entry.as_of.astimezone(UTC).isoformat(timespec="microseconds")
    if entry.value is REMOVED:
        return time
    return f"{time} {hashlib.sha256(_spelled(entry.value).encode()).hexdigest()[:16]}"


def _spelled(value: Any) -> str:
    """One spelling of what DynamoDB takes for one value."""
    match value:
        case bool() | None | str():
            return repr(value)
        case int() | Decimal():
            return str(_ANY_NUMBER.normalize(Decimal(value)) or 0)
        case dict():
            return "{" + ",".join(f"{name!r}:{_spelled(value[name])}" for name in sorted(value)) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_spelled, value)) + "]"
        case set() | frozenset():
            return "(" + ",".join(sorted(map(_spelled, value))) + ")"
        case bytes() | bytearray():
            return repr(bytes(value))
    return repr(value)  # of no type of DynamoDB's: it is refused when it is sent


_ANY_NUMBER = Context(prec=1000)


def _bytes(path: Path, value: Any) -> int:
    name = path if isinstance(path, str) else path[-1]
    return 1 + len(name.encode()) + value_bytes(serialized(name, value))


def _latest(key: Key, entries: Iterable[MapEntry]) -> list[MapEntry]:
    """Of each path the write that wins. Raises ValueError for what can't be an entry, NotAMap for one in another."""
    latest: dict[tuple[str, ...], MapEntry] = {}
    for entry in entries:
        names = () if isinstance(entry.path, str) else entry.path
        if len(names) < 2 or not all(isinstance(name, str) and name for name in names):
            raise ValueError(f"{key}: {entry.path!r}: expected the names of an attribute and of an entry, at least")
        attribute = entry.path[0]
        if attribute in dict(key.attributes) or is_own(attribute):
            raise ValueError(f"{key}: {attribute} can't hold entries: it is part of the key, or the library's own")
        if entry.as_of is not None and entry.as_of.tzinfo is None:
            raise ValueError(f"{key}: {entry.as_of!r}: expected a time with its offset from UTC")
        before = latest.get(entry.path)
        if before is None or before.as_of is None or entry.as_of is None or _clock(before) <= _clock(entry):
            latest[entry.path] = entry
    for node in _all_nodes(latest.values()):
        if node in latest:
            raise NotAMap(key, node, "an entry", None)
    return sorted(latest.values(), key=lambda entry: entry.path)


def _requests(entries: Sequence[MapEntry]) -> Iterator[list[MapEntry]]:
    """As many together as an expression has room for."""
    request: list[MapEntry] = []
    for entry in entries:
        more = [*request, entry]
        nodes = len(_all_nodes(more))
        characters = sum(32 + 5 * (len(each.path) - 2) for each in more) + 40 * nodes
        if request and (2 * len(more) + 8 * nodes > _OPERATORS or characters > _CHARACTERS):
            yield request
            more = [entry]
        request = more
    if request:
        yield request


class _Recent:
    """How deep the maps of a path were there of late: two surprises in a row change the mind, one doesn't.

    For the thousand paths used last; shared by threads. A wrong guess costs a request, no more.
    """

    def __init__(self) -> None:
        self._depths: OrderedDict[tuple[str, MapPath], tuple[int, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def depth(self, which: tuple[str, MapPath]) -> int:
        return self._depths.get(which, (len(which[1]), False))[0]

    def learn(self, which: tuple[str, MapPath], depth: int) -> None:
        with self._lock:
            expected, doubted = self._depths.get(which, (depth, False))
            if depth == expected:
                self._depths[which] = depth, False
            else:
                self._depths[which] = (depth, False) if doubted else (expected, True)
            self._depths.move_to_end(which)
            if len(self._depths) > 1000:
                self._depths.popitem(last=False)


_recent = _Recent()


def _expected_depth(strategy: Strategy, table: str, path: MapPath) -> int:
    match strategy:
        case Strategy.ENTRY_FIRST:
            return len(path)
        case Strategy.ATTRIBUTE_FIRST:
            return 0
        case Strategy.ADAPTIVE:
            return _recent.depth((table, path))
