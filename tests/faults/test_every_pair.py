"""Two faults in one scenario, at any two of its AWS calls: a sample of the pairs, or with `--all` every pair.

All pairs take a quarter of an hour. Those of a batch in line would take as long again, so `--all` has a larger sample.
"""

from collections.abc import Callable

import pytest

from tests.faults.every_pair import inject_every_pair, inject_some_pairs
from tests.faults.scenarios import Scenario
from tests.faults.scenarios.small import FUNCTIONS, posting_in_line
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint


@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
@pytest.mark.parametrize("function", FUNCTIONS)
def test_pairs_of_faults_leave_what_no_fault_leaves(
    ministack: Endpoint, function: Callable[[Endpoint], Scenario], say: Say, every_case: bool
) -> None:
    scenario = function(ministack)
    if not every_case:
        tally = inject_some_pairs(scenario, firsts=20, seconds=4)
    elif function is posting_in_line:
        tally = inject_some_pairs(scenario, firsts=200, seconds=12)
    else:
        tally = inject_every_pair(scenario, say)
    assert tally.pairs >= 60
    assert not tally.violations, "\n".join(tally.violations)
    assert not tally.not_injected, "\n".join(tally.not_injected)
