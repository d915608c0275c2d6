"""Upserts the profile entries of an SQS batch, and answers with the messages that go back to the queue.

If a message is done, its profile has its entries or later ones. A message that is invalid or doesn't fit its profile
goes to the dead-letter queue with its reason. A message that couldn't be written yet goes back to the queue.
"""

from workers import cold_start  # isort: split

import os
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.utilities.typing import LambdaContext

from conditional_writes import dynamodb_client
from ledger.core.profile_messages import decode
from ledger.dispositions import disposition_of
from ledger.profile_writer import ProfileWriter
from workers.attempts import Attempts
from workers.batches import Queue, QueueWorker
from workers.logs import function_logger
from workers.sending import sqs_client

logger = function_logger()
metrics = Metrics()
dynamodb = dynamodb_client()
writer = ProfileWriter(dynamodb, os.environ["PROFILES_TABLE"])
attempts = Attempts(dynamodb, os.environ["ATTEMPTS_TABLE"])
worker = QueueWorker(
    decode, writer.write, disposition_of, Queue.from_environment(sqs_client()), attempts, logger, metrics
)
cold_start.finished()


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return worker.process(event, context)
