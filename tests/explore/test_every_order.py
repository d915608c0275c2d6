"""The scenarios hold in every order: in some of the orders, or with `--all` in all that differ."""

import pytest

from conditional_writes.testing import replay
from tests.explore.__main__ import scenarios
from tests.explore.scenario import ALL_BUDGET, Scenario
from tests.explore.scenarios import exactly_once, messages
from tests.support.reporting import Say

pytestmark = pytest.mark.timeout(1800)  # with --all, a scenario takes up to 40,000 orders: fifteen minutes of CPU


def search(scenario: Scenario, every_case: bool, say: Say) -> None:
    tried = scenario.explore(ALL_BUDGET if every_case else scenario.budget)
    say(f"{tried.orders:,} orders{', all' if tried.is_complete else ''}, {tried.seconds:.1f} s: {scenario}")
    assert tried.is_complete or not (every_case and scenario.completes)


@pytest.mark.parametrize("scenario", [each for each in scenarios() if each not in messages.SCENARIOS], ids=str)
def test_in_every_order(scenario: Scenario, every_case: bool, say: Say) -> None:
    search(scenario, every_case, say)


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("scenario", messages.SCENARIOS, ids=str)
def test_chained_functions_in_every_order(scenario: Scenario, every_case: bool, say: Say) -> None:
    search(scenario, every_case, say)


def test_a_delayed_transaction_takes_no_effect_beside_a_later_try_that_was_cancelled() -> None:
    """The cancellation counted as the answer to both tries once, and the next try had a token of its own."""
    tables, change, check = exactly_once.tables, exactly_once.change_both, exactly_once.none_is_lost
    replay("a a:delayed a a a:conflict a' b", change, change, setup=tables, check=check)
