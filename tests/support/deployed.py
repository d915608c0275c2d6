"""Access to the deployed application: its queues, books, profiles, logs and processes."""

import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from conditional_writes.core.items import from_dynamodb
from ledger.core.journal import JournalEntry
from tests.checkers.books import Books, read_books
from tests.checkers.profiles import Profiles, read_profiles
from tools.local_aws.consumers import EVERYTHING, Consumer, new_consumer
from tools.local_aws.queues import DeadLetter, take_dead_letters, waiting_messages
from tools.local_aws.stack import Stack, publish, unqualified
from tools.local_aws.tables import Tables, scan
from tools.teller.job_records import JOBS
from tools.teller.message_files import queue_of

NEVER = "at(2099-01-01T00:00:00)"
PARAMETERS = {job.schedule_parameter: NEVER for job in JOBS.values()} | {"MaximumConcurrency": 2}
"""The stack's: no job runs in the midst of a test, and few processes have to start, each of which takes seconds."""
ROOTS_BUCKET = "roots-of-the-ledger"


def until(holds: Callable[[], object], claim: str, seconds: float = 180) -> None:
    """Waits until `holds` returns a true value. Fails with the claim if the time is up.

    It looks less often the longer it waits: each look takes time from what it waits for.
    """
    deadline, pause = time.monotonic() + seconds, 0.05
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {claim}"
        time.sleep(pause)
        pause = min(0.5, 1.3 * pause)


@dataclass
class FunctionQueue:
    """A queue with its function and its dead-letter queue. `name` is the prefix of the stack's outputs.

    Of a function with a second queue, `second` is that one's: it gets the messages of its own types.
    """

    stack: Stack
    name: str
    function_name: str
    second: str | None = None

    @cached_property
    def sqs(self):
        return self.stack.endpoint.client("sqs")

    @property
    def queue_url(self) -> str:
        return self.stack[f"{self.name}QueueUrl"]

    @property
    def dead_letter_queue_url(self) -> str:
        return self.stack[f"{self.name}DeadLetterQueueUrl"]

    def send(self, *messages: Mapping[str, Any] | str | DeadLetter) -> None:
        """Sends messages, given as objects or as bodies. Dead letters are sent with their reasons."""
        for url, of_queue in itertools.groupby(map(_message, messages), key=self._url_of):
            for batch in itertools.batched(of_queue, 10, strict=False):
                entries = [message | {"Id": str(index)} for index, message in enumerate(batch)]
                assert not self.sqs.send_message_batch(QueueUrl=url, Entries=entries).get("Failed")

    def _url_of(self, message: Mapping[str, Any]) -> str:
        queue = queue_of(message["MessageBody"].encode(errors="replace"))
        return self.stack[queue.output] if queue == (self.second or "").lower() else self.queue_url

    def process(self, *messages: Mapping[str, Any] | str | DeadLetter) -> None:
        """Sends messages, and waits until the queue is empty."""
        self.send(*messages)
        self.wait_until_drained()

    def waiting(self) -> int:
        """The number of messages on the queues, in flight and delayed messages included."""
        names = filter(None, (self.name, self.second))
        return sum(waiting_messages(self.sqs, self.stack[f"{name}QueueUrl"]) for name in names)

    def wait_until_drained(self) -> None:
        """Waits for all messages, those too that come again after their first three delays: some three minutes."""
        until(lambda: not self.waiting(), "the queue is empty", seconds=240)

    def take_dead_letters(self) -> list[DeadLetter]:
        names = filter(None, (self.name, self.second))
        urls = [self.stack[f"{name}DeadLetterQueueUrl"] for name in names]
        return [letter for url in urls for letter in take_dead_letters(self.stack.endpoint, url)]

    def changed_environment(self, **variables: str) -> AbstractContextManager[None]:
        return changed_environment(self.stack, self.function_name, **variables)

    @contextmanager
    def visibility_timeout(self, seconds: int) -> Iterator[None]:
        """Sets the time until messages of a killed function are delivered again. The template has 14 minutes."""
        before = self.sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=["VisibilityTimeout"])
        self.sqs.set_queue_attributes(QueueUrl=self.queue_url, Attributes={"VisibilityTimeout": str(seconds)})
        try:
            yield
        finally:
            self.sqs.set_queue_attributes(QueueUrl=self.queue_url, Attributes=before["Attributes"])


@contextmanager
def changed_function(stack: Stack, function_name: str, **changed: Any) -> Iterator[None]:
    """Publishes a version with these settings, as a deployment does, and afterwards one with those of before.

    `function_name` is that of an output: it ends with the alias.
    """
    lambda_ = stack.endpoint.client("lambda")

    def change(settings: dict[str, Any]) -> None:
        lambda_.update_function_configuration(FunctionName=unqualified(function_name), **settings)
        publish(lambda_, function_name)

    before = lambda_.get_function_configuration(FunctionName=function_name)
    change(changed)
    try:
        yield
    finally:
        change({setting: before[setting] for setting in changed})


