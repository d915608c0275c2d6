"""A night's reconciliation, run until it is done, and then again: the first night, or one after entries and damage."""

from collections.abc import Sequence
from typing import Any

from ledger.checkpoints import RECORD
from ledger.core.accounts import Account
from tests.faults.scenarios import ScenarioResult
from tests.faults.scenarios.scheduled import LEASE_SECONDS, run_until_done
from tests.support.faults import FaultsAt
from tests.support.ledger import Ledger
from tools.local_aws.functions import run_job
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import refill, scan

BEFORE, NIGHT = "2026-02-28T02:00:00+00:00", "2026-03-01T02:00:00+00:00"
EVENT: dict[str, Any] = {"job": "reconcile_accounts", "scheduled_time": NIGHT, "force": True}
REPORT = f"reconcile_accounts {NIGHT}"


class Reconciling:
    """Reconciles the books that these messages make. Each account must be counted once, in one report.

    If messages are `added`, the books were reconciled the night before. Since then these messages were posted, and the
    balance of the account `damaged` was changed. In the end the checkpoints are those of the sound accounts.
    """

    def __init__(
        self,
        aws: Endpoint,
        dynamodb: Endpoint,
        messages: Sequence[Any],
        *,
        accounts: int,
        accounts_per_step: int,
        added: Sequence[Any] = (),
        damaged: str | None = None,
    ) -> None:
        self._accounts, self._damaged = accounts, damaged
        self._ledger = ledger = Ledger(aws, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
        ledger.post(*messages)
        self._function = ledger.job("reconcile_accounts", POWERTOOLS_LOG_LEVEL="CRITICAL")
        self._function.ACCOUNTS_PER_STEP = accounts_per_step
        if added:
            run_until_done(self._function, EVENT | {"scheduled_time": BEFORE}, FaultsAt({}))
            ledger.post(*added)
        if damaged:
            ledger.change_account(damaged, balance=777)
        self._checkpoints_before = list(scan(dynamodb, ledger.tables.checkpoints))
        assert bool(added) == bool(self._checkpoints_before)

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        self._ledger.forget_all_runs()
        refill(self._ledger.dynamodb, self._ledger.tables.checkpoints, self._checkpoints_before)
        outcome, clock = run_until_done(self._function, EVENT, faults, self._function.client)
        records = self._records()
        wrong = [] if outcome in {"Done", "DoneBefore"} else [f"the job ended with {outcome!r}"]
        if records.keys() == {REPORT, EVENT["job"], RECORD}:
            wrong += [] if records[RECORD]["root"] == records[REPORT]["root"] else ["another root is newest"]
            wrong += self._wrong_report(records[REPORT])
            wrong += _wrong_lock(records[EVENT["job"]])
        else:
            wrong.append(f"the Locks table has {sorted(records)}")
        wrong += self._wrong_checkpoints()
        clock.seconds += LEASE_SECONDS
        again = run_job(self._function, EVENT)
        wrong += [] if again == "DoneBefore" else [f"the repeated run ended with {again!r}"]
        wrong += [] if records == self._records() else [f"the repeated run left {self._records()}, not {records}"]
        return ScenarioResult(faults, sorted(records), wrong)

    def _records(self) -> dict[str, Any]:
        return {item["lock_key"]: item for item in self._ledger.items(self._ledger.locks_table)}

    def _wrong_report(self, report: dict[str, Any]) -> list[str]:
        found = [*report["first_mismatches"], *report["first_skipped"]]
        counted = (report["accounts_checked"], report["mismatches"], report["accounts_skipped"])
        expected = [self._damaged] if self._damaged else []
        is_right = [sentence.split(":")[0] for sentence in found] == expected
        is_right = is_right and counted == (self._accounts, len(expected), 0)
        return [] if is_right else [f"the report has {counted}, {found}"]

    def _wrong_checkpoints(self) -> list[str]:
        names = Account.__struct_fields__  # an account that never had a hold has none of theirs
        wanted, saved = (
            {item["account_id"]: {name: item.get(name) for name in names} for item in self._ledger.items(table)}
            for table in (self._ledger.tables.accounts, self._ledger.tables.checkpoints)
        )
        wanted.pop(self._damaged or "", None)
        return [] if saved == wanted else [f"the checkpoints are {saved}, not {wanted}"]


def _wrong_lock(record: dict[str, Any]) -> list[str]:
    wrong = [] if record.get("windows_done") == [NIGHT] else [f"the lock has the windows {record.get('windows_done')}"]
    left = record.keys() & {"owner", "leased_until", "checkpoint"}
    return wrong + ([f"the lock was released, but still has {sorted(left)}"] if left else [])
