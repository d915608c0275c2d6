"""Injects every fault at every AWS call of a scenario. The result must be the same as without faults."""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from conditional_writes.core.client import CONFIG
from tests.faults.scenarios import Scenario
from tests.support.faults import (
    EVERY_ATTEMPT,
    THIS_INVOCATION,
    Fault,
    FaultsAt,
    Outage,
    applies,
    scenario_after_scenario,
)
from tests.support.reporting import Say

MANY = 20
"""The number of violations after which the search ends."""
FEWEST, MOST = 5, 15
"""Cases of a scenario, in a sample: as many as it has calls, but no fewer and no more than these."""
RUNS = 5
"""Of a case, until its fault is injected: a run may make a call less than the run before."""


def injections(
    calls: Sequence[str], after: int = 0, faults: Collection[Fault] = tuple(Fault)
) -> list[tuple[int, Fault]]:
    """Each of these faults at each call that it applies to, from call number `after` + 1 on."""
    return [
        (at, fault)
        for at, operation in enumerate(calls[after:], after + 1)
        for fault in faults
        if applies(fault, operation)
    ]


def sampled(cases: Sequence[tuple[int, Fault]], seed: int = 0) -> list[tuple[int, Fault]]:
    """Cases at calls that are evenly spread, the same each time. A fault comes again after all others that apply.

    Scenarios begin with different faults, so that together they have all faults at calls of each kind.
    """
    order = random.Random(f"{seed} {len(cases)}").sample([*Fault], len(Fault))
    calls = [*dict.fromkeys(at for at, _ in cases)]
    number = min(max(len(calls), FEWEST), MOST)
    used: Counter[Fault] = Counter()
    chosen: list[tuple[int, Fault]] = []
    for index in range(number):
        at = calls[index * len(calls) // number]
        faults = [fault for call, fault in cases if call == at and (call, fault) not in chosen]
        fault = min(faults, key=lambda fault: (used[fault], order.index(fault)))
        used[fault] += 1
        chosen.append((at, fault))
    return chosen


def _chosen(
    cases: Sequence[tuple[int, Fault]], *, every_case: bool, second_engine: bool
) -> Sequence[tuple[int, Fault]]:
    """Every case of the first engine, or a sample. The second engine has a sample of its own, with other cases."""
    if second_engine:
        return sampled(cases, seed=1)
    return cases if every_case else sampled(cases)


class NotInjected(AssertionError):
    """A fault was never injected, because the scenario didn't make its call."""


def violations(
    scenario: Scenario, plan: dict[int, Fault], expected: object, outage: Outage = THIS_INVOCATION
) -> Iterator[str]:
    """Yields a sentence for each violation after these faults. Raises NotInjected if none of several runs had them."""
    for runs_left in reversed(range(RUNS)):
        faults = FaultsAt(plan, outage)
        random.seed(runs_left)
        _, left, wrong = scenario(faults)
        try:
            _check_injected(faults)
        except NotInjected:
            if not runs_left:
                raise
        else:
            break
    for sentence in wrong:
        yield f"{faults}: {sentence}. The calls: {faults.calls}"
    if left != expected:
        yield f"{faults}: left {left}, expected {expected}. The calls: {faults.calls}"


def _check_injected(faults: FaultsAt) -> None:
    """A client makes as many attempts as the configuration says, or fewer if it has its own."""
    attempts: Counter[Fault] = Counter()
    for at, fault in faults.plan.items():
        if at > len(faults.calls):
            raise NotInjected(f"{faults}: there was no call {at}, only {faults.calls}")
        if (at, fault) not in injections(faults.calls):
            raise NotInjected(f"{faults}: call {at} was {faults.calls[at - 1]}")
        attempts[fault] += CONFIG.retries["total_max_attempts"] if fault in EVERY_ATTEMPT else 1
    if not Counter(faults.plan.values()) <= faults.injected <= attempts:
        raise NotInjected(f"{faults}: injected {faults.injected}")


def inject_every_fault(scenario: Scenario, say: Say, *, every_case: bool, second_engine: bool = False) -> Any:
    """Runs the scenario without faults, then with each fault at each call, or a sample. Returns the faultless result.

    The samples of all scenarios together have each fault at calls of each kind.
    """
    with scenario_after_scenario():
        random.seed(RUNS - 1)  # as before each first run with a fault
        faultless, expected, wrong = scenario(FaultsAt({}))
        assert not wrong, "\n".join(wrong)
        found: list[str] = []
        tried: Counter[Fault] = Counter()
        cases = injections(faultless.calls)
        for at, fault in _chosen(cases, every_case=every_case, second_engine=second_engine):
            found += violations(scenario, {at: fault}, expected)
            tried[fault] += 1
            if len(found) > MANY:
                break
    say(
        f"{tried.total()} cases of {len(cases)}, {len(faultless.calls)} calls by {len(tried)} faults:"
        f" {len(found)} violations"
    )
    assert not found, "\n".join(found)
    return expected
