"""Answers questions about an account, in JSON: its statement, its balance at a time, and what became of a transaction.

A request that can't be answered gets an `error` with a code and a reason. AWS's own trouble fails the invocation.
"""

from workers import cold_start  # isort: split

import os
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import Deadline, dynamodb_client
from ledger.statements import AccountReader
from ledger.tables import LedgerTables
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
reader = AccountReader(dynamodb_client(), tables)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: Any, context: LambdaContext) -> dict[str, Any]:
    answer = reader.answer(event, Deadline.of_invocation(context, RESERVED_SECONDS))
    if "error" in answer:
        metrics.add_metric("Refused", MetricUnit.Count, 1)
        logger.info("refused", extra={"error": answer["error"]})
    else:
        metrics.add_metric("Answered", MetricUnit.Count, 1)
        metrics.add_metric("Incomplete", MetricUnit.Count, int(not answer.get("complete", True)))
    return answer
