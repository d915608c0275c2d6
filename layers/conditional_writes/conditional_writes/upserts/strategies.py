"""Strategies: how many maps the first request assumes to exist, and what earlier upserts found."""

import threading
from collections import OrderedDict
from enum import StrEnum

from conditional_writes.upserts.entries import MapPath

MAXIMUM_PATHS = 1_000
"""The paths whose depths are remembered."""


class Strategy(StrEnum):
    """The maps that the first request assumes to exist. If that is right, the upsert takes one request, else two."""

    ENTRY_FIRST = "entry_first"  # all maps exist
    ATTRIBUTE_FIRST = "attribute_first"  # no map exists
    ADAPTIVE = "adaptive"  # as in the last upserts of this path in this table


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


def expected_depth(strategy: Strategy, table: str, path: MapPath) -> int:
    """How many maps along the path the first request assumes to exist."""
    match strategy:
        case Strategy.ENTRY_FIRST:
            return len(path)
        case Strategy.ATTRIBUTE_FIRST:
            return 0
        case Strategy.ADAPTIVE:
            return recent_depths.expected(table, path)
