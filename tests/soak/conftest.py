"""A local AWS for the soak alone, whose stack has the soak's parameters."""

from collections.abc import Iterator

import pytest

from tests.soak.run import PARAMETERS
from tests.support.deployed import RETRY_SETTINGS, Bank
from tools.local_aws import server, stack
from tools.local_aws.server import free_port, running


@pytest.fixture(scope="module")
def bank(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    log = tmp_path_factory.mktemp("soak") / "ministack.log"
    started = server.ministack(free_port(), log, settings=RETRY_SETTINGS)
    with running(started) as endpoint:
        yield Bank(stack.deploy(endpoint, **PARAMETERS), started[1].pid, log)
