"""Fixtures for the library's own tests in an environment that has the library and no application.

A plugin, in the place of tests/conftest.py, which imports the application:
`pytest --noconftest -p tests.support.library_alone`.
"""

from collections.abc import Iterator

import pytest

from tools.local_aws import server
from tools.local_aws.server import Endpoint


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    started = server.ministack(server.free_port(), tmp_path_factory.mktemp("ministack") / "log")
    with server.running(started) as endpoint:
        yield endpoint


@pytest.fixture
def dynamodb(ministack: Endpoint) -> Endpoint:
    return ministack


@pytest.fixture
def every_case() -> bool:
    return False
