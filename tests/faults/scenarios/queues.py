"""Helpers of the scenarios with queues."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any
from unittest import mock

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from tests.support.faults import Faults, Killed
from tools.local_aws.functions import Queue, invoke
from tools.local_aws.queues import DeadLetter

FOR_EVER = str(100 * 365 * 24 * 3600)
"""A retention for messages that were sent at a fixed time in the past: none is to be given up for its age."""


def deliver_until_quiet(function: ModuleType, queue: Queue, faults: Faults, *clients: Any) -> None:
    with deleted_receipts(function.worker.queue.client) as deleted, faults.on(*clients):
        for _ in range(20 + faults.outage.invocations):
            faults.revive()
            queue.deliver(function, Killed)
            queue.records = [waiting for waiting in queue.records if waiting["receiptHandle"] not in deleted]
            if not queue.records:
                break


@contextlib.contextmanager
def deleted_receipts(client: Any) -> Iterator[set[str]]:
    """The receipt handles of the messages that the function itself has deleted, even if it got no answer."""
    deleted: set[str] = set()
    session = client._endpoint.http_session
    send = session.send

    def noting(request: AWSPreparedRequest) -> AWSResponse:
        response: AWSResponse = send(request)
        if request.headers["X-Amz-Target"] in {"AmazonSQS.DeleteMessageBatch", b"AmazonSQS.DeleteMessageBatch"}:
            deleted.update(entry["ReceiptHandle"] for entry in json.loads(request.body)["Entries"])
        return response

    with mock.patch.object(session, "send", noting):
        yield deleted


@contextlib.contextmanager
def competing_worker_first(
    client: Any, operation: str, competing: ModuleType, records: Sequence[dict[str, Any]]
) -> Iterator[None]:
    """A competing worker processes these records before the client's first call of this operation."""
    lock, waiting = threading.Lock(), [records]

    def deliver(**_: Any) -> None:
        with lock:  # The other threads wait, too, so that the number of calls doesn't depend on chance.
            if waiting:
                invoke(competing, waiting.pop())

    with before_call(client, operation, deliver):
        yield


@contextlib.contextmanager
def before_call(client: Any, operation: str, do: Callable[..., None]) -> Iterator[None]:
    """Calls `do` before each of the client's calls of this operation."""
    event = f"before-call.dynamodb.{operation}"
    client.meta.events.register(event, do)
    try:
        yield
    finally:
        client.meta.events.unregister(event, do)


def wrongly_queued(queue: Queue, letters: Sequence[DeadLetter], dead: Sequence[str]) -> list[str]:
    """A sentence for each message that is still on the queue, and for each dead letter that is missing or wrong."""
    wrong = [f"still on the queue: {waiting['body']}" for waiting in queue.records]
    wrong += [f"not dead-lettered: {body}" for body in dead if body not in {letter.body for letter in letters}]
    wrong += [f"dead-lettered, but no poison: {letter.body}" for letter in letters if letter.body not in dead]
    return wrong + [f"dead-lettered without a reason: {letter.body}" for letter in letters if not letter.reason]
