"""Strikes every AWS call of a play with every fault: what is left must be what is left without any."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from conditional_writes.client import CONFIG
from tests.faults.scenarios import Play
from tests.support.faults import EVERY_ATTEMPT, FOR_TRANSACTIONS, Fault, FaultsAt, play_after_play

MANY = 20
"""Violations, after which no more are looked for."""


def strikes(calls: Sequence[str], after: int = 0) -> list[tuple[int, Fault]]:
    """Each fault at each of these calls that it can happen to, from the one after number `after` on."""
    return [
        (at, fault)
        for at, operation in enumerate(calls[after:], after + 1)
        for fault in Fault
        if operation == "TransactWriteItems" or fault not in FOR_TRANSACTIONS
    ]


class NotStruck(AssertionError):
    """The play didn't come to the call that was to be struck."""


def violations(play: Play, plan: dict[int, Fault], expected: object) -> Iterator[str]:
    """A sentence for each thing that isn't as it must be after these faults. Raises NotStruck."""
    faults = FaultsAt(plan)
    _, left, wrong = play(faults)
    _check_struck(faults)
    for sentence in wrong:
        yield f"{faults}: {sentence}. The calls: {faults.calls}"
    if left != expected:
        yield f"{faults}: left {left}, expected {expected}. The calls: {faults.calls}"


def _check_struck(faults: FaultsAt) -> None:
    attempts: Counter[Fault] = Counter()
    for at, fault in faults.plan.items():
        if at > len(faults.calls):
            raise NotStruck(f"{faults}: there was no call {at}, only {faults.calls}")
        if (at, fault) not in strikes(faults.calls):
            raise NotStruck(f"{faults}: call {at} was {faults.calls[at - 1]}")
        attempts[fault] += CONFIG.retries["total_max_attempts"] if fault in EVERY_ATTEMPT else 1
    if faults.struck != attempts:
        raise NotStruck(f"{faults}: struck {faults.struck}")


def strike_every_call(play: Play, capsys: pytest.CaptureFixture[str]) -> Any:
    """Plays without a fault, and then with each at each call. Returns what was left without."""
    with play_after_play():
        faultless, expected, wrong = play(FaultsAt({}))
        assert not wrong
        found: list[str] = []
        tried: Counter[Fault] = Counter()
        for at, fault in strikes(faultless.calls):
            found += violations(play, {at: fault}, expected)
            tried[fault] += 1
            if len(found) > MANY:
                break
    with capsys.disabled():
        print(f"\n{tried.total()} cases, {len(faultless.calls)} calls by {len(tried)} faults: {len(found)} violations")
    assert not found, "\n".join(found)
    return expected
