"""Replays every account's journal, nightly, and reports each mismatch between a journal and its account.

The report is an item of the locks' table. It commits together with the completion of its scheduled time, so each
scheduled time has exactly one report.
"""

from workers import cold_start  # isort: split

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Item, Put, dynamodb_client, key
from conditional_writes.locks import Locks
from ledger.account_pages import account_page
from ledger.reconciler import Reconciler
from ledger.tables import LedgerTables
from workers.logs import function_logger
from workers.scheduled_jobs import Job, Step

ACCOUNTS_PER_STEP = 25
"""Checked between two checkpoints."""
FIRST_MISMATCHES = 20
"""The number of mismatches in the report. The log has all of them."""
REPORT_SECONDS = 400 * 24 * 3600
"""How long a report stays, until DynamoDB's TTL removes it."""

LOCKS_TABLE = os.environ["LOCKS_TABLE"]

logger = function_logger()
metrics = Metrics()
client = dynamodb_client()
tables = LedgerTables(os.environ["ACCOUNTS_TABLE"], os.environ["JOURNAL_TABLE"])
reconciler = Reconciler(client, tables)


def reconcile(scheduled_time: datetime, checkpoint: Item | None) -> Iterator[Step]:
    """A page of accounts a step. The checkpoint has the last account, and the report's fields so far."""
    counts = checkpoint or {"after": None, "accounts_checked": 0, "mismatches": 0, "first_mismatches": []}
    after: str | None = counts["after"]
    while True:
        accounts, after = account_page(client, tables.accounts, after, ACCOUNTS_PER_STEP)
        mismatches = reconciler.check(accounts)
        for mismatch in mismatches:
            about = {"account_id": mismatch.account_id, "what": mismatch.what, "account_version": mismatch.version}
            logger.error("mismatch", extra=about | {"reason": mismatch.sentence})
        metrics.add_metric("AccountsChecked", MetricUnit.Count, len(accounts))
        metrics.add_metric("Mismatches", MetricUnit.Count, len(mismatches))
        sentences = [f"{mismatch.account_id}: {mismatch.what}: {mismatch.sentence[:300]}" for mismatch in mismatches]
        counts = {
            "after": after,
            "accounts_checked": int(counts["accounts_checked"]) + len(accounts),
            "mismatches": int(counts["mismatches"]) + len(mismatches),
            "first_mismatches": [*counts["first_mismatches"], *sentences][:FIRST_MISMATCHES],
        }
        if after is None:
            yield Step(counts, [_report(scheduled_time, counts)], last=True)
            return
        yield Step(counts)


def _report(scheduled_time: datetime, counts: Item) -> Put:
    item = {name: value for name, value in counts.items() if name != "after"} | {
        "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "expires_at": int(time.time()) + REPORT_SECONDS,
    }
    return Put(key(LOCKS_TABLE, lock_key=f"reconcile_accounts {scheduled_time.isoformat()}"), item)


job = Job("reconcile_accounts", reconcile, Locks(client, LOCKS_TABLE), logger, metrics)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return job.run(event, context)
