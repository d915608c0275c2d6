"""How the records of an SQS batch end: done, back on the queue, or in the dead-letter queue with the reason.

What functions do alike that work on whole batches, and answer for each record.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from conditional_writes.dead_letters import DeadLetter, send_dead_letters

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient


def receive_count(record: SQSRecord) -> int:
    """How often it was delivered, this time included."""
    return int(record.attributes.approximate_receive_count)


class GivenUp(Exception):
    """The message was delivered as often as the queue allows, and could never be processed."""


class Counts(NamedTuple):
    """Of a batch: the records that are done, poison, given up, and back on the queue."""

    done: int
    poison: int
    given_up: int
    back: int


class Settling(NamedTuple):
    """A function's way to settle its records. `poison`: the exceptions that no further delivery can mend.

    A record's result is an exception where it isn't done, and anything else where it is.
    """

    client: "SQSClient"
    dead_letter_queue_url: str
    maximum_deliveries: int
    poison: tuple[type[Exception], ...]
    logger: Logger

    def given_up[Result](
        self, records: Sequence[SQSRecord], results: Sequence[Result | Exception]
    ) -> list[Result | Exception]:
        """The results, but at a record's last delivery what would go back to the queue is given up instead: with the
        reason, which SQS, when it moves the message, can't add."""
        return [
            GivenUp(f"given up after {receive_count(record)} deliveries: {str(result) or repr(result)}")
            if isinstance(result, Exception)
            and not isinstance(result, self.poison)
            and receive_count(record) >= self.maximum_deliveries
            else result
            for record, result in zip(records, results, strict=True)
        ]

    def settle(self, records: Sequence[SQSRecord], results: Sequence[object]) -> list[object]:
        """Sends poison, and what is given up, to the dead-letter queue. Returns what to report for each record."""
        dead = [index for index, result in enumerate(results) if isinstance(result, (*self.poison, GivenUp))]
        letters = [DeadLetter(records[index], str(results[index])) for index in dead]
        sent = send_dead_letters(self.client, self.dead_letter_queue_url, letters)
        settled = list(results)
        for index, failure in zip(dead, sent, strict=True):
            settled[index] = failure
            if failure:
                ids = {"message_id": records[index].message_id}
                self.logger.error("not dead-lettered", extra=ids, exc_info=failure)
        return settled

    def log_failure(self, failure: Exception, ids: dict[str, object], what: str) -> None:
        """One line: what never comes again with its reason; what does as `what`, with where it failed."""
        if isinstance(failure, (*self.poison, GivenUp)):
            self.logger.warning(type(failure).__name__, extra=ids | {"reason": str(failure)})
        else:
            self.logger.error(what, extra=ids, exc_info=failure)

    def counts(self, results: Sequence[object]) -> Counts:
        done = sum(not isinstance(result, Exception) for result in results)
        poison = sum(isinstance(result, self.poison) for result in results)
        given_up = sum(isinstance(result, GivenUp) for result in results)
        return Counts(done, poison, given_up, len(results) - done - poison - given_up)
