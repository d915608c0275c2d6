"""The plan of a request: entries of one item as one Update, made from the item's shape.

DynamoDB sets `a.b.c` only if `a.b` is a map. So the entries are set one by one in the maps that exist, and the highest
missing map is set whole, with its entries in it. A condition names each map that is assumed to exist or to be missing.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from conditional_writes.conditions import absent, is_map, more_than
from conditional_writes.items import Item, Key
from conditional_writes.loop import Observed, Plan
from conditional_writes.own_attributes import ITEM_BYTES, REMOVED_BYTES, VERSION_ID
from conditional_writes.requests import Update
from conditional_writes.sizes import MAXIMUM_UPSERTED_BYTES, item_bytes
from conditional_writes.upserts.clock_text import time_text
from conditional_writes.upserts.clocks import Standing, set_clocks, standing
from conditional_writes.upserts.draft import Draft
from conditional_writes.upserts.edit import Edit
from conditional_writes.upserts.entries import REMOVED, MapEntry, MapPath, is_erasure, maps_along, maps_of
from conditional_writes.upserts.erasing import erase_up_to
from conditional_writes.upserts.errors import ItemTooLarge
from conditional_writes.upserts.reshape import bytes_in_the_end, reshaped
from conditional_writes.upserts.room import check_size, count_bytes
from conditional_writes.upserts.shape import Shape, assumed_shape, observed_shape
from conditional_writes.upserts.splitting import in_requests
from conditional_writes.upserts.strategies import Strategy, expected_depth
from conditional_writes.upserts.tidying import MOST_REMOVED_BYTES, Tidied, clock_bytes, removed_bytes, tidied


class Done(NamedTuple):
    """The entries that the request writes, and those that are superseded, as the item shows that came back before it.

    `depths` has how many maps of each path existed.
    """

    written: Sequence[MapEntry]
    superseded: Sequence[MapEntry] = ()
    depths: Mapping[MapPath, int] = {}


class Planner(NamedTuple):
    """The parameters of an upsert, from which each of its requests is planned.

    Removals before `forget_before`, a time as in a clock, are forgotten. None: all are kept.
    """

    key: Key
    strategy: Strategy
    version_attribute: str | None
    forget_before: str | None

    def plan(self, pending: Sequence[Sequence[MapEntry]], observed: Observed) -> Plan[Done]:
        """One request. As long as the item is unknown, it is the first pending one; else any entries that fit.

        If the item is too untidy, or seems full, the request tidies it, and writes no entry. An erasure goes first, and
        takes entries along. Raises NotAMap, NotAnEntry and ItemTooLarge.
        """
        if self.key not in observed:
            return self._assuming(pending[0])
        item, entries = observed[self.key] or {}, list(itertools.chain(*pending))
        shape = observed_shape(entries, item)
        erasing = [entry for entry in entries if is_erasure(entry)]
        if erasing and standing(self.key, erasing[0], shape, item) is Standing.ERASES:
            return self._erasing([*erasing, *(entry for entry in entries if not is_erasure(entry))], item)
        standings = [(standing(self.key, entry, shape, item), entry) for entry in entries]
        superseded = [entry for found, entry in standings if found is Standing.SUPERSEDED]
        fitting = [entry for found, entry in standings if found is Standing.FITS]
        reshaping = [entry for found, entry in standings if found is Standing.RESHAPES]
        if not fitting and not reshaping:
            return Plan(Done([], superseded))
        if self.forget_before is not None and item.get(REMOVED_BYTES, 0) > MOST_REMOVED_BYTES:
            return self._tidying(tidied(item, self.forget_before), item, superseded)
        try:
            return self._fitting(fitting, shape, item, superseded) if fitting else self._reshaping(reshaping, item)
        except ItemTooLarge:
            if self.forget_before is None or (tidy := tidied(item, self.forget_before)).edit.is_empty:
                raise
            return self._tidying(tidy, item, superseded)

    def _assuming(self, request: Sequence[MapEntry]) -> Plan[Done]:
        if any(map(is_erasure, request)):
            return self._erasing(request, {})
        maps = {entry.path[:-1] for entry in request}
        depths = {path: expected_depth(self.strategy, self.key.table, path) for path in maps}
        return Plan(Done(request, (), depths), [self._update(request, assumed_shape(depths), None)])

    def _fitting(
        self, entries: Sequence[MapEntry], shape: Shape, item: Item, superseded: Sequence[MapEntry]
    ) -> Plan[Done]:
        request = next(in_requests(entries))
        depths = {entry.path[:-1]: shape.depth(entry.path[:-1]) for entry in request}
        return Plan(Done(request, superseded, depths), [self._update(request, shape, item)])

    def _update(self, entries: Sequence[MapEntry], shape: Shape, item: Item | None) -> Update:
        draft = Draft()
        _set_entries(draft, entries, shape)
        set_clocks(draft, entries, shape)
        if self.forget_before is not None:
            self._count_removed(draft, entries)
        count_bytes(draft, self.key, item)
        return self._versioned(draft)

    def _count_removed(self, draft: Draft, entries: Sequence[MapEntry]) -> None:
        """A request with removals asserts that the item is tidy."""
        removed = [entry.path[-1] for entry in entries if entry.value is REMOVED]
        if removed:
            draft.added[REMOVED_BYTES] = clock_bytes(removed)
            draft.forbidden.append(more_than(REMOVED_BYTES, MOST_REMOVED_BYTES))

    def _erasing(self, request: Sequence[MapEntry], item: Item) -> Plan[Done]:
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
        draft = edit.draft()
        if not item:
            draft.required.append(absent(self.key.attributes[0][0]))
        draft.values[ITEM_BYTES] = item_bytes(edit.item | dict(self.key.attributes))
        if REMOVED_BYTES in item or self.forget_before is not None:
            draft.values[REMOVED_BYTES] = removed_bytes(edit)
        return Plan(Done(written, earlier), [self._versioned(draft)])

    def _kept_by_erasures(self) -> list[str]:
        version = [self.version_attribute, VERSION_ID] if self.version_attribute else []
        return [*dict(self.key.attributes), *version]

    def _reshaping(self, entries: Sequence[MapEntry], item: Item) -> Plan[Done]:
        # The request expects the earlier clocks that it replaces. An erasure in between would have dropped those.
        edit, written, superseded, unfinished = reshaped(self.key, entries, Edit(item))
        if unfinished is not None:  # nothing may be dropped for an entry that has no room in the end
            check_size(self.key, bytes_in_the_end(unfinished, item))
        draft = edit.draft()
        if self.forget_before is not None:
            # Of each the clock of a removal may stay, or a floor.
            draft.added[REMOVED_BYTES] = clock_bytes(entry.path[-1] for entry in (*written, *superseded))
        count_bytes(draft, self.key, item)
        return Plan(Done(written, superseded), [self._versioned(draft)])

    def _tidying(self, tidy: Tidied, item: Item, superseded: Sequence[MapEntry]) -> Plan[Done]:
        """Others may set entries at the same time. Of several that tidy the item one succeeds."""
        edit, forgotten_bytes, needed_bytes = tidy
        edit.expect_as_found((REMOVED_BYTES,))
        draft, grown_bytes = edit.draft(), edit.grown_bytes
        counted = int(item.get(REMOVED_BYTES, 0))
        draft.added[REMOVED_BYTES] = -forgotten_bytes if needed_bytes is None else -counted - needed_bytes
        if ITEM_BYTES in item:
            draft.added[ITEM_BYTES] = grown_bytes
        return Plan(Done([], superseded), [self._versioned(draft)])

    def _versioned(self, draft: Draft) -> Update:
        if not self.version_attribute:
            return draft.update(self.key)
        draft.added[self.version_attribute] = 1
        return draft.update(self.key)._replace(makes_version=True)


def _set_entries(draft: Draft, entries: Sequence[MapEntry], shape: Shape) -> None:
    for path in maps_of(entries):
        if path in shape.maps:
            draft.required.append(is_map(path))
        elif len(path) == 1 or path[:-1] in shape.maps:
            draft.required.append(absent(path))
            draft.values[path] = {}
    for entry in entries:
        *outer, name = entry.path
        if tuple(outer) not in shape.maps:
            _set_in_missing_map(draft, entry)
        elif entry.value is REMOVED:
            draft.removed.append(entry.path)
        else:
            draft.values[*outer, name] = entry.value


def _set_in_missing_map(draft: Draft, entry: MapEntry) -> None:
    """Sets the entry inside of the highest missing map, and makes the maps between the two."""
    *outer, name = entry.path
    highest = next(path for path in maps_along(tuple(outer)) if path in draft.values)
    inside = draft.values[highest]
    for step in outer[len(highest) :]:
        inside = inside.setdefault(step, {})
    if entry.value is not REMOVED:
        inside[name] = entry.value
