"""Checks every account against its journal, nightly, and reports each mismatch between the two.

Each night costs the entries of the day, and the whole journals of a thirtieth of the accounts: `ledger/checkpoints.py`.
A message with `"whole": true` replays all journals whole. An account that is too large, too slow or unreadable is
skipped, and named in the report.

The report is an item of the locks' table: each scheduled time has one. Its root is an object of a bucket, too, if the
variable LEDGER_ROOTS_BUCKET names one.
"""

from workers import cold_start  # isort: split

import os
from collections.abc import Iterator, Sequence
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import dynamodb_client
from conditional_writes.locks import Locks
from ledger.checkpoints import Checkpoints, Roots
from ledger.nightly import Gone, NightlyCheck, Tally
from ledger.published_roots import PublishedRoots
from ledger.reconciler import Checked, Mismatched, Reconciler, Skipped
from ledger.tables import LedgerTables
from workers.logs import function_logger
from workers.scheduled_jobs import Job, JobQueue, Run, Step

ACCOUNTS_PER_STEP = 100
"""The most that are checked between two checkpoints of the run."""

logger = function_logger()
metrics = Metrics()
client = dynamodb_client()
tables = LedgerTables(os.environ["ACCOUNTS_TABLE"], os.environ["JOURNAL_TABLE"], os.environ["REVERSALS_TABLE"])
reconciler, checkpoints = Reconciler(client, tables), Checkpoints(client, os.environ["CHECKPOINTS_TABLE"])
locks = Locks(client, os.environ["LOCKS_TABLE"])
roots = Roots(client, checkpoints.table, locks.table)
double_entry = os.environ["DOUBLE_ENTRY"] == "on"
bucket = os.environ.get("LEDGER_ROOTS_BUCKET")
published = PublishedRoots.of(bucket) if bucket else None


def reconcile(run: Run) -> Iterator[Step]:
    check = NightlyCheck(reconciler, checkpoints, roots, tell, ACCOUNTS_PER_STEP, double_entry, published)
    return check.steps(run)


def tell(checked: Sequence[Checked | Gone], tally: Tally) -> None:
    """Logs each mismatch and each skipped account, and counts the accounts in metrics."""
    for account in checked:
        match account:
            case Mismatched():
                for mismatch in account.mismatches:
                    of = {"account_id": mismatch.account_id, "account_version": mismatch.version}
                    logger.error("mismatch", extra=of | {"what": mismatch.what, "reason": mismatch.sentence})
            case Gone(what, sentence):
                logger.error("mismatch", extra={"what": what, "reason": sentence})
            case Skipped(account_id, reason):
                logger.error("skipped", extra={"account_id": account_id, "reason": reason})
    metrics.add_metric("AccountsChecked", MetricUnit.Count, tally.accounts_checked)
    metrics.add_metric("AccountsSkipped", MetricUnit.Count, tally.accounts_skipped)
    metrics.add_metric("Mismatches", MetricUnit.Count, tally.mismatches)
    if tally.mismatches or tally.accounts_skipped:
        metrics.flush_metrics()  # for the alarms: an invocation that is killed later emits no metrics


job = Job("reconcile_accounts", reconcile, locks, JobQueue.from_environment(), logger, metrics)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return job.process(event, context)
