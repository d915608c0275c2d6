"""An upsert's requests: each sets entries of one item by one Update, planned from the item, or from what is assumed.

The first request assumes how many of the maps around its entries exist. If DynamoDB refuses it, the item that comes
back shows the truth, and the next request is planned from that.
"""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import ClientError

from conditional_writes.core.items import Item, Key, item_bytes, no_key
from conditional_writes.core.loop import Observed, Plan, write
from conditional_writes.core.own_attributes import REMOVED_BYTES, VERSION_ID
from conditional_writes.core.requests import exists, more_than
from conditional_writes.core.steps import Deadline, Steps, blocking, deadline_or_default, steps
from conditional_writes.upserts.clocks import (
    MAP_MARK,
    Standing,
    clocks_attribute,
    is_erased,
    standing,
    time_text,
    value_at,
    winning,
)
from conditional_writes.upserts.edit import Edit, check_size
from conditional_writes.upserts.entries import (
    REMOVED,
    MapEntry,
    MapPath,
    in_requests,
    in_requests_from_any_on,
    maps_along,
)
from conditional_writes.upserts.erasing import erase_up_to
from conditional_writes.upserts.errors import MAXIMUM_UPSERTED_BYTES, ItemTooLarge
from conditional_writes.upserts.reshape import bytes_in_the_end, reshaped
from conditional_writes.upserts.tidying import (
    MOST_REMOVED_BYTES,
    Tidied,
    clock_bytes,
    removed_bytes,
    tidied,
)

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

MAXIMUM_PATHS = 1_000
"""The paths whose depths are remembered."""


