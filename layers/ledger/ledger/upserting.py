"""Upserts profiles: all that a batch has for one of them in one request, and none is held up by another."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from conditional_writes import Deadline, key
from conditional_writes.client import CONNECTIONS
from conditional_writes.upserts import ItemTooLarge, NotAMap, NotAnEntry, upsert
from ledger.profiles import ProfileUpdate

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

type Result = Exception | None
"""What became of a delivery. None: what it says is in its profile, or something later. One of `UNFIT`: it doesn't fit
there. After any other exception it should come again."""

UNFIT = (NotAMap, NotAnEntry, ItemTooLarge)
"""What one message may say, and its profile has no place for."""


class Delivery(Struct, frozen=True):
    """A message, and when it was sent: its entries' time where it has none of its own."""

    update: ProfileUpdate
    sent_at: datetime


class Upserted(Struct):
    """A result for each delivery, in their order; of those that are done, how many entries were written, and how many
    superseded by a later one, or by the same; and how often another writer was first."""

    results: list[Result]
    written: int = 0
    superseded: int = 0
    conflicts: int = 0


class Profiles(Struct, frozen=True):
    """The table, and the way to it."""

    client: "DynamoDBClient"
    table: str

    def upsert(self, deliveries: Sequence[Delivery], deadline: Deadline) -> Upserted:
        """Upserts each delivery, whoever else is writing meanwhile: in any order, and again without harm.

        One request per profile and 100 entries. A profile that fails has its exception as the results.
        """
        profiles: dict[str, list[int]] = defaultdict(list)
        for index, delivery in enumerate(deliveries):
            profiles[delivery.update.account_id].append(index)

        def upsert_profile(indices: Sequence[int]) -> Upserted:
            return self._upsert_profile([deliveries[index] for index in indices], deadline)

        with ThreadPoolExecutor(min(len(profiles), CONNECTIONS) or 1) as pool:
            upserted = _sum(pool.map(upsert_profile, profiles.values()))
        results = dict(zip(itertools.chain(*profiles.values()), upserted.results, strict=True))
        upserted.results = [results[index] for index in range(len(deliveries))]
        return upserted

    def _upsert_profile(self, deliveries: Sequence[Delivery], deadline: Deadline) -> Upserted:
        """All together; where one of them doesn't fit, each by itself: only that one fails then."""
        profile = key(self.table, account_id=deliveries[0].update.account_id)
        entries = [entry for delivery in deliveries for entry in delivery.update.as_entries(delivery.sent_at)]
        try:
            done = upsert(self.client, profile, entries, deadline=deadline)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is this profile's alone)
            if len(deliveries) > 1 and isinstance(error, UNFIT):
                return _sum(self._upsert_profile([delivery], deadline) for delivery in deliveries)
            return Upserted([error] * len(deliveries))
        return Upserted([None] * len(deliveries), done.written, len(entries) - done.written, done.conflicts)


def _sum(parts: Iterable[Upserted]) -> Upserted:
    total = Upserted([])
    for part in parts:
        total.results += part.results
        total.written += part.written
        total.superseded += part.superseded
        total.conflicts += part.conflicts
    return total
