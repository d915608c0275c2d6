"""Runs the application's functions in this process, with events as Lambda sends them."""

import importlib.util
import itertools
import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

from aws_lambda_powertools.metrics import EphemeralMetrics

from tools.local_aws.server import PROJECT, Endpoint, shared_client
from tools.local_aws.tables import Tables, create_attempts_table, create_locks_table
from tools.teller.message_queues import MessageQueue

QUEUE_LIMITS = {"RETENTION_SECONDS": "604800", "LONGEST_REDELIVERY_SECONDS": "900", "MAXIMUM_WAITS": "8"}
"""Variables of both queues' functions, as in template.yaml but for the waits: here they are few."""
JOB_QUEUES = {"QUEUE_URL": "http://127.0.0.1:9/jobs", "DEAD_LETTER_QUEUE_URL": "http://127.0.0.1:9/dead-jobs"}
"""Variables of the jobs' functions. Who wants to see their queues has others."""
SAMPLE_QUEUES = {
    MessageQueue.TRANSACTIONS: "teller-dev-TransactionsQueue-Zk3v9QxT1bLm",
    MessageQueue.ADMINISTRATION: "teller-dev-AdministrationQueue-Hq7c2WnR8dYs",
    MessageQueue.PROFILES: "teller-dev-ProfilesQueue-Qw7d2RfX9cNp",
}
"""The queues of the records in events/, and in the tests."""
SAMPLE_JOURNAL = "teller-dev-JournalTable-1QX4Z8KD2M5R"
"""The table of the stream in events/publish_outcomes, and in the tests' records."""


@dataclass
class Context:
    """A handler's Lambda context."""

    timeout_seconds: float = 90
    function_name: str = "process-transactions"
    memory_limit_in_mb: int = 1024
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:000000000000:function:process-transactions"
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108 (the clock may be simulated later)

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.started + self.timeout_seconds - time.monotonic()) * 1000))


