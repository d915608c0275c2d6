"""Charges overdraft interest: sends a message to the administration's queue for each account with interest due.

The message of an account and a month is always the same, and its amount is decided when the message is posted. So a
second run asks for nothing new, even without the lock. With an amount in it, a message that is made again after a
charge would be another payload under its id. A job that wrote the accounts itself would be a second way to change a
balance, with a role that may write every account.
"""

from workers import cold_start  # isort: split

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import dynamodb_client
from conditional_writes.locks import Locks
from ledger.overdraft_interest import WITH_INTEREST, charges, last_month_end
from ledger.sending_job import SendingJob
from workers.logs import function_logger
from workers.scheduled_jobs import Job, JobQueue, Run, Step

ACCOUNTS_PER_STEP = 500
"""Scanned between two checkpoints. Their messages take at most 50 requests, in parallel: a second or two."""

NAME = "charge_overdraft_interest"
to_account_id = os.environ["INTEREST_ACCOUNT_ID"]
logger = function_logger()
metrics = Metrics()
dynamodb = dynamodb_client()
queue = JobQueue.from_environment()
sending = SendingJob(
    NAME,
    "InterestTransactions",
    dynamodb,
    os.environ["ACCOUNTS_TABLE"],
    queue.client,
    os.environ["ADMINISTRATION_QUEUE_URL"],
    logger,
    metrics,
)


def send_charges(run: Run) -> Iterator[Step]:
    """A run for a time ahead charges nothing early: what is due follows from the time of the posting."""
    month_end = last_month_end(min(run.scheduled_time, datetime.fromtimestamp(job.locks.now(), UTC)))
    return sending.steps(run, WITH_INTEREST, lambda each: charges(each, month_end, to_account_id), ACCOUNTS_PER_STEP)


job = Job(NAME, send_charges, Locks(dynamodb, os.environ["LOCKS_TABLE"]), queue, logger, metrics)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return job.process(event, context)
