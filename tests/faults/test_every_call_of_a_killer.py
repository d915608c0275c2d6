"""A message that kills its function at each delivery, and every fault at every AWS call until it is found out."""

import pytest

from tests.faults.every_call import inject_every_fault
from tests.faults.scenarios.small import posting_with_a_killer
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint


@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(ministack: Endpoint, say: Say, every_case: bool) -> None:
    expected = inject_every_fault(posting_with_a_killer(ministack), say, every_case=every_case)
    assert expected.keys() == {("alice", "open"), ("alice", "1"), ("bob", "open")}
