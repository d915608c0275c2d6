"""Items in the order in which DynamoDB keeps them: by a hash of the partition's key, then by the sort key."""

import zlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from conditional_writes.testing.values import Item, Scalar, number_text

type Place = tuple[Any, ...]
"""An item's place in the order: the partition's hash, its key, the sort key; in an index the item's own place last."""

POSITIONS = 2**32


def position(partition: Scalar) -> int:
    """A partition's place in a scan, from 0 to 2**32 - 1. DynamoDB's own is its secret; this one is the same always."""
    if isinstance(partition, Decimal):
        partition = number_text(partition)  # of 1 and 1.0, which are one key
    return zlib.crc32(partition if isinstance(partition, bytes) else partition.encode())


class Store:
    """Items by their places. It is copied in no time worth a word, because items are never changed in place."""

    def __init__(self, items: dict[Place, Item] | None = None, places: list[Place] | None = None) -> None:
        self.items, self._places = items or {}, places or []

    def copy(self) -> "Store":
        return Store(self.items.copy(), self._places.copy())

    def put(self, place: Place, item: Item) -> None:
        if place not in self.items:
            insort(self._places, place)
        self.items[place] = item

    def remove(self, place: Place) -> None:
        if self.items.pop(place, None) is not None:
            del self._places[bisect_left(self._places, place)]

    def partition(
        self, partition: Scalar, bounds: tuple[Scalar | None, Scalar | None], after: Place | None, *, forward: bool
    ) -> Iterator[tuple[Place, Item]]:
        """The partition's items between two sort keys, None for no bound, and after this place in their order."""
        whole: Place = (position(partition), partition)
        lowest, highest = bounds
        first = bisect_left(self._places, whole if lowest is None else (*whole, lowest))
        last = bisect_right(self._places, (*whole, _Last()) if highest is None else (*whole, highest, _Last()))
        if after is not None and forward:
            first = max(first, bisect_right(self._places, after))
        elif after is not None:
            last = min(last, bisect_left(self._places, after))
        numbers = range(first, last) if forward else range(last - 1, first - 1, -1)
        for number in numbers:
            place = self._places[number]
            yield place, self.items[place]

    def segment(self, lowest: int, highest: int, after: Place | None) -> Iterator[tuple[Place, Item]]:
        """The items of the partitions from one position to before another."""
        first = bisect_left(self._places, (lowest,))
        if after is not None:
            first = max(first, bisect_right(self._places, after))
        for number in range(first, bisect_left(self._places, (highest,))):
            place = self._places[number]
            yield place, self.items[place]


class _Last:
    """Comes after everything."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True
