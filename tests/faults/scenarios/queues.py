"""What the scenarios of functions on queues have in common."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from tests.support.faults import Faults, Killed
from tools.local_aws.functions import Queue, invoke
from tools.local_aws.queues import DeadLetter


def deliver_until_quiet(function: ModuleType, queue: Queue, faults: Faults, *clients: Any) -> None:
    with faults.on(*clients):
        for _ in range(20):
            faults.revive()
            queue.deliver(function, Killed)
            if not queue.records:
                break


@contextlib.contextmanager
def competing_worker_first(
    client: Any, operation: str, competing: ModuleType, records: Sequence[dict[str, Any]]
) -> Iterator[None]:
    """Before the client's first call of this operation another worker does the work of these records."""
    lock, waiting = threading.Lock(), [records]

    def deliver(**_: Any) -> None:
        with lock:  # the other threads wait, too: or it were chance how many calls there are
            if waiting:
                invoke(competing, waiting.pop())

    event = f"before-call.dynamodb.{operation}"
    client.meta.events.register(event, deliver)
    try:
        yield
    finally:
        client.meta.events.unregister(event, deliver)


def wrongly_queued(queue: Queue, letters: Sequence[DeadLetter], dead: Sequence[str]) -> list[str]:
    """A sentence for each message that is on the queue still, or is dead-lettered and shouldn't, or the other way."""
    wrong = [f"still on the queue: {waiting['body']}" for waiting in queue.records]
    wrong += [f"not dead-lettered: {body}" for body in dead if body not in {letter.body for letter in letters}]
    wrong += [f"dead-lettered, and no poison: {letter.body}" for letter in letters if letter.body not in dead]
    return wrong + [f"dead-lettered without a reason: {letter.body}" for letter in letters if not letter.reason]
