"""What the tests of faults share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.every_call import inject_every_fault
from tests.faults.scenarios import Scenario
from tests.support.in_process import IN_PROCESS
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

type Inject = Callable[[Scenario], Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A handler that is killed, or that refuses its event, has no metrics."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore:No application metrics"))


@pytest.fixture
def inject(dynamodb: Endpoint, say: Say, every_case: bool) -> Inject:
    """Injects every fault at every call of a scenario on this engine, or a sample. Returns what is left without one."""

    def inject_all(scenario: Scenario) -> Any:
        return inject_every_fault(scenario, say, every_case=every_case, second_engine=dynamodb != IN_PROCESS)

    return inject_all