class RecentDepths:
    """How many maps of a path existed in recent upserts.

    The first upsert of a path sets the expectation. After it two surprises in a row change the expectation, one
    doesn't.

    Remembers the thousand paths that were used last. Threads share the object: a wrong expectation costs one request.
    """

    def __init__(self) -> None:
        self._depths: OrderedDict[tuple[str, MapPath], tuple[int, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def expected(self, table: str, path: MapPath) -> int:
        """All maps, unless something else was learned."""
        depth, _ = self._depths.get((table, path), (len(path), False))
        return depth

    def learn(self, table: str, path: MapPath, depth: int) -> None:
        with self._lock:
            expected, surprised = self._depths.get((table, path), (depth, False))
            if depth == expected or surprised:
                self._depths[table, path] = depth, False
            else:
                self._depths[table, path] = expected, True
            self._depths.move_to_end((table, path))
            if len(self._depths) > MAXIMUM_PATHS:
                self._depths.popitem(last=False)


recent_depths = RecentDepths()


class Progress(NamedTuple):
    """The entries that are done with one more request. `conflicts` counts the refused requests before it.

    An entry is superseded if the item has the same write, or a later one in the entry's place, around it or inside of
    it. The item is as if they had arrived in the other order. Of several entries with one path only the latest is
    named.
    """

    written: Sequence[MapEntry]
    superseded: Sequence[MapEntry]
    conflicts: int


class UpsertInRequests:
    """Does the same as `upsert`, with its parameters, and iterates over a Progress after each request.

    Its entries are done, even if a later request fails. An upsert of several requests begins with a random one of them.
    So a repetition gets further, even if most requests fail. `pending` has the entries of each request that is left.
    """

    def __init__(  # noqa: PLR0913 (the parameters of an upsert)
        self,
        client: "DynamoDBClient",
        key: Key,
        entries: Iterable[MapEntry],
        *,
        version_attribute: str | None = None,
        fields: Mapping[str, Any] = {},
        forget_after: timedelta | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        if not isinstance(key, Key):
            raise no_key(key)
        latest = winning(key, entries)
        if any(entry.path[:1] == (version_attribute,) for entry in latest):
            raise ValueError(f"{key}: {version_attribute} can't hold entries: it is the version")
        if held := sorted({entry.path[0] for entry in latest if entry.path} & fields.keys()):
            raise ValueError(f"{key}: {held[0]} can't hold entries: it is part of the key")
        self._client, self._deadline = client, deadline_or_default(deadline)
        self._planner = _Planner(key, version_attribute, fields, _forgotten_before(forget_after))
        self.pending = in_requests_from_any_on(latest)

    def __iter__(self) -> Iterator[Progress]:
        while self.pending:
            yield self.next_request()

    @blocking
    def next_request(self) -> Steps[Progress]:
        """Makes a request with entries that fit into one, which are then no more pending."""
        key, plan = self._planner.key, partial(self._planner.plan, self.pending)
        try:
            written = yield from steps(write)(self._client, plan, {}, self._deadline)
        except ClientError as error:
            if "Item size" in error.response["Error"].get("Message", ""):
                raise ItemTooLarge(key, None) from error
            raise
        done = written.result
        for path, depth in done.depths.items():
            recent_depths.learn(key.table, path, depth)
        paths = {entry.path for entry in (*done.written, *done.superseded)}
        rests = ([entry for entry in request if entry.path not in paths] for request in self.pending)
        self.pending = [rest for rest in rests if rest]
        return Progress(done.written, done.superseded, written.conflicts)


def now() -> datetime:
    return datetime.now(UTC)


def _forgotten_before(age: timedelta | None) -> str | None:
    """The time, as in a clock, before which removals are forgotten. None: all are kept. Raises ValueError."""
    if age is not None and not (isinstance(age, timedelta) and age >= timedelta(0)):
        raise ValueError(f"forget_after: {age!r}, expected a timedelta of 0 or more")
    try:
        return None if age is None else time_text(now() - age)
    except OverflowError:  # longer ago than any time
        return None


class _Done(NamedTuple):
    """The entries that the request writes, and those that are superseded, as the item shows that came back before it.

    `depths` has how many maps of each path existed.
    """

    written: Sequence[MapEntry]
    superseded: Sequence[MapEntry] = ()
    depths: Mapping[MapPath, int] = {}


class _Planner(NamedTuple):
    """The parameters of an upsert, from which each of its requests is planned.

    Removals before `forget_before`, a time as in a clock, are forgotten. None: all are kept.
    """

    key: Key
    version_attribute: str | None
    fields: Mapping[str, Any]
    forget_before: str | None

    def plan(self, pending: Sequence[Sequence[MapEntry]], observed: Observed) -> Plan[_Done]:
        """One request. As long as the item is unknown, it is the first pending one; else any entries that fit.

        If the item is too untidy, or seems full, the request tidies it, and writes no entry. An erasure goes first, and
        takes entries along. Raises NotAMap, NotAnEntry and ItemTooLarge.
        """
        if self.key not in observed:
            request = pending[0]
            return self._fitting(request, self._assumed(request)) if request[0].path else self._erasing(request, {})
        item, entries = observed[self.key] or {}, list(itertools.chain(*pending))
        erasures = [entry for entry in entries if not entry.path]
        if erasures and not is_erased(item, erasures[0]):
            return self._erasing([*erasures, *(entry for entry in entries if entry.path)], item)
        by_standing: dict[Standing, list[MapEntry]] = {each: [] for each in Standing}
        for entry in entries:
            by_standing[standing(self.key, entry, item)].append(entry)
        superseded, fitting = by_standing[Standing.SUPERSEDED], by_standing[Standing.FITS]
        if len(superseded) == len(entries):
            return Plan(_Done([], superseded))
        if self.forget_before is not None and item.get(REMOVED_BYTES, 0) > MOST_REMOVED_BYTES:
            return self._tidying(tidied(item, self.forget_before), superseded)
        try:
            if fitting:
                return self._fitting(next(in_requests(fitting)), item, superseded)
            return self._reshaping(by_standing[Standing.RESHAPES], item, superseded)
        except ItemTooLarge:
            if self.forget_before is None or (tidy := tidied(item, self.forget_before)).edit.is_empty:
                raise
            return self._tidying(tidy, superseded)

    def _assumed(self, request: Sequence[MapEntry]) -> Item:
        """An item with as many of the maps around each entry as existed lately, and with their clocks."""
        item: Item = {}
        for path in {entry.path[:-1] for entry in request}:
            inside = item
            for map_path in maps_along(path)[: recent_depths.expected(self.key.table, path)]:
                inside = inside.setdefault(map_path[-1], {})
                item.setdefault(clocks_attribute(map_path), {})
                if len(map_path) > 1:
                    item[clocks_attribute(map_path[:-1])][map_path[-1]] = MAP_MARK
        return item

    def _fitting(self, request: Sequence[MapEntry], found: Item, superseded: Sequence[MapEntry] = ()) -> Plan[_Done]:
        edit = Edit(found)
        edit.fit(request)
        removed = [entry.path[-1] for entry in request if entry.value is REMOVED]
        if removed and self.forget_before is not None:  # a request with removals asserts that the item is tidy
            edit.added[REMOVED_BYTES] = clock_bytes(removed)
            edit.forbid((REMOVED_BYTES,), more_than(REMOVED_BYTES, MOST_REMOVED_BYTES))
        depths = {path: _depth(found, path) for path in {entry.path[:-1] for entry in request}}
        return self._planned(_Done(request, superseded, depths), edit)

    def _reshaping(self, entries: Sequence[MapEntry], item: Item, superseded: Sequence[MapEntry]) -> Plan[_Done]:
        edit, written, in_parts, unfinished = reshaped(self.key, entries, Edit(item))
        if unfinished is not None:  # nothing may be dropped for an entry that has no room in the end
            check_size(self.key, bytes_in_the_end(unfinished, item))
        if self.forget_before is not None:
            # Of each the clock of a removal may stay, or a floor.
            edit.added[REMOVED_BYTES] = clock_bytes(entry.path[-1] for entry in (*written, *in_parts))
        return self._planned(_Done(written, [*superseded, *in_parts]), edit)

    def _erasing(self, request: Sequence[MapEntry], item: Item) -> Plan[_Done]:
        """The request's first entry is an erasure. What doesn't fit beside it is written by the next request.

        If there is too much to drop for one request, this one has no mark, and the next one goes on.
        """
        erasure, *entries = request
        edit, written, earlier = Edit(item), list[MapEntry](), list[MapEntry]()
        assert erasure.as_of is not None
        if erase_up_to(edit, time_text(erasure.as_of), self._kept_by_erasures()):
            clocked = [entry for entry in entries if entry.as_of is not None]
            with_it, written, earlier, _ = reshaped(self.key, clocked, edit)
            if item_bytes(with_it.item) <= MAXIMUM_UPSERTED_BYTES:
                edit = with_it
            else:
                written, earlier = [], []
            written = [erasure, *written]
        if not item:
            name, _ = self.key.attributes[0]
            edit.forbid((name,), exists(name))
        if REMOVED_BYTES in item or self.forget_before is not None:
            edit.put((REMOVED_BYTES,), removed_bytes(edit))
        return self._planned(_Done(written, earlier), edit)

    def _kept_by_erasures(self) -> list[str]:
        version = [self.version_attribute, VERSION_ID] if self.version_attribute else []
        return [*dict(self.key.attributes), *self.fields, *version]

    def _tidying(self, tidy: Tidied, superseded: Sequence[MapEntry]) -> Plan[_Done]:
        """Others may set entries at the same time. Of several that tidy the item one succeeds."""
        edit, forgotten_bytes, needed_bytes = tidy
        edit.expect_as_found((REMOVED_BYTES,))
        counted = int(edit.found.get(REMOVED_BYTES, 0))
        edit.added[REMOVED_BYTES] = -forgotten_bytes if needed_bytes is None else -counted - needed_bytes
        return self._planned(_Done([], superseded), edit)

    def _planned(self, done: _Done, edit: Edit) -> Plan[_Done]:
        return Plan(done, [edit.update(self.key, self.version_attribute)._replace(defaults=self.fields)])


def _depth(item: Item, path: MapPath) -> int:
    """How many of the maps along the path exist."""
    return sum(isinstance(value_at(item, each), dict) for each in maps_along(path))
