"""A batch of profile updates, delivered until the queue is empty."""

import contextlib
import itertools
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from conditional_writes.core.items import from_dynamodb
from conditional_writes.upserts import plan
from ledger.core.profile_messages import decode
from tests.checkers.profiles import latest, read_profiles, violations
from tests.faults.scenarios import ScenarioResult
from tests.faults.scenarios.queues import FOR_EVER, competing_worker_first, deliver_until_quiet, wrongly_queued
from tests.support.faults import FaultsAt, one_call_at_a_time
from tools.local_aws.functions import Queue, invoke, record, upsert_profiles
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table, refill, scan

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SENT_AT = START + timedelta(seconds=9)
"""The time of entries without `as_of`."""

_numbers = itertools.count(1)


def update(account_id: str, path: str, seconds: float | None, *removed: str, **entries: Any) -> dict[str, Any]:
    body = {"account_id": account_id, "path": path.split("."), "entries": entries, "removed": removed}
    return body if seconds is None else body | {"as_of": (START + timedelta(seconds=seconds)).isoformat()}


def erase(account_id: str, seconds: float | None) -> dict[str, Any]:
    body = {"type": "erase_profile", "account_id": account_id}
    return body if seconds is None else body | {"as_of": (START + timedelta(seconds=seconds)).isoformat()}


class Upserting:
    """Upserts `batch` after `existing`. `dead` has the bodies that can never be upserted.

    A competing worker upserts the `competing` messages after this worker's first call.
    """

    def __init__(
        self,
        aws: Endpoint,
        dynamodb: Endpoint,
        existing: Sequence[object],
        batch: Sequence[object],
        dead: Sequence[str],
        *,
        competing: Sequence[object] = (),
    ) -> None:
        self._aws, self._dynamodb, self._batch, self._dead = aws, dynamodb, batch, dead
        self._competing_messages = competing
        self._table = create_profiles_table(dynamodb, f"upserting-scenario-{next(_numbers)}")
        settings = {"RETENTION_SECONDS": FOR_EVER, "POWERTOOLS_LOG_LEVEL": "CRITICAL"}
        self._function = upsert_profiles(aws, self._table, dynamodb, **settings)
        same = {"ATTEMPTS_TABLE": self._function.attempts.table}
        self._competing_worker = upsert_profiles(aws, self._table, dynamodb, **settings, **same)
        recent = plan.RecentDepths()
        with mock.patch.object(plan, "recent_depths", recent):
            assert not invoke(self._function, map(record, existing))
        self._learned = dict(recent._depths)
        self._existing = list(scan(dynamodb, self._table))
        bodies = [one if isinstance(one, str) else json.dumps(one) for one in (*existing, *batch, *competing)]
        self._latest = latest((decode(body), SENT_AT) for body in bodies if body not in dead)

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        refill(self._dynamodb, self._table, self._existing)
        refill(self._dynamodb, self._function.attempts.table)
        queue = Queue([record(message, sent_at=SENT_AT) for message in self._batch])
        client = self._function.writer.client
        recent = plan.RecentDepths()  # The depths that a process has learned decide the number of its requests.
        recent._depths.update(self._learned)
        with contextlib.ExitStack() as stack:
            stack.enter_context(
                one_call_at_a_time()
            )  # else the first call, before which others upsert, is any profile's
            stack.enter_context(mock.patch.object(plan, "recent_depths", recent))
            stack.enter_context(mock.patch("conditional_writes.upserts.entries.random", random.Random(1)))
            if self._competing_messages:
                records = [record(message, sent_at=SENT_AT) for message in self._competing_messages]
                stack.enter_context(competing_worker_first(client, "UpdateItem", self._competing_worker, records))
            deliver_until_quiet(self._function, queue, faults, client, self._function.worker.queue.client)
        letters = take_dead_letters(self._aws, self._function.worker.queue.dead_letter_url)
        wrong = [*violations(read_profiles(self._dynamodb, self._table), self._latest)]
        return ScenarioResult(faults, self._left(), wrong + wrongly_queued(queue, letters, self._dead))

    def _left(self) -> dict[str, Any]:
        """The profiles with their clocks, without the attributes of the last write."""
        items = map(from_dynamodb, scan(self._dynamodb, self._table))
        marks = {"cw:write_id", "cw:item_bytes", "cw:removed_bytes"}
        return {item["account_id"]: {name: item[name] for name in item if name not in marks} for item in items}
