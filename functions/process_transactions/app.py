"""Posts the transactions of an SQS batch, and reports for each message whether it is done.

A message is posted, or recorded as rejected; or it is invalid, and goes to the dead-letter queue with the reason; or
it can't be decided yet, and goes back to the queue.
"""

import gc

gc.disable()  # what an import makes is no garbage: looking for some takes a twelfth of the start-up

import logging
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit, single_metric
from aws_lambda_powertools.utilities.batch import process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import dynamodb_client
from conditional_writes.batches import WholeBatchProcessor, postpone
from conditional_writes.client import deadline_of, sqs_client
from conditional_writes.settling import Settling, receive_count
from ledger.decoding import InvalidMessage
from ledger.journal import Outcome
from ledger.messages import decode
from ledger.posting import Delivery, Ledger, PayloadChanged, Posted, Result, idempotency_config
from ledger.rules import Status, UnknownAccount

POISON = (InvalidMessage, PayloadChanged)
"""What no further delivery can mend."""

QUEUE_URL = os.environ["QUEUE_URL"]
DEAD_LETTER_QUEUE_URL = os.environ["DEAD_LETTER_QUEUE_URL"]

logger = Logger()
metrics = Metrics()
idempotency = idempotency_config()
ledger = Ledger(dynamodb_client(), os.environ["ACCOUNTS_TABLE"], os.environ["JOURNAL_TABLE"], idempotency)
sqs = sqs_client()
settling = Settling(sqs, DEAD_LETTER_QUEUE_URL, int(os.environ["MAX_RECEIVE_COUNT"]), POISON, logger)
processor = WholeBatchProcessor()

logging.getLogger("botocore").setLevel(logging.WARNING)  # or each cold start tells where it found its credentials
gc.freeze()  # what was imported stays: no collection looks at it again
gc.enable()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> Any:
    idempotency.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=post_records, processor=processor, context=context)


def post_records(records: list[SQSRecord], context: LambdaContext) -> list[object]:
    """What became of each record, in their order: an exception for one that goes back to the queue."""
    decoded = [_decode(record) for record in records]
    deliveries = [message for message in decoded if isinstance(message, Delivery)]
    posted = ledger.post(deliveries, deadline_of(context))
    outcomes = iter(posted.results)
    found = [next(outcomes) if isinstance(message, Delivery) else message for message in decoded]
    results = settling.given_up(records, found)
    settled = settling.settle(records, results)
    _postpone(records, results)
    for record, message, result in zip(records, decoded, results, strict=True):
        _log(record, message, result)
    _count(results, posted)
    return settled


def _decode(record: SQSRecord) -> Delivery | InvalidMessage:
    try:
        return Delivery(decode(record.body), delivered_before=receive_count(record) > 1)
    except InvalidMessage as invalid:
        return invalid


def _postpone(records: list[SQSRecord], results: Sequence[Result]) -> None:
    """Has what waits for its account come back in a while: 2, 8, 32, 128, 512 s.

    Soon where the opening was merely overtaken, 11 minutes in all where it is late.
    """
    waiting = [record for record, result in zip(records, results, strict=True) if isinstance(result, UnknownAccount)]
    postpone(sqs, QUEUE_URL, [(record, min(2 * 4 ** (receive_count(record) - 1), 900)) for record in waiting])


def _log(record: SQSRecord, delivery: Delivery | InvalidMessage, result: Result) -> None:
    """One line a record: never its payload."""
    ids: dict[str, object] = {"message_id": record.message_id}
    if isinstance(delivery, Delivery):
        message = delivery.message
        ids |= {"transaction_id": message.transaction_id, "account_ids": message.account_ids}
    match result:
        case Outcome():
            logger.info(
                "replayed" if result.replayed else result.status.lower(),
                extra=ids | {"reason": result.reason, "account_version": result.account_version},
            )
        case UnknownAccount():
            logger.warning("UnknownAccount", extra=ids | {"reason": str(result)})
        case Exception():
            settling.log_failure(result, ids, "not posted")


def _count(results: Sequence[Result], posted: Posted) -> None:
    counts = settling.counts(results)
    new = [outcome for outcome in results if isinstance(outcome, Outcome) and not outcome.replayed]
    metrics.add_metric("Posted", MetricUnit.Count, sum(outcome.status == Status.POSTED for outcome in new))
    metrics.add_metric("Duplicates", MetricUnit.Count, counts.done - len(new))
    metrics.add_metric("Invalid", MetricUnit.Count, counts.poison)
    metrics.add_metric("NotYetPosted", MetricUnit.Count, counts.back)
    metrics.add_metric("GivenUp", MetricUnit.Count, counts.given_up)
    metrics.add_metric("Conflicts", MetricUnit.Count, posted.conflicts)
    for milliseconds in posted.commit_milliseconds[:99]:  # at 100 values Powertools publishes what there is, early
        metrics.add_metric("CommitTime", MetricUnit.Milliseconds, milliseconds)
    for reason, count in Counter(outcome.reason for outcome in new if outcome.reason).items():
        with single_metric("Rejected", MetricUnit.Count, count) as metric:
            metric.add_dimension("Reason", reason)
