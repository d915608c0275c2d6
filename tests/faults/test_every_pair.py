"""Two faults in one scenario, at any two of its AWS calls: a sample of the pairs, or with `--soak` every pair.

The scenarios have up to tens of thousands of pairs, which take half an hour each. So with `--all` there is a larger
sample: each first fault, with a few of the second ones. The longest scenarios have no more in a soak.
"""

from collections.abc import Callable

import pytest

from tests.faults.every_pair import inject_every_pair, inject_some_pairs
from tests.faults.scenarios import Scenario
from tests.faults.scenarios.small import FUNCTIONS, charging, posting_in_line, publishing_again, reconciling
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

LONG = (posting_in_line, charging, reconciling, publishing_again)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_pairs_of_faults_leave_what_no_fault_leaves(
    aws: Endpoint, function: Callable[[Endpoint], Scenario], say: Say, every_case: bool, soaking: bool
) -> None:
    scenario = function(aws)
    if soaking and function not in LONG:
        tally = inject_every_pair(scenario, say)
    elif soaking:
        tally = inject_some_pairs(scenario, firsts=1_000, seconds=12)
    elif every_case:
        tally = inject_some_pairs(scenario, firsts=1_000, seconds=3)
    else:
        tally = inject_some_pairs(scenario, firsts=5, seconds=2)
    assert tally.pairs >= 8
    assert not tally.violations, "\n".join(tally.violations)
    assert not tally.not_injected, "\n".join(tally.not_injected)
