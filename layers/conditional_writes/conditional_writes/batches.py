"""SQS batches that are worked on whole, by Powertools' batch processing with partial responses.

Powertools hands a handler one record at a time; what commits several records together needs them all.
"""

import itertools
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, override

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.batch.exceptions import UnexpectedBatchTypeError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes.records import NotARecord, check_record, is_named

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

logger = logging.getLogger(__name__)

MAXIMUM_ENTRIES = 10
"""Of one ChangeMessageVisibilityBatch: SQS's quota."""


class WholeBatchProcessor(BatchProcessor):
    """For `process_partial_response`: the record handler gets the batch's records as one list, and returns a list.

    `record_handler(records: list[SQSRecord], lambda_context) -> list`: in the records' order, an exception for each
    record that goes back to the queue, anything else for one that is done.

    It gets sound records only. What lacks a field that SQS always sends goes back, and holds up no other; without the
    id by which Lambda tells records apart it can't, so an event with one of those is refused whole.
    """

    def __init__(self) -> None:
        # A batch in which nothing succeeded is reported record by record, like any other: raising would change
        # nothing for its messages. What goes back to the queue has a metric of its own.
        super().__init__(event_type=EventType.SQS, raise_on_entire_batch_failure=False)

    @override
    def process(self) -> list[tuple[Any, ...]]:
        for number, record in enumerate(self.records):
            if not is_named(record):
                raise UnexpectedBatchTypeError(f"Records[{number}]: expected a record of SQS's, with its messageId")
        records = [SQSRecord(record) for record in self.records]
        settled: list[object] = list(map(_problem_of, records))
        sound = [index for index, problem in enumerate(settled) if problem is None]
        results: Sequence[object] = self.handler([records[index] for index in sound], self.lambda_context)
        for index, result in zip(sound, results, strict=True):
            settled[index] = result
        return [self._report(record, result) for record, result in zip(records, settled, strict=True)]

    def _report(self, record: SQSRecord, result: object) -> tuple[Any, ...]:
        if isinstance(result, Exception):
            return self.failure_handler(record, (type(result), result, result.__traceback__))
        return self.success_handler(record, result)


def _problem_of(record: SQSRecord) -> NotARecord | None:
    try:
        check_record(record.raw_event)
    except NotARecord as problem:
        logger.error("message %s is left on its queue: %s", record.message_id, problem)  # noqa: TRY400 (it is an answer)
        return problem
    return None


def postpone(client: "SQSClient", queue_url: str, pauses: Sequence[tuple[SQSRecord, int]]) -> None:
    """Lets each record come back after its number of seconds, instead of the queue's whole visibility timeout.

    Only a matter of time: a record for which it fails comes back later.
    """
    for batch in itertools.batched(pauses, MAXIMUM_ENTRIES, strict=False):
        try:
            client.change_message_visibility_batch(
                QueueUrl=queue_url,
                Entries=[
                    {"Id": str(index), "ReceiptHandle": record.receipt_handle, "VisibilityTimeout": seconds}
                    for index, (record, seconds) in enumerate(batch)
                ],
            )
        except (BotoCoreError, ClientError):
            logger.warning("could not postpone %d records", len(batch), exc_info=True)
