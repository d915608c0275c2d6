"""`python -m tests.explore [WORDS]`: searches the scenarios whose claims have all of the words, and prints a table.

A violation ends it. With `--again N` its script runs again N times, and the exit status is 0 only if it fails each
time.
"""

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from conditional_writes.testing import Violation
from tests.explore.scenario import Scenario

HEADER = """| scenario | calls without a fault | orders tried | of those that differ | violations | seconds of CPU |
|---|---|---|---|---|---|"""


def scenarios(words: Sequence[str] = ()) -> list[Scenario]:
    names = sorted(path.stem for path in Path(__file__).parent.glob("scenarios/[a-z]*.py"))
    found = [each for name in names for each in importlib.import_module(f"tests.explore.scenarios.{name}").SCENARIOS]
    return [scenario for scenario in found if all(word in scenario.claim for word in words)]


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    arguments.add_argument("words", nargs="*")
    arguments.add_argument("--budget", type=int, default=100_000)
    arguments.add_argument("--again", type=int, default=0)
    given = arguments.parse_args()
    if not given.again:
        print(HEADER)
    for scenario in scenarios(given.words):
        began = time.process_time()
        try:
            tried = scenario.explore(given.budget)
        except Violation as violation:
            spent = time.process_time() - began
            print(f"{scenario}: {violation}\nfound after {violation.orders} orders, {spent:.1f} s of CPU")
            sys.exit(0 if again(scenario, violation, given.again) == given.again else 2)
        spent = time.process_time() - began
        of_all = "all" if tried.is_complete else "some"
        print(f"| {scenario} | {scenario.calls()} | {tried.orders:,} | {of_all} | 0 | {spent:.0f} |", flush=True)
    if given.again:
        sys.exit(1)


def again(scenario: Scenario, violation: Violation, times: int) -> int:
    """How often of so many times the script fails again."""
    failed = 0
    for _ in range(times):
        try:
            scenario.replay(violation.script)
        except Violation:
            failed += 1
    if times:
        print(f"again {failed} times of {times}: {violation.script}")
    return failed


if __name__ == "__main__":
    main()
