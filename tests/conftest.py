"""The engines that tests run against, and the options `--all` and `--soak`, which run more cases than a sample.

Each pytest worker starts an engine once, for the first test that uses it.
"""

import gc
import itertools
import random
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from _pytest.unraisableexception import gc_collect_iterations_key
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import engine
from xdist.scheduler import LoadScopeScheduling

import conditional_writes
from conditional_writes.testing import Engine
from conditional_writes.upserts import plan
from tests.support.by_asyncio import driver  # noqa: F401 (a fixture)
from tests.support.clock import RanTooLong
from tests.support.deployed import PARAMETERS, ROOTS_BUCKET, Bank
from tests.support.every_event import SeenEvents
from tests.support.in_process import Aws, answered_by
from tests.support.paying import Way
from tests.support.quick_clients import quick_botocore
from tests.support.reporting import Say
from tools.local_aws import server, stack
from tools.local_aws.server import PROJECT, Endpoint, LocalAwsError, free_port, running
from tools.local_aws.tables import Tables, create_tables

# Examples are the same in each run, so that a new failure comes from a change; `make soak` searches for others. Tests
# have no deadline, for a slow machine is no failure: the benchmarks measure time.
settings.register_profile("sample", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("all", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("searching", deadline=None, max_examples=5000)
# `make mutations` needs no shortest failure.
to_fail = {"phases": (Phase.explicit, Phase.generate), "suppress_health_check": list(HealthCheck)}
settings.register_profile("mutants", deadline=None, derandomize=True, max_examples=20, **to_fail)
# Hypothesis would shrink a failure for 300 s. pytest's timeout, which is as long, would be reported instead of it.
engine.MAX_SHRINKING_SECONDS = 30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run every case, not a sample (make test-all)")
    parser.addoption("--soak", action="store_true", help="with --all: run the cases that take hours, too (make soak)")


def pytest_configure(config: pytest.Config) -> None:
    # The garbage collector begins more seldom, because the engine keeps the tables of all tests.
    gc.set_threshold(50_000, 20, 20)
    config.stash[gc_collect_iterations_key] = 1  # PyPy alone needs pytest's five collections at the end.
    layer = Path(conditional_writes.__file__)
    if not layer.is_relative_to(PROJECT):
        raise pytest.UsageError(
            f"conditional_writes is imported from {layer.parent}, which isn't in this checkout: `make setup`, and then "
            f"{PROJECT / '.venv/bin/python'} -m pytest"
        )
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("all" if config.getoption("--all") else "sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `--all`, leaves out tests marked `exhaustive`, and those of the engines that are servers.

    Without `--soak`, leaves out those marked `soak`.
    """
    left_out = {
        item
        for item in items
        if (_is_exhaustive(item) and not config.getoption("--all"))
        or (item.get_closest_marker("soak") and not config.getoption("--soak"))
        or _is_left_to_the_engine(item)
    }
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=[*left_out])


def _case_of(item: pytest.Item) -> dict[str, Any]:
    case = getattr(item, "callspec", None)
    return case.params if case else {}


def _engine_of(item: pytest.Item) -> str | None:
    return _case_of(item).get("dynamodb")


def _driver_of(item: pytest.Item) -> str | None:
    return _case_of(item).get("driver")


def _is_exhaustive(item: pytest.Item) -> bool:
    return bool(
        item.get_closest_marker("exhaustive")
        or _engine_of(item) in ENGINES[1:]
        or (_driver_of(item) == "asyncio" and not _differs_by_driver(item))
    )


def _differs_by_driver(item: Any) -> bool:
    """The drivers differ in what they do with errors. Each kind of call is in tests/integration/test_asyncio.py."""
    return "Faults" in item.function.__code__.co_names and _case_of(item).get("way") != Way.POWERTOOLS


def _is_left_to_the_engine(item: pytest.Item) -> bool:
    """On servers, a test that runs by both drivers runs by one."""
    return _engine_of(item) in ENGINES[1:] and _driver_of(item) == "asyncio"


def pytest_timeout_set_timer(item: Any, settings: Any) -> bool:
    """Replaces pytest-timeout's timer, whose failure Hypothesis shrinks for minutes, and calls a flaky strategy."""

    def ring(*_: object) -> None:
        raise RanTooLong(f"{item.nodeid} hasn't ended after {settings.timeout:g} s")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    item.cancel_timeout = lambda: signal.setitimer(signal.ITIMER_REAL, 0)
    return True


ENGINES = ("in_process", "ministack", "dynamodb_local")
DEPLOYED = re.compile(r"tests/(e2e/(?!test_sam_local_invoke.*\[in_process)|soak/)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """One worker runs all tests of the deployed stack, and one a file's, but for those of faults and of orders.

    The largest groups begin. The tests of faults and orders, each of which is long, fill what is left in the end.
    `--dist loadgroup` of pytest-xdist 3.8 finds no groups with pytest 9.2.
    """

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if DEPLOYED.match(nodeid):
                return "deployed"
            return nodeid if nodeid.startswith(("tests/faults/", "tests/explore/")) else nodeid.partition("::")[0]

    return Scheduling(config, log)


@pytest.fixture
def every_case(pytestconfig: pytest.Config) -> bool:
    """Whether to run every case instead of a sample."""
    return bool(pytestconfig.getoption("--all"))


@pytest.fixture
def soaking(pytestconfig: pytest.Config) -> bool:
    """Whether to run the cases that take hours, too."""
    return bool(pytestconfig.getoption("--soak"))


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
    """Prints the last sentence that each test reported from a worker."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    said = {report.nodeid: dict(report.user_properties).get("said") for report in reports}
    for name, sentence in said.items():
        if sentence:
            terminalreporter.write_line(f"{name.rpartition('/')[2]}: {sentence}")


@pytest.fixture(scope="session", autouse=True)
def imported_once() -> None:
    """The garbage collector passes over the half a million objects that were imported."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def botocore_is_quick() -> Iterator[None]:
    with quick_botocore():
        yield


@pytest.fixture(scope="session", autouse=True)
def tracebacks_without_columns() -> Iterator[None]:
    """As by Python's `-X no_debug_ranges`. For columns a traceback parses its lines, and faults raise thousands."""

    def no_position(*_: object) -> tuple[None, ...]:
        return (None,) * 4

    with mock.patch("traceback._get_code_position", no_position):
        yield


@pytest.fixture(autouse=True)
def drawn_alike(request: pytest.FixtureRequest) -> None:
    """Delays, and all else that is drawn by `random`, are the same in each run of a test."""
    random.seed(request.node.nodeid)


@pytest.fixture(scope="session")
def seen_events() -> Iterator[SeenEvents]:
    with SeenEvents().watching() as seen:
        yield seen


@pytest.fixture(autouse=True)
def each_event_fits_its_schema(seen_events: SeenEvents) -> Iterator[None]:
    yield
    problems, seen_events.problems = seen_events.problems, []
    assert problems == []


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


@pytest.fixture(scope="session")
def services() -> Aws:
    """DynamoDB, SQS and EventBridge in the process, with the clock that they go by: `services.engine.clock`."""
    return Aws(Engine())


@pytest.fixture(scope="session")
def in_process(services: Aws) -> Iterator[Endpoint]:
    with answered_by(services) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def aws(in_process: Endpoint) -> Endpoint:
    """The services that functions call beside their tables, wherever those are."""
    return in_process


@pytest.fixture(params=ENGINES)
def dynamodb(request: pytest.FixtureRequest) -> Endpoint:
    """Runs a test on the library's own engine, and with `--all` on the others, too."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def built() -> None:
    """Runs `make build` once for all stacks."""
    stack.build()


@pytest.fixture(scope="session")
def bank(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """A local AWS with IAM enforced, on which template.yaml is deployed."""
    log = tmp_path_factory.mktemp("bank") / "ministack.log"
    started = server.ministack(free_port(), log)
    with running(started) as endpoint:
        endpoint.client("s3").create_bucket(Bucket=ROOTS_BUCKET, ObjectLockEnabledForBucket=True)
        parameters = PARAMETERS | {"LedgerRootsBucket": ROOTS_BUCKET, "LogLevel": "DEBUG"}
        yield Bank(stack.deploy(endpoint, **parameters), started[1].pid, log)


@pytest.fixture
def own_bank(built: None, tmp_path: Path) -> Iterator[Bank]:
    """A stack that no other test uses."""
    log = tmp_path / "ministack.log"
    started = server.ministack(free_port(), log)
    with running(started) as endpoint:
        yield Bank(stack.deploy(endpoint, **PARAMETERS), started[1].pid, log)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process in the background ignores Ctrl-C, and one of nohup's the end of its terminal. So would its children."""
    heeded = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {which: signal.signal(which, handler) for which, handler in heeded.items()}
    yield
    for which, handler in before.items():
        signal.signal(which, handler)


_numbers = itertools.count(1)


@pytest.fixture
def tables(dynamodb: Endpoint) -> Tables:
    return create_tables(dynamodb, f"test-{next(_numbers)}")


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets the depths of profiles, as a new process would."""
    monkeypatch.setattr(plan, "recent_depths", plan.RecentDepths())
