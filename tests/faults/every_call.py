"""Strikes every AWS call of a batch with every fault: what is left must be what is left without any."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from tests.faults.faults import FOR_TRANSACTIONS, Fault, Faults, Killed
from tests.local_aws.dead_letters import DeadLetter
from tests.local_aws.function import Queue, invoke


class Played(NamedTuple):
    """What is left once the queue is quiet. `wrong` has a sentence for each thing that isn't as it must be."""

    faults: Faults
    left: object
    wrong: list[str]


def deliver_until_quiet(function: ModuleType, queue: Queue, faults: Faults, *clients: Any) -> None:
    with faults.on(*clients):
        for _ in range(20):
            faults.revive()
            queue.deliver(function, Killed)
            if not queue.records:
                break


def deliver_to_a_rival_first(client: Any, operation: str, rival: ModuleType, records: Sequence[dict[str, Any]]) -> None:
    """Before the client's first call of this operation another worker does the work of these records."""
    lock, waiting = threading.Lock(), [records]

    def deliver(**_: Any) -> None:
        with lock:  # the other threads wait, too: or it were chance how many calls there are
            if waiting:
                invoke(rival, waiting.pop())

    client.meta.events.register(f"before-call.dynamodb.{operation}", deliver)


def wrongly_queued(queue: Queue, letters: Sequence[DeadLetter], dead: Sequence[str]) -> list[str]:
    """A sentence for each message that is on the queue still, or is dead-lettered and shouldn't, or the other way."""
    wrong = [f"still on the queue: {waiting['body']}" for waiting in queue.records]
    wrong += [f"not dead-lettered: {body}" for body in dead if body not in {letter.body for letter in letters}]
    wrong += [f"dead-lettered, and no poison: {letter.body}" for letter in letters if letter.body not in dead]
    return wrong + [f"dead-lettered without a reason: {letter.body}" for letter in letters if not letter.reason]


def strike_every_call(play: Callable[[Fault | None, int], Played], capsys: pytest.CaptureFixture[str]) -> object:
    """Plays without a fault, and then with each at each call. Returns what was left without."""
    faultless, expected, wrong = play(None, 0)
    assert not wrong
    tried: Counter[str] = Counter()
    failures: list[str] = []
    commits = faultless.calls.count("TransactWriteItems")
    for fault in Fault:
        for at in range(1, (commits if fault in FOR_TRANSACTIONS else len(faultless.calls)) + 1):
            faults, left, wrong = play(fault, at)
            tried[fault.value] += 1
            assert faults.struck, f"{fault.value}: there was no call {at}"
            if left != expected:
                wrong.append(f"left: {left}, expected {expected}")
            failures += [f"{fault.value}, call {at} ({faults.calls[at - 1]}): {sentence}" for sentence in wrong]
    with capsys.disabled():
        print(
            f"\n{tried.total()} cases, {len(faultless.calls)} calls by {len(tried)} faults: {len(failures)} violations"
        )
    assert not failures, "\n".join(failures)
    return expected
