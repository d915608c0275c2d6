"""Scenarios: a function works while faults are injected, and is called until nothing is left to do; then judged."""

from collections.abc import Callable
from typing import NamedTuple

from tests.support.faults import Faults, FaultsAt


class ScenarioResult(NamedTuple):
    """What is left once all is quiet. `wrong` has a sentence for each thing that isn't as it must be."""

    faults: Faults
    left: object
    wrong: list[str]


type Scenario = Callable[[FaultsAt], ScenarioResult]
"""Always begins with the same tables, and a function that knows nothing of the scenarios before."""
