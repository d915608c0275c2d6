"""The deployed application, as its producers, its auditors and its operators see it."""

import itertools
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.checkers.books import Books, read_books
from tests.checkers.profiles import Profiles, read_profiles
from tools.local_aws import stack
from tools.local_aws.functions import metric_totals
from tools.local_aws.queues import DeadLetter, take_dead_letters, waiting_messages
from tools.local_aws.stack import Stack
from tools.local_aws.tables import Tables

RETRY_SETTINGS = {"LAMBDA_ASYNC_RETRY_BASE_SECONDS": "11"}
"""ministack's: how soon it tries an asynchronous invocation again. Why: tests/soak/scheduled_runs.py."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def until(holds: Callable[[], object], claim: str, seconds: float = 60) -> None:
    """Returns as soon as it holds. Fails, with the claim, where it doesn't in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {claim}"
        time.sleep(0.05)


@dataclass
class Line:
    """A queue, the function that works on it, and its dead letters. `name` is how the stack's outputs begin."""

    stack: Stack
    name: str
    function_name: str

    @cached_property
    def sqs(self):
        return self.stack.endpoint.client("sqs")

    @property
    def queue_url(self) -> str:
        return self.stack[f"{self.name}QueueUrl"]

    @property
    def dead_letter_queue_url(self) -> str:
        return self.stack[f"{self.name}DeadLetterQueueUrl"]

    def send(self, messages: Iterable[str | DeadLetter]) -> None:
        """Dead letters are sent again as they are, their reason on them."""
        for batch in itertools.batched(messages, 10, strict=False):
            entries = [_message(message) | {"Id": str(index)} for index, message in enumerate(batch)]
            assert not self.sqs.send_message_batch(QueueUrl=self.queue_url, Entries=entries).get("Failed")

    def wait_until_drained(self) -> None:
        until(lambda: not waiting_messages(self.sqs, self.queue_url), "the queue is empty", seconds=120)

    def take_dead_letters(self) -> list[DeadLetter]:
        return take_dead_letters(self.stack.endpoint, self.dead_letter_queue_url)

    def log_lines(self) -> list[str]:
        """What the function wrote, without Lambda's own lines.

        Not all of it: ministack 1.5.33 waits 50 ms for an invocation's first line and 5 ms for each more, and what its
        thread reads later stays with that process until its next invocation.
        """
        events = log_events(self.stack, self.function_name)
        return [event for event in events if not event.startswith(("START ", "END ", "REPORT "))]

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_lines()]

    @contextmanager
    def visibility_timeout(self, seconds: int) -> Iterator[None]:
        """How soon the queue delivers again what a function died with. As the template has it: eight minutes."""
        before = self.sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=["VisibilityTimeout"])
        self.sqs.set_queue_attributes(QueueUrl=self.queue_url, Attributes={"VisibilityTimeout": str(seconds)})
        try:
            yield
        finally:
            self.sqs.set_queue_attributes(QueueUrl=self.queue_url, Attributes=before["Attributes"])


def log_events(stack: Stack, function_name: str, start: datetime = EPOCH, end: datetime | None = None) -> list[str]:
    """What a function's log has of a time, Lambda's own lines among it.

    ministack 1.5.33 answers with the first 10,000 and no token for the rest: ask for a time that has less.
    """
    function = stack.endpoint.client("lambda").get_function_configuration(FunctionName=function_name)
    times = {"startTime": _milliseconds(start)} | ({"endTime": _milliseconds(end) - 1} if end else {})
    pages = stack.endpoint.client("logs").get_paginator("filter_log_events")
    found = [
        event["message"]
        for page in pages.paginate(logGroupName=function["LoggingConfig"]["LogGroup"], **times)
        for event in page["events"]
    ]
    assert len(found) < 10_000, f"{function_name}: the log of this time is longer than what came"
    return found


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def metrics(lines: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """`metric_totals` of a deployed function's log: all are in the stack's namespace."""
    lines = list(lines)
    directives = [each for line in lines for each in line.get("_aws", {}).get("CloudWatchMetrics", [])]
    assert {directive["Namespace"] for directive in directives} <= {f"Teller/{stack.NAME}"}
    return metric_totals(lines)


@dataclass
class Bank:
    """`pid` and `log` are the local AWS's: the functions are its child processes."""

    stack: Stack
    pid: int
    log: Path

    @cached_property
    def transactions(self) -> Line:
        return Line(self.stack, "Transactions", self.stack["ProcessTransactionsFunctionName"])

    @cached_property
    def profiles(self) -> Line:
        return Line(self.stack, "Profiles", self.stack["UpsertProfilesFunctionName"])

    def books(self) -> Books:
        return read_books(self.stack.endpoint, Tables(self.stack["AccountsTableName"], self.stack["JournalTableName"]))

    def read_profiles(self) -> Profiles:
        return read_profiles(self.stack.endpoint, self.stack["ProfilesTableName"])

    def died_at_work(self, line: Line) -> int:
        """How many of its function did, or while they started for a batch, in the local AWS's own words."""
        died = [text for text in self.log.read_text().splitlines() if "errorMessage=Worker process " in text]
        return sum(line.function_name in text for text in died)

    def kill(self, pids: Iterable[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def function_processes(self) -> list[int]:
        """Those of all functions that run now, at work or waiting for some."""
        return [pid for pid, state, parent in _processes() if parent == self.pid and state != "Z"]


def _processes() -> Iterator[tuple[int, str, int]]:
    """Each one's id, state and parent."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            yield int(path.parent.name), state, int(parent)


def _message(message: str | DeadLetter) -> dict[str, Any]:
    if isinstance(message, str):
        return {"MessageBody": message}
    attributes = {"reason": {"DataType": "String", "StringValue": message.reason}} if message.reason else {}
    return {"MessageBody": message.body, "MessageAttributes": attributes}
