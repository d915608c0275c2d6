"""Fixtures for the library's own tests in an environment that has the library and no application.

A plugin, in the place of tests/conftest.py, which imports the application:
`pytest --noconftest -p tests.support.library_alone`.
"""

from collections.abc import Iterator

import pytest

from conditional_writes.testing import Engine
from tests.support.by_asyncio import driver  # noqa: F401 (a fixture)
from tests.support.in_process import Aws, answered_by
from tools.local_aws.server import Endpoint


@pytest.fixture
def dynamodb() -> Iterator[Endpoint]:
    with Engine() as engine, answered_by(Aws(engine)) as endpoint:
        yield endpoint


@pytest.fixture
def every_case() -> bool:
    return False
