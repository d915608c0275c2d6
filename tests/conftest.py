"""The engines that tests run against, and how much is tested: a sample, or with `--all` every case there is.

Each engine is started once, by the first test that asks for it; with several workers, by the first of each worker.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from conditional_writes.upserts import strategies
from tests.support.deployed import RETRY_SETTINGS, Bank
from tests.support.reporting import Say
from tools.local_aws import server, stack
from tools.local_aws.server import Endpoint, LocalAwsError, free_port, running
from tools.local_aws.tables import Tables, create_tables

# The same examples each time, so that a failure is the change's doing; `make soak` searches for others. A slow machine
# is no failure: times are for the benchmarks.
settings.register_profile("sample", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("all", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("searching", deadline=None, max_examples=5000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="try every case there is, not a sample (make test-all)")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("all" if config.getoption("--all") else "sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what takes minutes, unless all is asked for."""
    if not config.getoption("--all"):
        left_out = [item for item in items if item.get_closest_marker("exhaustive")]
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]
        config.hook.pytest_deselected(items=left_out)


DEPLOYED = ("tests/e2e/", "tests/soak/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """All that is built and deployed goes to one worker, which begins with it; each other test to the next one free.

    (`--dist loadgroup` of pytest-xdist 3.8 finds no groups with pytest 9.2.)
    """

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "deployed" if nodeid.startswith(DEPLOYED) else nodeid

    return Scheduling(config, log)


@pytest.fixture
def every_case(pytestconfig: pytest.Config) -> bool:
    """Whether every case is to be tried, and not a sample."""
    return bool(pytestconfig.getoption("--all"))


@pytest.fixture
def say(
    pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> Say:
    def say_it(sentence: str) -> None:
        if hasattr(pytestconfig, "workerinput"):
            record_property("said", sentence)
        else:
            with capsys.disabled():
                print(f"\n{sentence}", flush=True)

    return say_it


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The last word of each test that had something to say, from the workers."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    said = {report.nodeid: dict(report.user_properties).get("said") for report in reports}
    for name, sentence in said.items():
        if sentence:
            terminalreporter.write_line(f"{name.rpartition('/')[2]}: {sentence}")


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
def built() -> None:
    """`make build`, once for all stacks."""
    stack.build()


@pytest.fixture(scope="session")
def bank(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """A local AWS with IAM enforced, and template.yaml built and deployed on it."""
    log = tmp_path_factory.mktemp("bank") / "ministack.log"
    started = server.ministack(free_port(), log, settings=RETRY_SETTINGS)
    with running(started) as endpoint:
        yield Bank(stack.deploy(endpoint), started[1].pid, log)


_numbers = itertools.count(1)


@pytest.fixture
def tables(dynamodb: Endpoint) -> Tables:
    return create_tables(dynamodb, f"test-{next(_numbers)}")


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known yet of any profile."""
    monkeypatch.setattr(strategies, "recent_depths", strategies.RecentDepths())
