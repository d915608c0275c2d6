"""The engines that tests run against: each started once, by the first test that asks for it."""

import itertools
from collections.abc import Iterator

import pytest

from tests.local_aws import server
from tests.local_aws.server import Endpoint, LocalAwsError, free_port, running
from tests.local_aws.tables import Tables, create_tables


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


_numbers = itertools.count(1)


@pytest.fixture
def tables(dynamodb: Endpoint) -> Tables:
    return create_tables(dynamodb, f"test-{next(_numbers)}")
