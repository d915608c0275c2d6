"""Publishes outcomes again at request: those of a range of an account's versions or times, or of all accounts.

It publishes what stands in the journal, and nothing that a caller writes.
"""

from workers import cold_start  # isort: split

import os
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline, dynamodb_client
from ledger.core.outcome_events import SOURCE
from ledger.outcome_publisher import OutcomePublisher
from ledger.republishing import Republisher
from ledger.tables import LedgerTables
from workers.event_bus import EventBus, events_client
from workers.invocation import RESERVED_SECONDS
from workers.logs import function_logger
from workers.sending import sqs_client

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
    answer = republisher.answer(event, Deadline.of_invocation(context, RESERVED_SECONDS))
    if "error" in answer:
        metrics.add_metric("Refused", MetricUnit.Count, 1)
        logger.info("refused", extra={"error": answer["error"]})
        return answer
    metrics.add_metric("PublishedAgain", MetricUnit.Count, answer["published"])
    metrics.add_metric("DeadLettered", MetricUnit.Count, answer["dead_lettered"])
    counts = {name: value if isinstance(value, int) else len(value) for name, value in answer.items()}
    logger.info("published again", extra={"request": event["republish"], **counts})
    return answer
