"""Random steps of the whole system. A failure prints the seed and the shortest sequence of steps that still fails.

TELLER_SEED=<seed> repeats a run. TELLER_SOAK_SECONDS=<seconds> runs rounds for that time, each with a seed of its own.
"""

import gc
import os
import random
import time
import weakref

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from ledger.core.transaction_types import TRANSACTION_TYPES
from tests.faults.machine import Machine
from tests.faults.system import System, Tally
from tests.support.faults import no_logs, unlimited_retries
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

SEED = int(os.environ.get("TELLER_SEED", "20261121"))
SOAK_SECONDS = float(os.environ.get("TELLER_SOAK_SECONDS", "0"))
EXAMPLES, SAMPLE, STEPS = 40, 2, 40
SHRINKING_SECONDS = 600
"""Hypothesis stops by itself after five minutes."""

SETTINGS = settings(
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
)


@pytest.mark.timeout(2 * SOAK_SECONDS + SHRINKING_SECONDS)
def test_the_invariants_hold_after_any_steps(aws: Endpoint, dynamodb: Endpoint, say: Say, every_case: bool) -> None:
    tally, started, round_seed = Tally(), time.monotonic(), SEED
    examples = EXAMPLES if every_case or SOAK_SECONDS else SAMPLE
    while True:
        say(f"seed {round_seed} …")
        run_round(aws, dynamodb, tally, round_seed, examples)
        seconds = time.monotonic() - started
        say(f"seed {round_seed}: {seconds:.0f} s, {tally}")
        if seconds >= SOAK_SECONDS:
            break
        round_seed = random.SystemRandom().randrange(2**32)
    say("; ".join(f"{number} {kind} {result}" for (kind, result), number in sorted(tally.outcomes.items())))
    if examples == EXAMPLES:
        assert tally.done["tickets"] > 0, "workers should meet in lines"
        assert tally.done["entries on shards"] > 0, "the pool should be paid into"
        posted = {kind for kind, result in tally.outcomes if result == "POSTED"}
        assert posted == TRANSACTION_TYPES.keys(), "each type should be posted"


def run_round(aws: Endpoint, dynamodb: Endpoint, tally: Tally, round_seed: int, examples: int) -> None:
    systems: weakref.WeakSet[System] = weakref.WeakSet()

    def new_system() -> System:
        system = System(aws, dynamodb, tally)
        systems.add(system)
        return system

    class Teller(Machine):
        make_system = staticmethod(new_system)

    with no_logs(), unlimited_retries():
        run_state_machine_as_test(seed(round_seed)(Teller), settings=settings(SETTINGS, max_examples=examples))
    gc.collect()
    assert len(systems) <= 1, f"of {examples} examples {len(systems)} are still in memory"
