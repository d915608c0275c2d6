"""Replays every account's journal, nightly, and reports where it isn't what the account says.

Its report is an item of the locks' table, written together with the window's completion: once, whatever happens.
"""

import gc

gc.disable()  # what an import makes is no garbage: looking for some takes a twelfth of the start-up

import logging
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Item, Put, dynamodb_client, key
from conditional_writes.jobs import Job, Step
from conditional_writes.locks import Locks
from ledger.reconciling import Reconciliation

ACCOUNTS_PER_STEP = 25
"""Checked between one place kept and the next."""
FIRST_MISMATCHES = 20
"""In the report; all of them are in the log."""
KEPT_SECONDS = 400 * 24 * 3600

LOCKS_TABLE = os.environ["LOCKS_TABLE"]

logger = Logger()
metrics = Metrics()
client = dynamodb_client()
reconciliation = Reconciliation(client, os.environ["ACCOUNTS_TABLE"], os.environ["JOURNAL_TABLE"])

logging.getLogger("botocore").setLevel(logging.WARNING)  # or each cold start tells where it found its credentials
gc.freeze()  # what was imported stays: no collection looks at it again
gc.enable()


def reconcile(scheduled_time: datetime, place: Item | None) -> Iterator[Step]:
    """Step by step from the place kept, which has the counts so far, too."""
    place = place or {"after": None, "accounts_checked": 0, "mismatches": 0, "first_mismatches": []}
    after: str | None = place["after"]
    while True:
        accounts, after = reconciliation.accounts(after, ACCOUNTS_PER_STEP)
        mismatches = reconciliation.check(accounts)
        for mismatch in mismatches:
            about = {"account_id": mismatch.account_id, "what": mismatch.what, "account_version": mismatch.version}
            logger.error("mismatch", extra=about | {"reason": mismatch.sentence})
        metrics.add_metric("AccountsChecked", MetricUnit.Count, len(accounts))
        metrics.add_metric("Mismatches", MetricUnit.Count, len(mismatches))
        sentences = [f"{mismatch.account_id}: {mismatch.what}: {mismatch.sentence[:300]}" for mismatch in mismatches]
        place = {
            "after": after,
            "accounts_checked": int(place["accounts_checked"]) + len(accounts),
            "mismatches": int(place["mismatches"]) + len(mismatches),
            "first_mismatches": [*place["first_mismatches"], *sentences][:FIRST_MISMATCHES],
        }
        if after is None:
            yield Step(place, [_report(scheduled_time, place)], last=True)
            return
        yield Step(place)


def _report(scheduled_time: datetime, place: Item) -> Put:
    item = {name: value for name, value in place.items() if name != "after"} | {
        "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "expires_at": int(time.time()) + KEPT_SECONDS,
    }
    return Put(key(LOCKS_TABLE, lock_key=f"reconcile_accounts {scheduled_time.isoformat()}"), item)


job = Job("reconcile_accounts", reconcile, Locks(client, LOCKS_TABLE), logger, metrics)


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return job.run(event, context)
