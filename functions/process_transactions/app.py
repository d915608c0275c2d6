"""Posts the transactions of an SQS batch, and answers with the messages that go back to the queue.

Batches come from two queues. That of the administration takes the types that change accounts, the other one all others.
A transaction is posted, or rejected and recorded. The reason of an invalid message is put into the table Refusals, and
goes with it to the dead-letter queue. A message that can't be decided yet goes back to the queue.
"""

from workers import cold_start  # isort: split

import os
from functools import partial
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import dynamodb_client
from ledger.batch_poster import BatchPoster
from ledger.core.transaction_types import decode_from
from ledger.core.transaction_types.base import Door, TransactionMessage
from ledger.dispositions import disposition_of
from ledger.lines import Lines
from ledger.refusals import RefusalEvents, RefusalRecords
from ledger.tables import LedgerTables
from workers.attempts import Attempts
from workers.batches import Queue, QueueWorker
from workers.logs import function_logger
from workers.sending import sqs_client

logger = function_logger()
metrics = Metrics()
tables = LedgerTables(
    os.environ["ACCOUNTS_TABLE"],
    os.environ["JOURNAL_TABLE"],
    os.environ["REVERSALS_TABLE"],
    os.environ["REFUSALS_TABLE"],
)
minor_units, double_entry = os.environ["MINOR_UNITS"] == "on", os.environ["DOUBLE_ENTRY"] == "on"
dynamodb, sqs = dynamodb_client(), sqs_client()
poster = BatchPoster(dynamodb, tables, Lines(dynamodb, os.environ["LOCKS_TABLE"]), minor_units, double_entry)
attempts = Attempts(dynamodb, os.environ["ATTEMPTS_TABLE"])
refusals = RefusalEvents(os.environ["OUTCOMES_BUS"])
record = RefusalRecords(dynamodb, tables).write


def worker_of(door: Door, queue: Queue) -> QueueWorker[TransactionMessage]:
    decode = partial(decode_from, door)
    return QueueWorker(decode, poster.post, disposition_of, queue, attempts, logger, metrics, refusals.publish, record)


worker = worker_of(Door.TRANSACTIONS, Queue.from_environment(sqs))
administration = worker_of(Door.ADMINISTRATION, Queue.from_environment(sqs, "ADMINISTRATION_"))
of_the_administration = f":{administration.queue.url.rpartition('/')[2]}"
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    match event:  # all records of an event are of one queue
        case {"Records": [{"eventSourceARN": str(arn)}, *_]} if arn.endswith(of_the_administration):
            return administration.process(event, context)
    return worker.process(event, context)
