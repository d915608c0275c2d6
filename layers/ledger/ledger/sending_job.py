"""The work of the jobs that send messages about accounts to the administration's queue: interest, and expired holds.

A message is made of its account and the scheduled time alone, and what it does is decided when it is posted. So a page
that is sent again changes nothing, even without the job's lock.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from conditional_writes import Deadline, Item
from ledger.table_reading import account_page
from workers.scheduled_jobs import Run, Step
from workers.sending import Message, send_all

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_sqs import SQSClient

SENDING_SECONDS = 30
"""If the messages of a step aren't sent by then, the run's own message comes again, and so does the step."""


class SkippedAccount(Exception):
    """No message can be made of the account's item. The text says why."""


class Sent(Protocol):
    """A message of the administration's queue."""

    def canonical_payload(self) -> dict[str, Any]: ...


class SendingJob(NamedTuple):
    """A job that sends to this queue. Its messages have the `group` by which SQS lets other messages pass them.

    `metric` counts the messages, `AccountsSkipped` the accounts of which none can be made.
    """

    group: str
    metric: str
    dynamodb: "DynamoDBClient"
    accounts_table: str
    sqs: "SQSClient"
    queue_url: str
    logger: Logger
    metrics: Metrics

    def steps(
        self,
        run: Run,
        accounts: Mapping[str, Any],
        messages_about: Callable[[Item], Sequence[Sent]],
        accounts_per_step: int,
    ) -> Iterator[Step]:
        """A page of accounts a step. The checkpoint has the last account, and how much was sent and skipped.

        `accounts` has the parameters of a Scan that choose the accounts. `messages_about` raises SkippedAccount.
        """
        progress = run.checkpoint or {"after": None, "sent": 0, "accounts_skipped": 0}
        while True:
            page = account_page(self.dynamodb, self.accounts_table, progress["after"], accounts_per_step, **accounts)
            sent, skipped = self._send(page.items, messages_about)
            report = {
                "sent": int(progress["sent"]) + sent,
                "accounts_skipped": int(progress["accounts_skipped"]) + skipped,
            }
            self.logger.info("sent", extra={"transactions": sent, "so_far": report["sent"]})
            progress = {"after": page.after} | report
            yield Step(progress, report=report if page.after is None else None)

    def _send(self, accounts: Sequence[Item], messages_about: Callable[[Item], Sequence[Sent]]) -> tuple[int, int]:
        """How many messages were sent, and how many accounts were skipped."""
        messages, skipped = list[Message](), dict[str, str]()
        for account in accounts:
            try:
                payloads = [each.canonical_payload() for each in messages_about(account)]
                messages += [Message(json.dumps(payload), group_id=self.group) for payload in payloads]
            except SkippedAccount as error:
                skipped[account["account_id"]] = str(error)
        for account_id, reason in skipped.items():
            self.logger.error("skipped", extra={"account_id": account_id, "reason": reason})
        send_all(self.sqs, self.queue_url, messages, Deadline.after(SENDING_SECONDS))
        self.metrics.add_metric(self.metric, MetricUnit.Count, len(messages))
        self.metrics.add_metric("AccountsSkipped", MetricUnit.Count, len(skipped))
        return len(messages), len(skipped)
