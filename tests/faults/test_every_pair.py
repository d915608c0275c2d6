"""Two faults in one scenario, at any two of its AWS calls: a sample of the pairs, or with `--all` every pair.

All pairs take a quarter of an hour.
"""

from collections.abc import Callable

import pytest

from tests.faults.every_pair import inject_every_pair, inject_some_pairs
from tests.faults.scenarios import Scenario
from tests.faults.scenarios.small import FUNCTIONS
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

each_function = pytest.mark.parametrize("function", FUNCTIONS)


@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
@each_function
def test_pairs_of_faults_leave_what_no_fault_leaves(
    ministack: Endpoint, function: Callable[[Endpoint], Scenario]
) -> None:
    tally = inject_some_pairs(function(ministack), firsts=20, seconds=4)
    assert tally.pairs >= 60
    assert not tally.violations, "\n".join(tally.violations)
    assert not tally.not_injected, "\n".join(tally.not_injected)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore:No application metrics")
@each_function
def test_every_pair_of_faults_leaves_what_no_fault_leaves(
    ministack: Endpoint, function: Callable[[Endpoint], Scenario], say: Say
) -> None:
    tally = inject_every_pair(function(ministack), say)
    assert not tally.violations, "\n".join(tally.violations)
    assert not tally.not_injected, "\n".join(tally.not_injected)
