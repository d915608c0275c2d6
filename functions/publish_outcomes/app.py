"""Publishes the outcome of each journal entry on the bus: from the journal's stream, and again at request.

An event of the stream has new entries. The function's answer names the first entry that must come again: Lambda retries
it and those after it. An event with `republish` publishes a range of entries again: `ledger/republishing.py`.
"""

from workers import cold_start  # isort: split

import os
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import dynamodb_client
from ledger.core.outcome_events import SOURCE
from ledger.outcome_publisher import OutcomePublisher
from ledger.republishing import Republisher
from ledger.tables import LedgerTables
from workers.clients import events_client, sqs_client
from workers.event_bus import EventBus
from workers.invocation import deadline_of
from workers.logs import function_logger
from workers.stream_records import records_of

logger = function_logger()
metrics = Metrics()
bus = EventBus(events_client(read_seconds=10), os.environ["OUTCOMES_BUS"], SOURCE)
publisher = OutcomePublisher(bus, sqs_client(), os.environ["DEAD_LETTER_QUEUE_URL"])
tables = LedgerTables(os.environ["ACCOUNTS_TABLE"], os.environ["JOURNAL_TABLE"])
republisher = Republisher(dynamodb_client(), tables, publisher)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: Any, context: LambdaContext) -> dict[str, Any]:
    if isinstance(event, dict) and "republish" in event:
        return republish(event, context)
    records = records_of(event)
    published = publisher.publish([record.item for record in records], deadline_of(context))
    failures = zip(records, published.failures, strict=True)
    failed = [(record.sequence_number, failure) for record, failure in failures if failure]
    metrics.add_metric("Published", MetricUnit.Count, published.number)
    metrics.add_metric("DeadLettered", MetricUnit.Count, published.dead_lettered)
    metrics.add_metric("NotPublished", MetricUnit.Count, len(failed))
    if failed:
        logger.error("not published", extra={"entries": len(failed), "reason": failed[0][1]})
    return {"batchItemFailures": [{"itemIdentifier": number} for number, _ in failed[:1]]}


def republish(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    answer = republisher.answer(event, deadline_of(context))
    if "error" in answer:
        metrics.add_metric("Refused", MetricUnit.Count, 1)
        logger.info("refused", extra={"error": answer["error"]})
        return answer
    metrics.add_metric("PublishedAgain", MetricUnit.Count, answer["published"])
    metrics.add_metric("DeadLettered", MetricUnit.Count, answer["dead_lettered"])
    counts = {name: value if isinstance(value, int) else len(value) for name, value in answer.items()}
    logger.info("published again", extra={"request": event["republish"], **counts})
    return answer
