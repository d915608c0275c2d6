"""Charges a day's overdraft interest: a message on the transactions queue for each account that is below zero.

Once a day, under a lock. A message is the same for the same account, day and rate, and what it comes to is decided
when it is posted. So a page that is sent again, and a whole run without the lock, charges nobody twice. An account
that went below zero in between is charged by the later run.
"""

import gc

gc.disable()  # what an import makes is no garbage: looking for some takes a twelfth of the start-up

import json
import logging
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Item, dynamodb_client
from conditional_writes.client import sqs_client
from conditional_writes.jobs import Job, Step
from conditional_writes.locks import Locks
from conditional_writes.sending import Message, send_all
from ledger.interest import annual_rate_of, charge, overdrawn

ACCOUNTS_TABLE = os.environ["ACCOUNTS_TABLE"]
QUEUE_URL = os.environ["QUEUE_URL"]
ANNUAL_RATE = annual_rate_of(os.environ["ANNUAL_RATE"])
ACCOUNTS_PER_STEP = 500
"""Looked at before the place is kept: at most 50 requests to the queue, a second or two."""

logger = Logger()
metrics = Metrics()
dynamodb = dynamodb_client()
sqs = sqs_client()

logging.getLogger("botocore").setLevel(logging.WARNING)  # or each cold start tells where it found its credentials
gc.freeze()  # what was imported stays: no collection looks at it again
gc.enable()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:
    _count(0)  # a run that sends nothing says so
    return job.run(event, context)


def send_charges(scheduled_time: datetime, place: Item | None) -> Iterator[Step]:
    """A page of accounts a step, from the one `after` which the work goes on; `sent` is how many messages so far."""
    day = scheduled_time.date()
    after, sent = (place["after"], int(place["sent"])) if place else (None, 0)
    last = False
    while not last:
        page = overdrawn(dynamodb, ACCOUNTS_TABLE, after, ACCOUNTS_PER_STEP)
        charges = [charge(account_id, day, ANNUAL_RATE) for account_id in page.account_ids]
        send_all(sqs, QUEUE_URL, [Message(json.dumps(one.request())) for one in charges])
        _count(len(charges))
        after, sent, last = page.after, sent + len(charges), page.after is None
        logger.info("sent", extra={"day": str(day), "transactions": len(charges), "so_far": sent})
        yield Step({"after": after, "sent": sent}, last=last)


def _count(transactions: int) -> None:
    metrics.add_metric("InterestTransactions", MetricUnit.Count, transactions)


job = Job("charge_overdraft_interest", send_charges, Locks(dynamodb, os.environ["LOCKS_TABLE"]), logger)
