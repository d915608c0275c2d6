"""One local AWS with IAM enforced, and template.yaml built and deployed on it once, for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.e2e.bank import Bank
from tests.local_aws import server, stack
from tests.local_aws.server import free_port, running
from tests.soak.nights import RETRY_SETTINGS


@pytest.fixture(scope="session")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    log = tmp_path_factory.mktemp("bank") / "ministack.log"
    started = server.ministack(free_port(), log, settings=RETRY_SETTINGS)
    with running(started) as endpoint:
        stack.build()
        yield Bank(stack.deploy(endpoint), started[1].pid, log)
