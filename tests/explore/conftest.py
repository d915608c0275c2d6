"""The test of a module's scenarios."""

from collections.abc import Callable

import pytest

from tests.explore.scenario import ALL_BUDGET, Scenario
from tests.support.reporting import Say


@pytest.fixture
def holds_in_every_order(every_case: bool, say: Say) -> Callable[[Scenario], None]:
    def search(scenario: Scenario) -> None:
        tried = scenario.explore(ALL_BUDGET if every_case else scenario.budget)
        say(f"{tried.orders:,} orders{', all' if tried.is_complete else ''}, {tried.seconds:.1f} s: {scenario}")
        assert tried.is_complete or not (every_case and scenario.completes)

    return search