@contextmanager
def changed_environment(stack: Stack, function_name: str, **variables: str) -> Iterator[None]:
    configuration = stack.endpoint.client("lambda").get_function_configuration(FunctionName=function_name)
    environment = {"Variables": configuration["Environment"]["Variables"] | variables}
    with changed_function(stack, function_name, Environment=environment):
        yield


@contextmanager
def denied(stack: Stack, function_name: str, *actions: str, resource: str = "*") -> Iterator[None]:
    """The function's role may do none of these: by default on any resource, as in an outage."""
    with statement_more(stack, function_name, {"Effect": "Deny", "Action": list(actions), "Resource": resource}):
        yield


@contextmanager
def statement_more(stack: Stack, function_name: str, statement: Mapping[str, Any]) -> Iterator[None]:
    """The function's role has one statement more."""
    configuration = stack.endpoint.client("lambda").get_function_configuration(FunctionName=function_name)
    role, iam = configuration["Role"].rpartition("/")[2], stack.endpoint.client("iam")
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName=role, PolicyName="of-a-test", PolicyDocument=document)
    try:
        yield
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName="of-a-test")


@dataclass
class Bank:
    """The deployed stack. `pid` and `log` are those of the local AWS, whose child processes run the functions."""

    stack: Stack
    pid: int
    log: Path

    @cached_property
    def transactions(self) -> FunctionQueue:
        """With the administration's queue."""
        name = self.stack["ProcessTransactionsFunctionName"]
        return FunctionQueue(self.stack, "Transactions", name, "Administration")

    @cached_property
    def profiles(self) -> FunctionQueue:
        return FunctionQueue(self.stack, "Profiles", self.stack["UpsertProfilesFunctionName"])

    def books(self) -> Books:
        accounts, journal, reversals = (self.stack[f"{name}TableName"] for name in ("Accounts", "Journal", "Reversals"))
        return read_books(self.stack.endpoint, Tables(accounts, journal, reversals=reversals))

    def post(self, *messages: Mapping[str, Any] | str, about: str) -> list[JournalEntry]:
        """The account's journal, once these messages are posted: in any order."""
        self.transactions.process(*messages)
        return self.books().journal.get(about, [])

    def records(self) -> dict[str, dict[str, Any]]:
        """The items of the Locks table, by their keys."""
        items = map(from_dynamodb, scan(self.stack.endpoint, self.stack["LocksTableName"]))
        return {item["lock_key"]: item for item in items}

    def read_profiles(self) -> Profiles:
        return read_profiles(self.stack.endpoint, self.stack["ProfilesTableName"])

    @property
    def republisher(self) -> str:
        """The name of the function that publishes outcomes again."""
        return self.stack["RepublishOutcomesFunctionName"]

    def new_consumer(self, name: str, pattern: Mapping[str, Any] = EVERYTHING) -> Consumer:
        """A new consumer of the outcomes' bus."""
        return new_consumer(self.stack.endpoint, self.stack["OutcomesBusName"], name, pattern)

    def take_unpublished(self) -> list[DeadLetter]:
        """Takes the dead letters of outcomes."""
        return take_dead_letters(self.stack.endpoint, self.stack["OutcomesDeadLetterQueueUrl"])

    def republish(self, request: Mapping[str, Any]) -> int:
        """Has entries published again, in as many invocations as it takes. Returns the number of events."""
        published, events = 0, [{"republish": request}]
        while events:
            answer = self.invoke(self.republisher, events.pop())
            assert not {"error", "missing_versions"} & {name for name, value in answer.items() if value}, answer
            published += answer["published"]
            events += answer["next"]
        return published

    def invoke(self, function_name: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """The function's answer. Raises AssertionError if the function fails."""
        response = self.stack.endpoint.client("lambda").invoke(FunctionName=function_name, Payload=json.dumps(event))
        answer: dict[str, Any] = json.loads(response["Payload"].read())
        assert "FunctionError" not in response, answer
        return answer

    def died_at_work(self, function_name: str) -> int:
        """The number of the function's processes that died in an invocation or at its start, by the local AWS's log."""
        died = [text for text in self.log.read_text().splitlines() if "errorMessage=Worker process " in text]
        return sum(unqualified(function_name) in text for text in died)

    def kill(self, pids: Iterable[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def function_processes(self) -> list[int]:
        """The process ids of all functions, busy or idle."""
        return [pid for pid, state, parent in _processes() if parent == self.pid and state != "Z"]


def _processes() -> Iterator[tuple[int, str, int]]:
    """The id, state and parent id of each process."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # The process has just ended.
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            yield int(path.parent.name), state, int(parent)


def _message(message: Mapping[str, Any] | str | DeadLetter) -> dict[str, Any]:
    if not isinstance(message, DeadLetter):
        return {"MessageBody": message if isinstance(message, str) else json.dumps(message)}
    attributes = {"reason": {"DataType": "String", "StringValue": message.reason}} if message.reason else {}
    return {"MessageBody": message.body, "MessageAttributes": attributes}
