"""The engines that tests run against: each started once, by the first test that asks for it."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import settings

from conditional_writes.upserts import strategies
from tests.support.deployed import RETRY_SETTINGS, Bank
from tools.local_aws import server, stack
from tools.local_aws.server import Endpoint, LocalAwsError, free_port, running
from tools.local_aws.tables import Tables, create_tables

# The same examples each time, so that a failure is the change's doing; `make soak` searches for others. A slow machine
# is no failure: times are for the benchmarks.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("searching", deadline=None, max_examples=5000)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with running(server.ministack(free_port(), tmp_path_factory.mktemp("ministack") / "log")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def dynamodb_local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    try:
        started = server.dynamodb_local(free_port(), tmp_path_factory.mktemp("dynamodb-local") / "log")
    except LocalAwsError as error:
        pytest.skip(f"NOT TESTED ON AMAZON'S DYNAMODB LOCAL: {error}")
    with running(started) as endpoint:
        yield endpoint


@pytest.fixture(params=["ministack", "dynamodb_local"])
def dynamodb(request: pytest.FixtureRequest) -> Endpoint:
    """A test that asks for this runs on both engines."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """A local AWS with IAM enforced, and template.yaml built and deployed on it."""
    log = tmp_path_factory.mktemp("bank") / "ministack.log"
    started = server.ministack(free_port(), log, settings=RETRY_SETTINGS)
    with running(started) as endpoint:
        stack.build()
        yield Bank(stack.deploy(endpoint), started[1].pid, log)


_numbers = itertools.count(1)


@pytest.fixture
def tables(dynamodb: Endpoint) -> Tables:
    return create_tables(dynamodb, f"test-{next(_numbers)}")


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known yet of any profile."""
    monkeypatch.setattr(strategies, "recent_depths", strategies.RecentDepths())
