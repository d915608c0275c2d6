"""Posts transactions and answers with their outcomes: for a caller that can't wait for the queue.

It is invoked with `{"transactions": [message, …], "dry_run": false}`, or by its function URL with the same as the body.
"""

from workers import cold_start  # isort: split

import os
from functools import partial
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline, dynamodb_client
from ledger.account_reading import answer_or_error
from ledger.batch_poster import BatchPoster
from ledger.core.post_requests import decode_event, decode_text
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode_from
from ledger.core.transaction_types.base import Door
from ledger.lines import Lines
from ledger.synchronous import NO_CALLER, State, SynchronousPoster
from ledger.tables import LedgerTables
from workers.function_url import body_of, caller_of, http_response, is_http
from workers.invocation import RESERVED_SECONDS
from workers.logs import function_logger

logger = function_logger()
metrics = Metrics()
tables = LedgerTables(
    os.environ["ACCOUNTS_TABLE"],
    os.environ["JOURNAL_TABLE"],
    os.environ["REVERSALS_TABLE"],
    os.environ["REFUSALS_TABLE"],
)
dynamodb = dynamodb_client()
lines = Lines(dynamodb, os.environ["LOCKS_TABLE"])
minor_units, double_entry = os.environ["MINOR_UNITS"] == "on", os.environ["DOUBLE_ENTRY"] == "on"
has_url = os.environ["HAS_URL"] == "on"
"""Then its callers' policy lets them come by the URL alone, and none of them can write the event that names them."""
poster = BatchPoster(dynamodb, tables, lines, minor_units, double_entry)
synchronous = SynchronousPoster(partial(decode_from, Door.TRANSACTIONS), poster)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: Any, context: LambdaContext) -> dict[str, Any]:
    answer = answer_or_error(lambda: answer_to(event, context))
    if "error" in answer:
        metrics.add_metric("Refused", MetricUnit.Count, 1)
        logger.info("refused", extra={"error": answer["error"]})
    return http_response(answer, is_well="error" not in answer) if is_http(event) else answer


def answer_to(event: Any, context: LambdaContext) -> dict[str, Any]:
    request = decode_text(body_of(event)) if is_http(event) else decode_event(event)
    deadline = Deadline.of_invocation(context, RESERVED_SECONDS)
    answer = synchronous.answer(request, context.aws_request_id, sender_of(event), deadline)
    for measured in answer.measurements:
        measured.emit(metrics)
    metrics.add_metric("Unknown", MetricUnit.Count, answer.count(State.UNKNOWN))
    counts = {str(state): number for state in State if (number := answer.count(state))}
    logger.info("answered", extra={"dry_run": request.dry_run, **counts})
    return {"outcomes": answer.outcomes}


def sender_of(event: Any) -> str:
    """The principal that called the function's URL. Raises InvalidMessage if Lambda hasn't checked who it is."""
    if not (has_url and is_http(event)):
        return NO_CALLER
    if caller := caller_of(event):
        return caller
    raise InvalidMessage("requestContext: expected the caller's id, as a URL of the type AWS_IAM has it")