def load_function(name: str, endpoint: Endpoint, environment: Mapping[str, str]) -> ModuleType:
    """The function's app.py, imported again as at a cold start. Its clients use `endpoint`.

    The module isn't in `sys.modules`: it is freed, with its clients, once the caller has dropped it.
    """
    path = PROJECT / "functions" / name / "app.py"
    spec = importlib.util.spec_from_file_location(f"{name}_{uuid.uuid4().hex}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    # Powertools reads these two at each call, and all other variables at the import.
    os.environ.update(POWERTOOLS_SERVICE_NAME="teller", POWERTOOLS_METRICS_NAMESPACE="Teller")
    with (
        mock.patch.dict(os.environ, endpoint.environment | environment),
        # `Metrics` shares one set of metrics among the threads of a process. Here each thread is a worker with its own.
        mock.patch("aws_lambda_powertools.Metrics", EphemeralMetrics),
        # A cold start freezes all objects. In this process that is the garbage of other functions, too.
        mock.patch("gc.freeze"),
    ):
        spec.loader.exec_module(module)
        if hasattr(module, "refusals"):
            _ = module.refusals.bus  # Otherwise made later, by other variables.
        # All functions loaded in this process share one logger, and Powertools keeps the level of the first.
        module.logger.setLevel(os.environ.get("POWERTOOLS_LOG_LEVEL", "INFO"))
    return module


def process_transactions(
    aws: Endpoint, tables: Tables, dynamodb: Endpoint | None = None, **variables: str
) -> ModuleType:
    """The function with new queues on `aws`. Its tables are on `dynamodb` if that is given, else on `aws`."""
    fixed = {
        "ACCOUNTS_TABLE": tables.accounts,
        "JOURNAL_TABLE": tables.journal,
        "REVERSALS_TABLE": tables.reversals,
        "REFUSALS_TABLE": tables.refusals,
        "MINOR_UNITS": "on",
        "DOUBLE_ENTRY": "off",
        "OUTCOMES_BUS": "default",
    }
    variables = fixed | variables
    if "LOCKS_TABLE" not in variables:
        variables["LOCKS_TABLE"] = create_locks_table(dynamodb or aws, f"process_transactions-{next(_numbers)}")
    variables["ADMINISTRATION_QUEUE_URL"] = administration_queue(aws)
    return _with_queues("process_transactions", aws, dynamodb or aws, variables)


def upsert_profiles(
    aws: Endpoint, profiles_table: str, dynamodb: Endpoint | None = None, **variables: str
) -> ModuleType:
    """The function with new queues on `aws`. Its table is on `dynamodb` if that is given, else on `aws`."""
    return _with_queues("upsert_profiles", aws, dynamodb or aws, {"PROFILES_TABLE": profiles_table} | variables)


def reconcile_accounts(dynamodb: Endpoint, tables: Tables, locks_table: str, **variables: str) -> ModuleType:
    fixed = {
        "ACCOUNTS_TABLE": tables.accounts,
        "JOURNAL_TABLE": tables.journal,
        "REVERSALS_TABLE": tables.reversals,
        "CHECKPOINTS_TABLE": tables.checkpoints,
        "LOCKS_TABLE": locks_table,
        "DOUBLE_ENTRY": "off",
    }
    return load_function("reconcile_accounts", dynamodb, fixed | JOB_QUEUES | variables)


def read_accounts(dynamodb: Endpoint, tables: Tables, **variables: str) -> ModuleType:
    fixed = {
        "ACCOUNTS_TABLE": tables.accounts,
        "JOURNAL_TABLE": tables.journal,
        "REVERSALS_TABLE": tables.reversals,
        "REFUSALS_TABLE": tables.refusals,
    }
    return load_function("read_accounts", dynamodb, fixed | variables)


def post_transactions(dynamodb: Endpoint, tables: Tables, locks_table: str, **variables: str) -> ModuleType:
    fixed = {
        "ACCOUNTS_TABLE": tables.accounts,
        "JOURNAL_TABLE": tables.journal,
        "REVERSALS_TABLE": tables.reversals,
        "REFUSALS_TABLE": tables.refusals,
        "LOCKS_TABLE": locks_table,
        "MINOR_UNITS": "on",
        "DOUBLE_ENTRY": "off",
        "HAS_URL": "off",
    }
    return load_function("post_transactions", dynamodb, fixed | variables)


def publish_outcomes(aws: Endpoint, **variables: str) -> ModuleType:
    """The function with a new bus and a new dead-letter queue on `aws`: `OUTCOMES_BUS` and `DEAD_LETTER_QUEUE_URL`."""
    fixed = {"JOURNAL_TABLE": SAMPLE_JOURNAL} | _bus_and_dead_letter_queue("publish_outcomes", aws, variables)
    return load_function("publish_outcomes", aws, fixed | variables)


def republish_outcomes(aws: Endpoint, tables: Tables, dynamodb: Endpoint | None = None, **variables: str) -> ModuleType:
    """As `publish_outcomes`. Its tables are on `dynamodb` if that is given, else on `aws`."""
    fixed = {
        "ACCOUNTS_TABLE": tables.accounts,
        "JOURNAL_TABLE": tables.journal,
        "AWS_ENDPOINT_URL_DYNAMODB": (dynamodb or aws).url,
    }
    fixed |= _bus_and_dead_letter_queue("republish_outcomes", aws, variables)
    return load_function("republish_outcomes", aws, fixed | variables)


def _bus_and_dead_letter_queue(function: str, aws: Endpoint, given: Mapping[str, str]) -> dict[str, str]:
    name = f"{function}-{next(_numbers)}"
    if "OUTCOMES_BUS" not in given:
        shared_client(aws, "events").create_event_bus(Name=name)
    queue = given.get("DEAD_LETTER_QUEUE_URL") or _new_queue(aws, f"{name}-dead")
    return {"OUTCOMES_BUS": name, "DEAD_LETTER_QUEUE_URL": queue}


def charge_overdraft_interest(
    aws: Endpoint, tables: Tables, locks_table: str, queue_url: str, dynamodb: Endpoint | None = None, **variables: str
) -> ModuleType:
    """The function. It sends to this queue on `aws`. Its tables are on `dynamodb` if that is given, else on `aws`."""
    variables = {"INTEREST_ACCOUNT_ID": ""} | variables
    return _sending_job("charge_overdraft_interest", aws, tables, locks_table, queue_url, dynamodb, variables)


def expire_holds(
    aws: Endpoint, tables: Tables, locks_table: str, queue_url: str, dynamodb: Endpoint | None = None, **variables: str
) -> ModuleType:
    """As `charge_overdraft_interest`."""
    return _sending_job("expire_holds", aws, tables, locks_table, queue_url, dynamodb, variables)


def _sending_job(
    name: str,
    aws: Endpoint,
    tables: Tables,
    locks_table: str,
    queue_url: str,
    dynamodb: Endpoint | None,
    variables: Mapping[str, str],
) -> ModuleType:
    fixed = {"ACCOUNTS_TABLE": tables.accounts, "LOCKS_TABLE": locks_table, "ADMINISTRATION_QUEUE_URL": queue_url}
    fixed |= {"AWS_ENDPOINT_URL_DYNAMODB": (dynamodb or aws).url}
    return load_function(name, aws, fixed | JOB_QUEUES | dict(variables))


def administration_queue(aws: Endpoint) -> str:
    """The URL of the queue that sample records are from, also if no message was on it."""
    return _new_queue(aws, SAMPLE_QUEUES[MessageQueue.ADMINISTRATION])


def _new_queue(aws: Endpoint, name: str) -> str:
    return str(shared_client(aws, "sqs").create_queue(QueueName=name)["QueueUrl"])


def _with_queues(name: str, aws: Endpoint, dynamodb: Endpoint, variables: Mapping[str, str]) -> ModuleType:
    """The dead-letter queue is that of the administration, too."""
    number = next(_numbers)
    queue, dead_letter_queue = (_new_queue(aws, f"{name}-{which}-{number}") for which in ("alive", "dead"))
    fixed = QUEUE_LIMITS | {
        "AWS_ENDPOINT_URL_DYNAMODB": dynamodb.url,
        "QUEUE_URL": queue,
        "DEAD_LETTER_QUEUE_URL": dead_letter_queue,
        "ATTEMPTS_TABLE": variables.get("ATTEMPTS_TABLE") or create_attempts_table(dynamodb, f"{name}-{number}"),
    }
    fixed["ADMINISTRATION_DEAD_LETTER_QUEUE_URL"] = variables.get("DEAD_LETTER_QUEUE_URL", dead_letter_queue)
    return load_function(name, aws, fixed | dict(variables))


_numbers = itertools.count(1)


def record(message: object, receive_count: int = 1, sent_at: datetime | None = None) -> dict[str, Any]:
    """An SQS record of Lambda's event, from the queue that takes its type. Sent now by default.

    `message` is the body, or a value to be encoded as JSON.
    """
    from tools.teller.message_files import queue_of  # noqa: PLC0415 (the library's own tests run without the ledger)

    number, body = next(_numbers), message if isinstance(message, str) else json.dumps(message)
    encoded = body.encode(errors="replace")
    sent_at = sent_at or datetime.now(UTC)
    return {
        "messageId": f"message-{number}",
        "receiptHandle": f"receipt-{number}",
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": str(receive_count),
            "SentTimestamp": str(int(sent_at.timestamp() * 1000)),
            "SenderId": "000000000000",
            "ApproximateFirstReceiveTimestamp": str(int(time.time() * 1000)),
        },
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{SAMPLE_QUEUES[queue_of(encoded)]}",
        "awsRegion": "us-east-1",
    }


