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

from conditional_writes import Deadline, dynamodb_client
from conditional_writes.batches import WholeBatchProcessor, postpone
from conditional_writes.client import SLOWEST_CALL_SECONDS, sqs_client
from conditional_writes.dead_letters import DeadLetter, send_dead_letters
from ledger.journal import Outcome
from ledger.messages import InvalidMessage, Message, decode
from ledger.posting import Delivery, Ledger, PayloadChanged, Posted, Result, idempotency_config
from ledger.rules import Status, UnknownAccount


class GivenUp(Exception):
    """The message was delivered as often as the queue allows, and could never be decided."""


POISON = (InvalidMessage, PayloadChanged, GivenUp)
"""What no further delivery can mend."""

RESERVED_SECONDS = SLOWEST_CALL_SECONDS + 1
"""Kept from the invocation's time: a request that started at the deadline may take this long to be answered."""

QUEUE_URL = os.environ["QUEUE_URL"]
DEAD_LETTER_QUEUE_URL = os.environ["DEAD_LETTER_QUEUE_URL"]
MAX_RECEIVE_COUNT = int(os.environ["MAX_RECEIVE_COUNT"])

logger = Logger()
metrics = Metrics()
idempotency = idempotency_config()
ledger = Ledger(dynamodb_client(), os.environ["ACCOUNTS_TABLE"], os.environ["JOURNAL_TABLE"], idempotency)
sqs = sqs_client()
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
    deadline = Deadline.after(context.get_remaining_time_in_millis() / 1000 - RESERVED_SECONDS)
    decoded = [_decode(record) for record in records]
    posted = ledger.post(
        [
            Delivery(message, delivered_before=_receive_count(record) > 1)
            for record, message in zip(records, decoded, strict=True)
            if isinstance(message, Message)
        ],
        deadline,
    )
    outcomes = iter(posted.results)
    results = [
        _given_up(record, next(outcomes) if isinstance(message, Message) else message)
        for record, message in zip(records, decoded, strict=True)
    ]
    settled = _settle(records, results)
    for record, message, result in zip(records, decoded, results, strict=True):
        _log(record, message, result)
    _count(results, posted)
    return settled


def _decode(record: SQSRecord) -> Message | InvalidMessage:
    try:
        return decode(record.body)
    except InvalidMessage as invalid:
        return invalid


def _receive_count(record: SQSRecord) -> int:
    return int(record.attributes.approximate_receive_count)


def _given_up(record: SQSRecord, result: Result) -> Result:
    """At its last delivery, what would go back to the queue is given up instead, with the reason that SQS can't add."""
    if isinstance(result, (Outcome, *POISON)) or _receive_count(record) < MAX_RECEIVE_COUNT:
        return result
    return GivenUp(f"given up after {_receive_count(record)} deliveries: {result}")


def _settle(records: list[SQSRecord], results: Sequence[Result]) -> list[object]:
    """Sends poison to the dead-letter queue, and has what waits for its account come back in a while."""
    letters = {
        index: DeadLetter(record, str(result))
        for index, (record, result) in enumerate(zip(records, results, strict=True))
        if isinstance(result, POISON)
    }
    sent = send_dead_letters(sqs, DEAD_LETTER_QUEUE_URL, list(letters.values()))
    for letter, failure in zip(letters.values(), sent, strict=True):
        if failure:
            logger.error("not dead-lettered", extra={"message_id": letter.record.message_id}, exc_info=failure)
    waiting = [record for record, result in zip(records, results, strict=True) if isinstance(result, UnknownAccount)]
    postpone(sqs, QUEUE_URL, [(record, _pause_seconds(record)) for record in waiting])
    return list((dict(enumerate(results)) | dict(zip(letters, sent, strict=True))).values())


def _pause_seconds(record: SQSRecord) -> int:
    """2, 8, 32, 128, 512 s: soon where the opening was merely overtaken, 11 minutes in all where it is late."""
    seconds: int = 2 * 4 ** (_receive_count(record) - 1)
    return min(seconds, 900)


def _log(record: SQSRecord, message: Message | InvalidMessage, result: object) -> None:
    """One line a record: never its payload."""
    ids: dict[str, object] = {"message_id": record.message_id}
    if isinstance(message, Message):
        ids |= {"transaction_id": message.transaction_id, "account_ids": message.account_ids}
    match result:
        case Outcome():
            logger.info(
                "replayed" if result.replayed else result.status.lower(),
                extra=ids | {"reason": result.reason, "account_version": result.account_version},
            )
        case InvalidMessage() | PayloadChanged() | GivenUp() | UnknownAccount():
            logger.warning(type(result).__name__, extra=ids | {"reason": str(result)})
        case Exception():
            logger.error("not posted", extra=ids, exc_info=result)


def _count(results: Sequence[Result], posted: Posted) -> None:
    outcomes = [result for result in results if isinstance(result, Outcome)]
    new = [outcome for outcome in outcomes if not outcome.replayed]
    invalid = [result for result in results if isinstance(result, InvalidMessage | PayloadChanged)]
    given_up = [result for result in results if isinstance(result, GivenUp)]
    metrics.add_metric("Posted", MetricUnit.Count, sum(outcome.status == Status.POSTED for outcome in new))
    metrics.add_metric("Duplicates", MetricUnit.Count, len(outcomes) - len(new))
    metrics.add_metric("Invalid", MetricUnit.Count, len(invalid))
    metrics.add_metric("NotYetPosted", MetricUnit.Count, len(results) - len(outcomes) - len(invalid) - len(given_up))
    metrics.add_metric("GivenUp", MetricUnit.Count, len(given_up))
    metrics.add_metric("Conflicts", MetricUnit.Count, posted.conflicts)
    for milliseconds in posted.commit_milliseconds[:99]:  # at 100 values Powertools publishes what there is, early
        metrics.add_metric("CommitTime", MetricUnit.Milliseconds, milliseconds)
    for reason, count in Counter(outcome.reason for outcome in new if outcome.reason).items():
        with single_metric("Rejected", MetricUnit.Count, count) as metric:
            metric.add_dimension("Reason", reason)
