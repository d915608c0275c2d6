"""Releases expired holds: sends a message to the administration's queue for each open hold whose time is over.

The message of a hold is always the same, and it is decided when it is posted. So a run that finds a hold before its
first message is posted changes nothing.
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
from ledger.hold_expiry import WITH_HOLDS, expiries
from ledger.sending_job import SendingJob
from workers.logs import function_logger
from workers.scheduled_jobs import Job, JobQueue, Run, Step

ACCOUNTS_PER_STEP = 200
"""Scanned between two checkpoints. An account has at most 20 holds, so the messages take at most 400 requests."""

NAME = "expire_holds"
logger = function_logger()
metrics = Metrics()
dynamodb = dynamodb_client()
queue = JobQueue.from_environment()
sending = SendingJob(
    NAME,
    "HoldExpiries",
    dynamodb,
    os.environ["ACCOUNTS_TABLE"],
    queue.client,
    os.environ["ADMINISTRATION_QUEUE_URL"],
    logger,
    metrics,
)


def send_expiries(run: Run) -> Iterator[Step]:
    """A run for a time ahead releases no hold early: a hold expires by the clock."""
    now = min(run.scheduled_time, datetime.fromtimestamp(job.locks.now(), UTC))
    return sending.steps(run, WITH_HOLDS, lambda account: expiries(account, now), ACCOUNTS_PER_STEP)


job = Job(NAME, send_expiries, Locks(dynamodb, os.environ["LOCKS_TABLE"]), queue, logger, metrics)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return job.process(event, context)
