"""Publishes the outcome of each journal entry on the bus, from the journal's stream, and nothing else.

The function's answer names the first record that must come again: Lambda retries it and those after it. Its caller
writes the event, so whoever may invoke it can invent an outcome: only the stream's mapping may. `republish_outcomes`
publishes again at request.
"""

from workers import cold_start  # isort: split

import os
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline
from ledger.core.outcome_events import SOURCE
from ledger.outcome_publisher import ChangedEntry, OutcomePublisher
from workers.event_bus import EventBus, events_client
from workers.invocation import RESERVED_SECONDS
from workers.logs import function_logger
from workers.sending import sqs_client
from workers.stream_records import INSERT, NotAStreamEvent, records_of

logger = function_logger()
metrics = Metrics()
bus = EventBus(events_client(read_seconds=10), os.environ["OUTCOMES_BUS"], SOURCE)
publisher = OutcomePublisher(bus, sqs_client(), os.environ["DEAD_LETTER_QUEUE_URL"])
journal_table = os.environ["JOURNAL_TABLE"]
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: Any, context: LambdaContext) -> dict[str, Any]:
    if isinstance(event, dict) and "republish" in event:
        raise NotAStreamEvent("republish: expected the records of a stream. The function republish_outcomes takes it")
    records = records_of(event, journal_table)
    changed = [record for record in records if record.change != INSERT]
    if changed:
        metrics.add_metric("EntriesChanged", MetricUnit.Count, len(changed))
    entries = [record.item if record.change == INSERT else ChangedEntry.of(record) for record in records]
    published = publisher.publish(entries, Deadline.of_invocation(context, RESERVED_SECONDS))
    failures = zip(records, published.failures, strict=True)
    failed = [(record.sequence_number, failure) for record, failure in failures if failure]
    metrics.add_metric("Published", MetricUnit.Count, published.number)
    metrics.add_metric("DeadLettered", MetricUnit.Count, published.dead_lettered)
    metrics.add_metric("NotPublished", MetricUnit.Count, len(failed))
    if failed:
        logger.error("not published", extra={"entries": len(failed), "reason": failed[0][1]})
    return {"batchItemFailures": [{"itemIdentifier": number} for number, _ in failed[:1]]}
