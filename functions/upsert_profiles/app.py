"""Upserts the profiles' entries of an SQS batch, and reports for each message whether it is done.

A message's entries are in its profile, or later ones are; or it is invalid, or doesn't fit the profile, and goes to the
dead-letter queue with the reason; or it couldn't be done yet, and goes back to the queue.
"""

import gc

gc.disable()  # what an import makes is no garbage: looking for some takes a twelfth of the start-up

import logging
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import dynamodb_client
from conditional_writes.batches import WholeBatchProcessor
from conditional_writes.client import deadline_of, sqs_client
from conditional_writes.settling import Settling
from ledger.decoding import InvalidMessage
from ledger.profiles import decode
from ledger.upserting import UNFIT, Delivery, Profiles, Result, Upserted

POISON = (InvalidMessage, *UNFIT)
"""What no further delivery can mend."""

DEAD_LETTER_QUEUE_URL = os.environ["DEAD_LETTER_QUEUE_URL"]

logger = Logger()
metrics = Metrics()
profiles = Profiles(dynamodb_client(), os.environ["PROFILES_TABLE"])
sqs = sqs_client()
settling = Settling(sqs, DEAD_LETTER_QUEUE_URL, int(os.environ["MAX_RECEIVE_COUNT"]), POISON, logger)
processor = WholeBatchProcessor()

logging.getLogger("botocore").setLevel(logging.WARNING)  # or each cold start tells where it found its credentials
gc.freeze()  # what was imported stays: no collection looks at it again
gc.enable()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event=event, record_handler=upsert_records, processor=processor, context=context)


def upsert_records(records: list[SQSRecord], context: LambdaContext) -> list[object]:
    """What became of each record, in their order: an exception for one that goes back to the queue."""
    decoded = [_decode(record) for record in records]
    deliveries = [message for message in decoded if isinstance(message, Delivery)]
    upserted = profiles.upsert(deliveries, deadline_of(context))
    outcomes = iter(upserted.results)
    found = [next(outcomes) if isinstance(message, Delivery) else message for message in decoded]
    results = settling.given_up(records, found)
    settled = settling.settle(records, results)
    for record, message, result in zip(records, decoded, results, strict=True):
        _log(record, message, result)
    _count(results, upserted)
    return settled


def _decode(record: SQSRecord) -> Delivery | InvalidMessage:
    try:
        return Delivery(decode(record.body), _sent_at(record))
    except InvalidMessage as invalid:
        return invalid


def _sent_at(record: SQSRecord) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(record.attributes.sent_timestamp))


def _log(record: SQSRecord, delivery: Delivery | InvalidMessage, result: Result) -> None:
    """One line a record: never its payload."""
    ids: dict[str, object] = {"message_id": record.message_id}
    if isinstance(delivery, Delivery):
        ids |= {"account_id": delivery.update.account_id, "entries": delivery.update.names}
    if isinstance(result, Exception):
        settling.log_failure(result, ids, "not upserted")
    else:
        logger.info("upserted", extra=ids)


def _count(results: Sequence[Result], upserted: Upserted) -> None:
    counts = settling.counts(results)
    metrics.add_metric("Upserted", MetricUnit.Count, upserted.written)
    metrics.add_metric("Superseded", MetricUnit.Count, upserted.superseded)
    metrics.add_metric("Invalid", MetricUnit.Count, counts.poison)
    metrics.add_metric("NotYetUpserted", MetricUnit.Count, counts.back)
    metrics.add_metric("GivenUp", MetricUnit.Count, counts.given_up)
    metrics.add_metric("Conflicts", MetricUnit.Count, upserted.conflicts)
