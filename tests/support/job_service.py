"""A job's function that takes some steps, and its queue, whose messages are delivered one after another by a clock."""

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools import Logger

from conditional_writes import Item
from conditional_writes.core.items import from_dynamodb
from conditional_writes.locks import Locks
from tests.support.clock import Clock
from tests.support.faults import Killed
from tests.support.sqs import ARN, Message, Sqs
from tests.support.template import resources
from tools.local_aws.functions import Context, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table, scan
from workers.invocation import RESERVED_SECONDS
from workers.scheduled_jobs import Job, JobQueue, Run, Step

FIRST, SECOND = (f"2026-03-0{day}T02:00:00+00:00" for day in (1, 2))
ON_SCHEDULE = {"job": "count", "scheduled_time": FIRST}
EVENT = ON_SCHEDULE | {"force": True}
NO_TIME = RESERVED_SECONDS
"""A timeout that leaves no time for a second step."""
QUEUE = resources("AWS::SQS::Queue")["ExpireHoldsQueue"]
VISIBILITY_SECONDS, MOST_RECEIVES = QUEUE["VisibilityTimeout"], QUEUE["RedrivePolicy"]["maxReceiveCount"]

_numbers = itertools.count(1)


class JobService:
    """`outcomes` has an outcome or an error's name for each invocation, `worked` the time and step of each step done.

    Each step calls `before_step` with its number, and is noted in the checkpoint. Each call of DynamoDB calls
    `before_call`.
    """

    def __init__(self, dynamodb: Endpoint, steps: int) -> None:
        self.dynamodb, self.client, self.number_of_steps = dynamodb, dynamodb.client("dynamodb"), steps
        self.clock = Clock()
        self.locks = Locks(self.client, create_locks_table(dynamodb, f"jobs-{next(_numbers)}"), now=self.clock)
        self.sqs = Sqs(self.clock)
        for name, attributes in (("dead", {}), ("jobs", _attributes())):
            self.sqs.answer("CreateQueue", {"QueueName": name, "Attributes": attributes}, "")
        client: Any = SimpleNamespace(
            change_message_visibility=lambda **asked: self.sqs.answer("ChangeMessageVisibility", asked, ""),
            send_message_batch=lambda **asked: self.sqs.answer("SendMessageBatch", asked, ""),
        )
        logger, metrics = Logger(service="teller", level="CRITICAL"), SimpleNamespace(add_metric=self._count)
        queue = JobQueue(client, "https://sqs/jobs", "https://sqs/dead")
        self.job = Job("count", self.work, self.locks, queue, logger, metrics)  # type: ignore[arg-type]
        self.outcomes: list[str] = []
        self.runs: list[Run] = []
        self.worked: list[tuple[str, int]] = []
        self.timeout_seconds = 60.0
        self.before_step: Callable[[int], object] = lambda number: None
        self.before_call: Callable[[str], object] = lambda operation: None
        self.client.meta.events.register("before-call", lambda model, **_: self.before_call(model.name))

    def work(self, run: Run) -> Iterator[Step]:
        self.runs.append(run)
        steps = run.checkpoint["steps"] if run.checkpoint else []
        for number in range(len(steps) + 1, self.number_of_steps + 1):
            self.before_step(number)
            self.worked.append((run.scheduled_time.isoformat(), number))
            steps = [*steps, number]
            yield Step({"steps": steps}, report={"steps": steps} if number == self.number_of_steps else None)

    # One invocation, without a queue

    def invoke(self, event: Any = EVENT, **fields: Any) -> str:
        """The outcome of a message that is sent now. Raises the job's error."""
        body = event if isinstance(event, str) else json.dumps(event | fields if fields else event)
        self.clock.seconds += 0.001
        sent_at = datetime.fromtimestamp(self.clock.seconds, UTC)
        context: Any = Context(self.timeout_seconds)
        return self.job.run(body, sent_at, context)

    def kill(self, step: int) -> None:
        """Runs the job until it is killed in this step: its lock is never released."""

        def acquire_for_good(*arguments: Any, **options: Any) -> Any:
            lock = acquire(*arguments, **options)
            lock.release = lambda: fail(Killed())
            return lock

        acquire = self.locks.acquire
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.locks, "acquire", acquire_for_good)
            patch.setattr(self, "before_step", fail_at(step, Killed()))
            with pytest.raises(Killed):
                self.invoke()

    def end_of_lease(self) -> None:
        self.clock.seconds += VISIBILITY_SECONDS

    # By the queue

    def send(self, event: Any = EVENT) -> None:
        self.sqs.send("jobs", event if isinstance(event, str) else json.dumps(event))

    def deliver(self) -> None:
        """Waits until a message is visible, and delivers it as Lambda does."""
        self.clock.seconds = max(self.clock.seconds, min(message.visible_at for message in self.waiting))
        asked = {"QueueUrl": "jobs", "AttributeNames": ["All"]}
        [message] = self.sqs.answer("ReceiveMessage", asked, "").get("Messages", [{}])
        if not message:
            return  # SQS has moved it
        received = {"messageId": message["MessageId"], "receiptHandle": message["ReceiptHandle"]}
        event = {"Records": [record(message["Body"]) | received | {"attributes": message["Attributes"]}]}
        context: Any = Context(self.timeout_seconds)
        try:
            answer = self.job.process(event, context)
        except (Killed, Exception) as error:  # noqa: BLE001 (the message comes again after any error)
            self.outcomes.append(type(error).__name__)
        else:
            if not answer["batchItemFailures"]:
                self.sqs.answer("DeleteMessage", {"QueueUrl": "jobs", "ReceiptHandle": message["ReceiptHandle"]}, "")

    def deliver_until_quiet(self) -> None:
        while self.waiting:
            self.deliver()

    @property
    def waiting(self) -> list[Message]:
        return self.sqs.queues["jobs"].messages

    @property
    def dead(self) -> list[Message]:
        return self.sqs.queues["dead"].messages

    def _count(self, name: str, _unit: Any, _value: float) -> None:
        self.outcomes.append(name)

    # What became of it

    def records(self) -> dict[str, Item]:
        items = map(from_dynamodb, scan(self.dynamodb, self.locks.table))
        return {item.pop("lock_key"): item for item in items}

    @property
    def steps(self) -> list[int]:
        return [number for _, number in self.worked]

    def assert_done_once(self, *scheduled_times: str) -> None:
        """Each step of these times was done once, and is in its report. Nothing is dead."""
        steps = list(range(1, self.number_of_steps + 1))
        records = self.records()
        assert [records[f"count {time}"]["steps"] for time in scheduled_times] == [steps] * len(scheduled_times)
        assert sorted(self.worked) == [(time, step) for time in sorted(scheduled_times) for step in steps]
        assert self.outcomes.count("Done") == len(scheduled_times)
        assert not self.dead


def _attributes() -> dict[str, str]:
    policy = {"deadLetterTargetArn": f"{ARN}dead", "maxReceiveCount": MOST_RECEIVES}
    names = ("VisibilityTimeout", "MessageRetentionPeriod")
    return {name: str(QUEUE[name]) for name in names} | {"RedrivePolicy": json.dumps(policy)}


def fail(error: BaseException) -> None:
    raise error


def fail_at(step: int, error: BaseException) -> Callable[[int], object]:
    return lambda number: fail(error) if number == step else None
