"""Charges a day's overdraft interest: sends a message to the transactions queue for each account below zero.

Each day is done once, under a lock. The message of an account, a day and a rate is always the same, and its amount is
decided when the message is posted. So a page that is sent again charges no account twice, even without the lock.
"""

from workers import cold_start  # isort: split

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline, Item, dynamodb_client
from conditional_writes.locks import Locks
from ledger.core.transaction_types.charge_interest import ChargeInterest
from ledger.overdraft_interest import annual_rate_of, overdrawn
from workers.clients import sqs_client
from workers.logs import function_logger
from workers.scheduled_jobs import Job, Run, Step
from workers.sending import Message, send_all

ACCOUNTS_TABLE = os.environ["ACCOUNTS_TABLE"]
QUEUE_URL = os.environ["QUEUE_URL"]
ANNUAL_RATE = annual_rate_of(os.environ["ANNUAL_RATE"])
ACCOUNTS_PER_STEP = 500
"""Scanned between two checkpoints. Their messages take at most 50 requests, in parallel: a second or two."""
SENDING_SECONDS = 30
"""If the messages of a step aren't sent by then, the run fails, and Lambda retries it."""

logger = function_logger()
metrics = Metrics()
dynamodb = dynamodb_client()
sqs = sqs_client()


def send_charges(run: Run) -> Iterator[Step]:
    """A page of accounts a step. The checkpoint has the last account, and the number of messages that were sent."""
    day = run.scheduled_time.date()
    after, sent = (run.checkpoint["after"], int(run.checkpoint["sent"])) if run.checkpoint else (None, 0)
    last = False
    while not last:
        page = overdrawn(dynamodb, ACCOUNTS_TABLE, run.segment, after, ACCOUNTS_PER_STEP)
        charges = [ChargeInterest.of_day(account["account_id"], day, ANNUAL_RATE) for account in page.items]
        messages = [Message(json.dumps(one.canonical_payload()), group_id=job.name) for one in charges]
        send_all(sqs, QUEUE_URL, messages, Deadline.after(SENDING_SECONDS))
        metrics.add_metric("InterestTransactions", MetricUnit.Count, len(charges))
        after, sent, last = page.after, sent + len(charges), page.after is None
        logger.info("sent", extra={"day": str(day), "transactions": len(charges), "so_far": sent})
        yield Step({"after": after, "sent": sent}, last)


def report(parts: Sequence[Item]) -> Item:
    return {"sent": sum(part["sent"] for part in parts)}


locks = Locks(dynamodb, os.environ["LOCKS_TABLE"])
segments = int(os.environ["JOB_SEGMENTS"])
job = Job("charge_overdraft_interest", send_charges, report, segments, locks, logger, metrics)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:
    return job.run(event, context)
