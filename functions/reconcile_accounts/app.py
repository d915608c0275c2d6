"""Checks every account against its journal, nightly, and reports each mismatch between the two.

Each night costs the entries of the day, and the whole journals of a thirtieth of the accounts: `ledger/checkpoints.py`.
An event with `"whole": true` replays all journals whole. An account that is too large, too slow or unreadable is
skipped, and named in the report.

The report is an item of the locks' table: each scheduled time has one, however many segments its run has.
"""

from workers import cold_start  # isort: split

import os
from collections.abc import Iterator, Sequence
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Item, dynamodb_client
from conditional_writes.locks import Locks
from ledger.account_pages import account_page
from ledger.checkpoints import Checkpoints
from ledger.long_journals import Position
from ledger.reconciler import LONGEST_ALONE_SECONDS, Checked, Night, Reconciler
from ledger.tables import LedgerTables
from workers.job_events import flag_of
from workers.logs import function_logger
from workers.scheduled_jobs import Job, Run, Step

ACCOUNTS_PER_STEP = 100
"""The most that are checked between two checkpoints of the run."""
FIRST = 20
"""The number of mismatches, and of skipped accounts, in the report. The log has all of them.

A sentence has 1,500 characters at most, a reason 1,000. With account ids of 2 KB, and 4 bytes for each character, the
report has 290 KB, of DynamoDB's 400.
"""

logger = function_logger()
metrics = Metrics()
client = dynamodb_client()
tables = LedgerTables(os.environ["ACCOUNTS_TABLE"], os.environ["JOURNAL_TABLE"], os.environ["REVERSALS_TABLE"])
reconciler = Reconciler(client, tables, Checkpoints(client, os.environ["CHECKPOINTS_TABLE"]))

START: Item = {
    "after": None,
    "alone": 0,
    "begun": None,
    "position": None,
    "kills": 0,
    "accounts_checked": 0,
    "accounts_replayed_whole": 0,
    "accounts_skipped": 0,
    "mismatches": 0,
    "first_mismatches": [],
    "first_skipped": [],
}
"""The first checkpoint of the run: the report's fields, and five that say how far the run has come.

`after` is the last account that was checked or skipped, `alone` how many of the next accounts are checked alone,
`begun` the account whose check alone has begun, `position` how far the replay of its journal has come if that is long,
and `kills` how often the function was killed since then.
"""
PLACE = ("after", "alone", "begun", "position", "kills")
MOST_KILLS = 2
"""An account is skipped when its check alone was killed so often. Once, any run may be killed."""


def reconcile(run: Run) -> Iterator[Step]:
    """A page of accounts a step, in parallel; or, if one of them needs more than its share, one account a step.

    The check of a long journal takes several steps.
    """
    night = _night_of(run)
    progress = START | (run.checkpoint or {})
    if run.after_kill:
        progress = _after_kill(progress)
        if progress != run.checkpoint:
            yield Step(progress)
    last = False
    while not last:
        if progress["alone"]:
            page = account_page(client, tables.accounts, run.segment, progress["after"], limit=1)
            begun = page.items[0]["account_id"] if page.items else None
            if begun != progress["begun"]:
                progress = progress | {"begun": begun, "position": None, "kills": 0}
                yield Step(progress, next_seconds=LONGEST_ALONE_SECONDS)
            position = Position.from_item(progress["position"]) if progress["position"] else None
            checked = []
            for account in page.items:
                result = reconciler.check_alone(account, night, position)
                while isinstance(result, Position):
                    progress = progress | {"position": result.as_item(), "kills": 0}
                    yield Step(progress, next_seconds=LONGEST_ALONE_SECONDS)
                    result = reconciler.check_alone(account, night, result)
                checked.append(result)
        else:
            page = account_page(client, tables.accounts, run.segment, progress["after"], ACCOUNTS_PER_STEP)
            checked = reconciler.check(page.items, night)
        progress = _counted(progress, checked)
        reconciler.save(checked)
        if len(checked) == len(page.items):
            last = page.after is None
            alone = max(int(progress["alone"]) - 1, 0)
            progress |= {"after": page.after, "alone": alone, "begun": None, "position": None}
        else:
            progress |= {"after": checked[-1].account_id if checked else progress["after"], "alone": 1}
        yield Step(progress, last)


def _night_of(run: Run) -> Night:
    """Raises InvalidEvent."""
    return Night(run.scheduled_time.date(), flag_of(run.event, "whole"))


def _after_kill(progress: Item) -> Item:
    """After a kill, the next accounts are checked alone. One whose check alone is killed again is skipped."""
    begun, kills = progress["begun"], int(progress["kills"]) + 1
    if begun is None:
        return progress | {"alone": ACCOUNTS_PER_STEP}
    if kills < MOST_KILLS:
        return progress | {"kills": kills}
    skipped = Checked(begun, skipped=f"the function was killed {kills} times while it checked this account alone")
    place = {"after": begun, "alone": int(progress["alone"]) - 1, "begun": None, "position": None}
    return _counted(progress, [skipped]) | place


def _counted(progress: Item, checked: Sequence[Checked]) -> Item:
    """The progress with these results in the report's fields. Logs each mismatch and each skipped account."""
    mismatches = [mismatch for account in checked for mismatch in account.mismatches]
    skipped = [account for account in checked if account.skipped]
    for mismatch in mismatches:
        about = {"account_id": mismatch.account_id, "what": mismatch.what, "account_version": mismatch.version}
        logger.error("mismatch", extra=about | {"reason": mismatch.sentence})
    for account in skipped:
        logger.error("skipped", extra={"account_id": account.account_id, "reason": account.skipped})
    whole = sum(account.is_whole for account in checked)
    metrics.add_metric("AccountsChecked", MetricUnit.Count, len(checked) - len(skipped))
    metrics.add_metric("AccountsSkipped", MetricUnit.Count, len(skipped))
    metrics.add_metric("Mismatches", MetricUnit.Count, len(mismatches))
    if mismatches or skipped:
        metrics.flush_metrics()  # for the alarms: an invocation that is killed later emits no metrics
    sentences = [f"{each.account_id}: {each.what}: {each.sentence}" for each in mismatches]
    reasons = [f"{each.account_id}: {each.skipped}" for each in skipped]
    return progress | {
        "accounts_checked": int(progress["accounts_checked"]) + len(checked) - len(skipped),
        "accounts_replayed_whole": int(progress["accounts_replayed_whole"]) + whole,
        "accounts_skipped": int(progress["accounts_skipped"]) + len(skipped),
        "mismatches": int(progress["mismatches"]) + len(mismatches),
        "first_mismatches": [*progress["first_mismatches"], *sentences][:FIRST],
        "first_skipped": [*progress["first_skipped"], *reasons][:FIRST],
    }


def report(parts: Sequence[Item]) -> Item:
    """The parts are the last checkpoints. The report has the sums of their numbers, and the first of their lists."""
    return {
        name: [each for part in parts for each in part[name]][:FIRST]
        if isinstance(start, list)
        else sum(part[name] for part in parts)
        for name, start in START.items()
        if name not in PLACE
    }


locks, segments = Locks(client, os.environ["LOCKS_TABLE"]), int(os.environ["JOB_SEGMENTS"])
job = Job("reconcile_accounts", reconcile, report, segments, locks, logger, metrics)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return job.run(event, context)
