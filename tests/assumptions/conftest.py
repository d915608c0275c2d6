"""Each test of an assumption runs at each place that has its service: by default in the process alone."""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.assumptions.differences import DIFFERENCES, LACKING
from tests.assumptions.places import Place, on_aws, table
from tools.local_aws.server import Endpoint, shared_client

if TYPE_CHECKING:
    from tests.support.in_process import Aws

PLACES = ("in_process", "ministack", "dynamodb_local", "aws")
ASKS_AWS = bool(os.environ.get("TELLER_ASSUMPTIONS_ON_AWS"))


def rests_on[Test: Callable[..., Any]](page: str) -> Callable[[Test], Test]:
    """Marks the test of an assumption with the page that states it."""
    return pytest.mark.rests_on(page)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`ministack` and `dynamodb_local` come with `--all`, `aws` alone if TELLER_ASSUMPTIONS_ON_AWS is set."""
    if "place" not in metafunc.fixturenames:
        return
    service = metafunc.module.__name__.rpartition("test_")[2]
    places = ["aws"] if ASKS_AWS else [each for each in PLACES[:3] if service not in LACKING.get(each, ())]
    servers = ("ministack", "dynamodb_local")
    params = [pytest.param(each, marks=[pytest.mark.exhaustive] if each in servers else []) for each in places]
    metafunc.parametrize("place", params, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A difference that is named has to be there: a test that passes all the same fails."""
    for item in items:
        place, name = place_and_name(item.name)
        if reason := difference(place, name):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def place_and_name(item_name: str) -> tuple[str, str]:
    """A test item's place, and its name without it: `test_a[ministack-case]` is ("ministack", "test_a[case]")."""
    name, _, parameters = item_name.removesuffix("]").partition("[")
    place, _, case = parameters.partition("-")
    return place, f"{name}[{case}]" if case else name


def difference(place: str, name: str) -> str | None:
    named = DIFFERENCES.get(place, {})
    return named.get(name) or named.get(name.partition("[")[0])


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "aws":
        return on_aws()
    endpoint: Endpoint = request.getfixturevalue(request.param)
    services: Aws | None = request.getfixturevalue("services") if request.param == "in_process" else None
    clock = services.engine.clock if services else None
    return Place(request.param, lambda service: shared_client(endpoint, service), clock, catch_up_seconds=5)


@pytest.fixture(scope="session")
def shared_table(place: Place) -> Iterator[str]:
    with table(place) as name:
        yield name
