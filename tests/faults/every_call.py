"""Injects every fault at every AWS call of a scenario: what is left must be what is left without any."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from conditional_writes.client import CONFIG
from tests.faults.scenarios import Scenario
from tests.support.faults import EVERY_ATTEMPT, FOR_TRANSACTIONS, Fault, FaultsAt, scenario_after_scenario

MANY = 20
"""Violations, after which no more are looked for."""


def injections(calls: Sequence[str], after: int = 0) -> list[tuple[int, Fault]]:
    """Each fault at each of these calls that it can happen to, from the one after number `after` on."""
    return [
        (at, fault)
        for at, operation in enumerate(calls[after:], after + 1)
        for fault in Fault
        if operation == "TransactWriteItems" or fault not in FOR_TRANSACTIONS
    ]


class NotInjected(AssertionError):
    """The scenario made no such call, or another one: the fault was never injected."""


def violations(scenario: Scenario, plan: dict[int, Fault], expected: object) -> Iterator[str]:
    """A sentence for each thing that isn't as it must be after these faults. Raises NotInjected."""
    faults = FaultsAt(plan)
    _, left, wrong = scenario(faults)
    _check_injected(faults)
    for sentence in wrong:
        yield f"{faults}: {sentence}. The calls: {faults.calls}"
    if left != expected:
        yield f"{faults}: left {left}, expected {expected}. The calls: {faults.calls}"


def _check_injected(faults: FaultsAt) -> None:
    attempts: Counter[Fault] = Counter()
    for at, fault in faults.plan.items():
        if at > len(faults.calls):
            raise NotInjected(f"{faults}: there was no call {at}, only {faults.calls}")
        if (at, fault) not in injections(faults.calls):
            raise NotInjected(f"{faults}: call {at} was {faults.calls[at - 1]}")
        attempts[fault] += CONFIG.retries["total_max_attempts"] if fault in EVERY_ATTEMPT else 1
    if faults.injected != attempts:
        raise NotInjected(f"{faults}: injected {faults.injected}")


def inject_every_fault(scenario: Scenario, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the scenario without a fault, then with each at each call. Returns what is left without a fault."""
    with scenario_after_scenario():
        faultless, expected, wrong = scenario(FaultsAt({}))
        assert not wrong
        found: list[str] = []
        tried: Counter[Fault] = Counter()
        for at, fault in injections(faultless.calls):
            found += violations(scenario, {at: fault}, expected)
            tried[fault] += 1
            if len(found) > MANY:
                break
    with capsys.disabled():
        print(f"\n{tried.total()} cases, {len(faultless.calls)} calls by {len(tried)} faults: {len(found)} violations")
    assert not found, "\n".join(found)
    return expected