def invoke(function: ModuleType, records: Iterable[dict[str, Any]], context: Context | None = None) -> set[str]:
    """The ids of the messages that return to their queues.

    A batch is of one queue: where the records' source changes, a new invocation begins.
    """
    failed = set[str]()
    for _, batch in itertools.groupby(records, key=lambda record: record.get("eventSourceARN")):
        response = function.lambda_handler({"Records": list(batch)}, context or Context())
        failed |= {failure["itemIdentifier"] for failure in response["batchItemFailures"]}
    return failed


def run_job(function: ModuleType, event: Mapping[str, Any], context: Context | None = None) -> str:
    """The outcome of an invocation of a job's function for a message with this body, which is sent now.

    Raises what the job raises: the function itself hands the message back.
    """
    sent_at = datetime.fromtimestamp(function.job.locks.now(), UTC)
    outcome: str = function.job.run(json.dumps(event), sent_at, context or Context())
    return outcome


def metric_totals(lines: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The sums of the embedded metrics in log lines, by name. Rejections and dead letters also by their reasons."""
    totals: Counter[str] = Counter()
    for line in lines:
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", []):
            for metric in directive["Metrics"]:
                totals[line.get("Reason") or line.get("ReasonCode") or metric["Name"]] += sum(line[metric["Name"]])
    return totals


def stream_record(item: dict[str, Any] | None, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The record of a new item in an event of the journal's stream, in DynamoDB's JSON; with `before`, of a changed or
    a removed one."""
    images = {"NewImage": item, "OldImage": before}
    key = item or before or {}
    return {
        "eventID": uuid.uuid4().hex,
        "eventName": "INSERT" if before is None else "MODIFY" if item else "REMOVE",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": int(time.time()),
            "Keys": {name: key[name] for name in ("account_id", "transaction_id") if name in key},
            **{name: image for name, image in images.items() if image is not None},
            "SequenceNumber": f"{next(_numbers):021}",
            "SizeBytes": 0,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": f"arn:aws:dynamodb:us-east-1:1:table/{SAMPLE_JOURNAL}/stream/2026-11-22T08:00:00.000",
    }


class Place(NamedTuple):
    """A batch in a stream, by the sequence numbers of its first record and its last one."""

    first: str
    last: str


@dataclass
class Stream:
    """A shard of a DynamoDB stream as Lambda reads it, without pauses: batch after batch, in the records' order.

    If the response names failures, the records from the first of them on come again. After an interruption the batch
    comes again in two halves, which is no retry yet. `given_up` has the batches with too many retries: their places go
    to the on-failure queue. https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-batchfailurereporting.html
    https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html
    """

    records: list[dict[str, Any]]
    batch_size: int = 100
    maximum_retries: int = 300
    given_up: list[Place] = field(default_factory=list)
    _batches: list[tuple[list[dict[str, Any]], int]] = field(default_factory=list)

    @property
    def is_quiet(self) -> bool:
        return not self.records and not self._batches

    def deliver(self, function: ModuleType, *interruptions: type[BaseException]) -> None:
        """Invokes the function with the first batch. No other is delivered before this one has ended."""
        if not self._batches:
            self._batches = [(self.records[: self.batch_size], 0)]
            self.records = self.records[self.batch_size :]
        batch, retries = self._batches.pop(0)
        numbers = [record["dynamodb"]["SequenceNumber"] for record in batch]
        try:
            failed = invoke(function, batch)
            assert failed <= set(numbers), f"{failed} aren't in this batch"
            first = min((numbers.index(number) for number in failed), default=len(batch))
        except interruptions:
            first, half = 0, len(batch) // 2
            if half:
                self._batches[:0] = [(batch[:half], retries), (batch[half:], retries)]
                return
        if first < len(batch) and retries < self.maximum_retries:
            self._batches.insert(0, (batch[first:], retries + 1))
        elif first < len(batch):
            self.given_up.append(Place(numbers[first], numbers[-1]))

    def deliver_until_quiet(self, function: ModuleType, *interruptions: type[BaseException]) -> None:
        for _ in range(1000):
            if self.is_quiet:
                return
            self.deliver(function, *interruptions)
        raise AssertionError(f"still in the stream after 1,000 deliveries: {self.records}, {self._batches}")


@dataclass
class Queue:
    """An SQS queue without delays: messages that aren't done are delivered again, with a higher receive count."""

    records: list[dict[str, Any]]

    def deliver(self, function: ModuleType, *interruptions: type[BaseException]) -> None:
        """Invokes the function with all waiting messages. After an interruption all of them return to the queue."""
        try:
            failed = invoke(function, self.records)
        except interruptions:
            failed = {record["messageId"] for record in self.records}
        self.records = [again(record) for record in self.records if record["messageId"] in failed]

    def deliver_until_quiet(self, function: ModuleType, *interruptions: type[BaseException]) -> None:
        for _ in range(20):
            if not self.records:
                return
            self.deliver(function, *interruptions)
        raise AssertionError(f"still on the queue after 20 deliveries: {[record['body'] for record in self.records]}")


def again(record: dict[str, Any]) -> dict[str, Any]:
    """The record of the message's next delivery."""
    count = int(record["attributes"]["ApproximateReceiveCount"]) + 1
    return record | {"attributes": record["attributes"] | {"ApproximateReceiveCount": str(count)}}
