"""Injects two faults at two AWS calls of a scenario, in the same delivery or the second in a later one."""

import random

from tests.faults.every_call import MANY, NotInjected, injections, violations
from tests.faults.scenarios import Scenario
from tests.support.faults import OUTAGES, Fault, FaultsAt, one_call_at_a_time, scenario_after_scenario
from tests.support.reporting import Say

SEED = 20_261_121
IN_PAIRS = [fault for fault in Fault if fault not in OUTAGES or fault is Fault.OUTAGE_REFUSED]
"""One kind of outage stands for all: none of its calls has an effect."""


class Tally:
    """`not_injected` counts the pairs whose second call wasn't made, because the scenario took another path."""

    def __init__(self) -> None:
        self.pairs = 0
        self.violations: list[str] = []
        self.not_injected: list[str] = []


def inject_every_pair(scenario: Scenario, say: Say) -> Tally:
    return _inject(scenario, say, firsts=None, seconds=None)


def inject_some_pairs(scenario: Scenario, firsts: int, seconds: int) -> Tally:
    """Injects the same sample of pairs each time: `firsts` first faults, and for each of them `seconds` second ones."""
    return _inject(scenario, lambda progress: None, firsts, seconds)


def _inject(scenario: Scenario, say: Say, firsts: int | None, seconds: int | None) -> Tally:
    choose = random.Random(SEED)

    def some[Injection](injections: list[Injection], number: int | None) -> list[Injection]:
        return injections if number is None else choose.sample(injections, min(number, len(injections)))

    tally = Tally()
    with scenario_after_scenario(), one_call_at_a_time():
        faultless, expected, wrong = scenario(FaultsAt({}))
        assert not wrong
        first_injections = some(injections(faultless.calls, faults=IN_PAIRS), firsts)
        for number, (at, fault) in enumerate(first_injections, 1):
            alone = FaultsAt({at: fault})
            scenario(alone)
            for second_at, second in some(injections(alone.calls, after=at, faults=IN_PAIRS), seconds):
                try:
                    tally.violations += violations(scenario, {at: fault, second_at: second}, expected)
                    tally.pairs += 1
                except NotInjected as error:
                    tally.not_injected.append(str(error))
            of_all = f"{number} of {len(first_injections)} first faults"
            say(f"{tally.pairs:,} pairs, {of_all}: {len(tally.violations)} violations")
            if len(tally.violations) > MANY:
                break
    return tally
