"""Releases expired holds: sends a message to the transactions queue for each open hold whose time is over.

Each scheduled time is done once, under a lock. The message of a hold is always the same, and it is decided when it is
posted. So a page that is sent again, or a run that finds a hold before its first message is posted, changes nothing.
"""

from workers import cold_start  # isort: split

import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline, Item, dynamodb_client
from conditional_writes.locks import Locks
from ledger.core.transaction_types.expire_hold import ExpireHold
from ledger.hold_expiry import DamagedHolds, expiries, with_holds
from workers.clients import sqs_client
from workers.logs import function_logger
from workers.scheduled_jobs import Job, Run, Step
from workers.sending import Message, send_all

ACCOUNTS_TABLE = os.environ["ACCOUNTS_TABLE"]
QUEUE_URL = os.environ["QUEUE_URL"]
ACCOUNTS_PER_STEP = 200
"""Scanned between two checkpoints. An account has at most 20 holds, so the messages take at most 400 requests."""
SENDING_SECONDS = 30
"""If the messages of a step aren't sent by then, the run fails, and Lambda retries it."""

logger = function_logger()
metrics = Metrics()
dynamodb = dynamodb_client()
sqs = sqs_client()


def send_expiries(run: Run) -> Iterator[Step]:
    """A page of accounts a step. The checkpoint has the last account, and how much was sent and skipped.

    A run for a time ahead releases no hold early: a hold expires by the clock.
    """
    progress = run.checkpoint or {"after": None, "sent": 0, "accounts_skipped": 0}
    now = min(run.scheduled_time, datetime.fromtimestamp(locks.now(), UTC))
    last = False
    while not last:
        page = with_holds(dynamodb, ACCOUNTS_TABLE, run.segment, progress["after"], ACCOUNTS_PER_STEP)
        expired, damaged = _messages(page.items, now)
        for account_id, reason in damaged.items():
            logger.error("skipped", extra={"account_id": account_id, "reason": reason})
        messages = [Message(json.dumps(one.canonical_payload()), group_id=job.name) for one in expired]
        send_all(sqs, QUEUE_URL, messages, Deadline.after(SENDING_SECONDS))
        metrics.add_metric("HoldExpiries", MetricUnit.Count, len(messages))
        metrics.add_metric("AccountsSkipped", MetricUnit.Count, len(damaged))
        progress = {
            "after": page.after,
            "sent": int(progress["sent"]) + len(messages),
            "accounts_skipped": int(progress["accounts_skipped"]) + len(damaged),
        }
        last = page.after is None
        logger.info("sent", extra={"as_of": str(now), "transactions": len(messages), "so_far": progress["sent"]})
        yield Step(progress, last)


def _messages(accounts: Sequence[Item], now: datetime) -> tuple[list[ExpireHold], dict[str, str]]:
    """The messages for these accounts; and of those whose holds are damaged, which are skipped, the ids and reasons."""
    messages: list[ExpireHold] = []
    damaged = {}
    for account in accounts:
        try:
            messages += expiries(account, now)
        except DamagedHolds as error:
            damaged[account["account_id"]] = str(error)
    return messages, damaged


def report(parts: Sequence[Item]) -> Item:
    return {name: sum(part[name] for part in parts) for name in ("sent", "accounts_skipped")}


locks = Locks(dynamodb, os.environ["LOCKS_TABLE"])
segments = int(os.environ["JOB_SEGMENTS"])
job = Job("expire_holds", send_expiries, report, segments, locks, logger, metrics)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:
    return job.run(event, context)
