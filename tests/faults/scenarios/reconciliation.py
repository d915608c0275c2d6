"""A reconciliation of sound books, run until it is done, and then once more."""

import itertools
from collections.abc import Sequence
from typing import Any

from conditional_writes.items import from_dynamodb
from tests.checkers.windows import lock_of
from tests.faults.scenarios import ScenarioResult
from tests.faults.scenarios.scheduled import LEASE_SECONDS, run_until_done
from tests.support.faults import FaultsAt
from tools.local_aws.functions import Context, Queue, process_transactions, reconcile_accounts, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table, create_tables, refill, scan

NIGHT = "2026-03-01T02:00:00+00:00"
EVENT = {"job": "reconcile_accounts", "scheduled_time": NIGHT}
REPORT = f"reconcile_accounts {NIGHT}"

_numbers = itertools.count(1)


class Reconciling:
    """Reconciles the books that these messages make. Each account must be counted once, in one report."""

    def __init__(
        self,
        aws: Endpoint,
        dynamodb: Endpoint,
        messages: Sequence[object],
        *,
        accounts: int,
        accounts_per_step: int,
        segments: int = 1,
    ) -> None:
        self._dynamodb, self._accounts = dynamodb, accounts
        prefix = f"reconciling-scenario-{next(_numbers)}"
        tables, self._locks_table = create_tables(dynamodb, prefix), create_locks_table(dynamodb, prefix)
        poster = process_transactions(aws, tables, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
        Queue(list(map(record, messages))).deliver_until_quiet(poster)
        self._function = reconcile_accounts(
            dynamodb, tables, self._locks_table, JOB_SEGMENTS=str(segments), POWERTOOLS_LOG_LEVEL="CRITICAL"
        )
        numbers = range(1, segments + 1)
        self._locks = {lock_of("reconcile_accounts", number, segments) for number in numbers}
        self._parts = {f"{REPORT} segment {number} of {segments}" for number in numbers}
        self._function.ACCOUNTS_PER_STEP = accounts_per_step

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        refill(self._dynamodb, self._locks_table)
        outcome, clock = run_until_done(self._function, EVENT, faults, self._function.client)
        records = self._records()
        wrong = [] if outcome in {"Done", "DoneBefore"} else [f"the job ended with {outcome!r}"]
        if records.keys() == {REPORT} | self._locks | self._parts:
            wrong += self._wrong_report(records[REPORT])
            wrong += [sentence for name in self._locks for sentence in _wrong_lock(records[name])]
        else:
            wrong.append(f"the Locks table has {sorted(records)}")
        clock.seconds += LEASE_SECONDS
        again = self._function.lambda_handler(EVENT, Context())["outcome"]
        wrong += [] if again == "DoneBefore" else [f"the repeated run ended with {again!r}"]
        wrong += [] if records == self._records() else [f"the repeated run left {self._records()}, not {records}"]
        return ScenarioResult(faults, sorted(records), wrong)

    def _records(self) -> dict[str, Any]:
        items = map(from_dynamodb, scan(self._dynamodb, self._locks_table))
        return {item["lock_key"]: item for item in items}

    def _wrong_report(self, report: dict[str, Any]) -> list[str]:
        found = (report["accounts_checked"], report["mismatches"], report["first_mismatches"])
        return [] if found == (self._accounts, 0, []) else [f"the report has {found}"]


def _wrong_lock(record: dict[str, Any]) -> list[str]:
    wrong = [] if record.get("windows_done") == [NIGHT] else [f"the lock has the windows {record.get('windows_done')}"]
    left = record.keys() & {"owner", "leased_until", "checkpoint"}
    return wrong + ([f"the lock was released, but still has {sorted(left)}"] if left else [])
