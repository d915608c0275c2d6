"""A job's run in segments: its invocations at once, twice, killed and paused, end in one report of the whole."""

import functools
import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from conditional_writes import DeadlinePassed
from conditional_writes.core.items import from_dynamodb
from conditional_writes.locks import LockLost, LockTaken
from conditional_writes.testing import Engine, Outcome
from tests.explore.bank import LAST, LOCKS, NOW, Bank, Opened
from tests.explore.scenario import Scenario
from tests.support.bodies import hold, opening, payment
from tests.support.in_process import IN_PROCESS, Aws
from tools.local_aws.functions import Context, expire_holds, reconcile_accounts
from tools.local_aws.tables import Tables

TABLES = Tables("t-accounts", "t-journal", "t-checkpoints", "t-reversals", "t-refusals")
EVENT = {"scheduled_time": NOW.isoformat()}
EXPECTED = (LockTaken, LockLost, DeadlinePassed)
RETRIES = 8


@functools.cache
def function_of(name: str, worker: int, segments: int) -> Any:
    """The job's function in a process of its own."""
    if name == "reconcile_accounts":
        function = reconcile_accounts(IN_PROCESS, TABLES, LOCKS, JOB_SEGMENTS=str(segments))
    else:
        queue = f"{IN_PROCESS.url}/000000000000/transactions"
        function = expire_holds(IN_PROCESS, TABLES, LOCKS, queue, JOB_SEGMENTS=str(segments))
    metrics: Any = SimpleNamespace(add_metric=lambda *_: None, flush_metrics=lambda: None)
    vars(function).update(metrics=metrics, job=function.job._replace(metrics=metrics))
    return function


def _now() -> float:
    return time.time()  # the simulated one: `Locks` has kept the real function


class Jobs:
    """A bank, the queue that jobs send to, and the invocations that they have asked for."""

    def __init__(self, bank: Bank, name: str, segments: int) -> None:
        self.bank, self._name, self._segments = bank, name, segments
        self.invocations: list[dict[str, Any]] = []
        self.aws = Aws(bank.engine)
        self.aws.sqs.answer("CreateQueue", {"QueueName": "transactions"}, IN_PROCESS.url)
        bank.engine.others["AmazonSQS"] = self.aws.answer
        for worker in range(LAST + 1):
            function = function_of(name, worker, segments)
            function.job.locks.now = _now
            bank.engine.attach(function.job.locks.client)
            if hasattr(function, "sqs"):
                bank.engine.attach(function.sqs)

    def invoke(self, worker: int, event: dict[str, Any], request_id: str = "first") -> dict[str, str]:
        """As Lambda does. What the function wants to be invoked with again is noted."""
        function = function_of(self._name, worker, self._segments)
        context: Any = Context(aws_request_id=f"{worker} {request_id}", started=time.monotonic())
        lambda_client = mock.Mock(invoke=lambda **given: self.invocations.append(json.loads(given["Payload"])))
        with mock.patch("workers.scheduled_jobs.lambda_client", return_value=lambda_client):
            return function.job.run({"job": self._name} | event, context)

    def until_done(self) -> None:
        """Delivers the event once more, long after, and all that follows from it."""
        self.bank.engine.clock.advance(1000)
        self.invocations.append(EVENT)
        for number in range(RETRIES * self._segments):
            if not self.invocations:
                return
            event = self.invocations.pop()
            assert self.invoke(LAST, event, str(number))["outcome"] in {"Done", "DoneBefore", "Continued"}
        raise AssertionError(f"not done, still to be invoked: {self.invocations}")

    @property
    def report(self) -> dict[str, Any]:
        records = map(from_dynamodb, self.bank.items(LOCKS))
        return next(each for each in records if "finished_at" in each)


class Begun:
    """A set-up: a bank, and a job whose run was begun by its first event, if it has several segments."""

    def __init__(self, name: str, segments: int, opened: Opened) -> None:
        self._name, self._segments, self._opened = name, segments, opened

    def __call__(self, engine: Engine) -> Jobs:
        jobs = Jobs(self._opened(engine), self._name, self._segments)
        if self._segments > 1:
            jobs.invoke(LAST, EVENT)
            jobs.invocations.clear()
        return jobs


def invoked(worker: int, segment: int = 0, of: int = 0) -> Callable[[Jobs], dict[str, str]]:
    event = EVENT | ({"segment": segment, "segments": of} if segment else {})
    return lambda jobs: jobs.invoke(worker, event)


def reported(**expected: int) -> Callable[[Jobs, Sequence[Outcome]], None]:
    """One invocation at most finishes the run; in the end its report is that of the whole, and doesn't change."""

    def check(jobs: Jobs, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.error is not None and not outcome.was_killed and not isinstance(outcome.error, EXPECTED):
                raise outcome.error
        finished = [outcome for outcome in outcomes if outcome.error is None and outcome.value["outcome"] == "Done"]
        assert len(finished) <= 1, outcomes
        before = jobs.report if finished else None
        jobs.until_done()
        assert before is None or jobs.report == before
        assert {name: jobs.report[name] for name in expected} == expected, jobs.report

    return check


def expired_once(jobs: Jobs, outcomes: Sequence[Outcome]) -> None:
    reported(sent=1)(jobs, outcomes)
    bodies = {message.body for message in jobs.aws.sqs.queues["transactions"].messages}
    assert len(bodies) == 1, bodies


ACCOUNTS = Opened(*[opening(name) for name in ("alice", "bob", "carol")], payment("p-1", 20))
HOLDS = Opened(
    opening("alice"),
    payment("p-1", 20),
    hold("h-1", 5, expires_at=(NOW - timedelta(hours=1)).isoformat()),
    hold("h-2", 5, expires_at=(NOW + timedelta(hours=1)).isoformat()),
)

SCENARIOS = [
    Scenario(
        "two segments end in one report",
        [invoked(0, 1, 2), invoked(1, 2, 2)],
        Begun("reconcile_accounts", 2, ACCOUNTS),
        reported(accounts_checked=3, mismatches=0, segments=2),
    ),
    Scenario(
        "two events of one time end in one report",
        [invoked(0), invoked(1)],
        Begun("reconcile_accounts", 1, ACCOUNTS),
        reported(accounts_checked=3, mismatches=0, segments=1),
    ),
    Scenario(
        "a segment that is invoked twice counts once",
        [invoked(0, 1, 2), invoked(1, 1, 2), invoked(2, 2, 2)],
        Begun("reconcile_accounts", 2, ACCOUNTS),
        reported(accounts_checked=3, mismatches=0, segments=2),
        completes=False,
    ),
    Scenario(
        "an expired hold's message is the same, whoever sends it",
        [invoked(0), invoked(1)],
        Begun("expire_holds", 1, HOLDS),
        expired_once,
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_in_every_order(scenario: Scenario, holds_in_every_order: Callable[[Scenario], None]) -> None:
    holds_in_every_order(scenario)
