"""A batch of profiles' entries, delivered until the queue is quiet."""

import contextlib
import itertools
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from conditional_writes.items import from_dynamodb
from conditional_writes.upserts import strategies
from ledger.core.profile_messages import decode
from tests.checkers.profiles import latest, read_profiles, violations
from tests.faults.scenarios import ScenarioResult
from tests.faults.scenarios.queues import competing_worker_first, deliver_until_quiet, wrongly_queued
from tests.support.faults import FaultsAt
from tools.local_aws.functions import Queue, invoke, record, upsert_profiles
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table, refill, scan

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SENT_AT = START + timedelta(seconds=9)
"""The time of entries that say none."""

_numbers = itertools.count(1)


def update(account_id: str, path: str, seconds: float | None, *removed: str, **entries: Any) -> dict[str, Any]:
    body = {"account_id": account_id, "path": path.split("."), "entries": entries, "removed": removed}
    return body if seconds is None else body | {"as_of": (START + timedelta(seconds=seconds)).isoformat()}


class Upserting:
    """Of `batch`, in which `dead` are the bodies that can never be upserted, where `there` was upserted before.

    With `competing` messages another worker upserts those after this one began.
    """

    def __init__(
        self,
        aws: Endpoint,
        dynamodb: Endpoint,
        there: Sequence[object],
        batch: Sequence[object],
        dead: Sequence[str],
        *,
        competing: Sequence[object] = (),
    ) -> None:
        self._aws, self._dynamodb, self._batch, self._dead = aws, dynamodb, batch, dead
        self._competing_messages = competing
        self._table = create_profiles_table(dynamodb, f"upserting-scenario-{next(_numbers)}")
        self._function, self._competing_worker = (
            upsert_profiles(aws, self._table, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL") for _ in range(2)
        )
        recent = strategies.RecentDepths()
        with mock.patch.object(strategies, "recent_depths", recent):
            assert not invoke(self._function, map(record, there))
        self._learned = dict(recent._depths)
        self._there = list(scan(dynamodb, self._table))
        bodies = [one if isinstance(one, str) else json.dumps(one) for one in (*there, *batch, *competing)]
        self._winners = latest((decode(body), SENT_AT) for body in bodies if body not in dead)

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        refill(self._dynamodb, self._table, self._there)
        queue = Queue([record(message, sent_at=SENT_AT) for message in self._batch])
        client = self._function.writer.client
        recent = strategies.RecentDepths()  # what a process learned of the maps decides how many requests it takes
        recent._depths.update(self._learned)
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(strategies, "recent_depths", recent))
            if self._competing_messages:
                records = [record(message, sent_at=SENT_AT) for message in self._competing_messages]
                stack.enter_context(competing_worker_first(client, "UpdateItem", self._competing_worker, records))
            deliver_until_quiet(self._function, queue, faults, client, self._function.worker.queue.client)
        letters = take_dead_letters(self._aws, self._function.worker.queue.dead_letter_url)
        wrong = [*violations(read_profiles(self._dynamodb, self._table), self._winners)]
        return ScenarioResult(faults, self._left(), wrong + wrongly_queued(queue, letters, self._dead))

    def _left(self) -> dict[str, Any]:
        """The profiles with their clocks, without the marks of which write was the last."""
        items = map(from_dynamodb, scan(self._dynamodb, self._table))
        marks = {"cw:write_id", "cw:item_bytes"}
        return {item["account_id"]: {name: item[name] for name in item if name not in marks} for item in items}
