"""Scenarios: a function is invoked, with injected faults, until quiescence. Then the result is checked."""

from collections.abc import Callable
from typing import NamedTuple

from tests.support.faults import Faults, FaultsAt


class ScenarioResult(NamedTuple):
    """The state at quiescence. `wrong` has a sentence for each violation."""

    faults: Faults
    left: object
    wrong: list[str]


type Scenario = Callable[[FaultsAt], ScenarioResult]
"""Begins with the same tables each time, and with a function in the state of a new process."""
