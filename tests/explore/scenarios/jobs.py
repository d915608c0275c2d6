"""A job's run: its messages at once, twice, killed and paused, end in one report."""

import functools
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from conditional_writes import DeadlinePassed
from conditional_writes.core.items import from_dynamodb
from conditional_writes.locks import LockLost
from conditional_writes.testing import Engine, Outcome
from tests.explore.bank import LAST, LOCKS, NOW, Bank, Opened
from tests.explore.scenario import Scenario
from tests.support.bodies import hold, opening, payment
from tests.support.in_process import IN_PROCESS, Aws
from tools.local_aws.functions import Context, expire_holds, reconcile_accounts, run_job
from tools.local_aws.tables import Tables

TABLES = Tables("t-accounts", "t-journal", "t-checkpoints", "t-reversals", "t-refusals")
EXPECTED = (LockLost, DeadlinePassed)


@functools.cache
def function_of(name: str, worker: int) -> Any:
    """The job's function in a process of its own."""
    if name == "reconcile_accounts":
        function = reconcile_accounts(IN_PROCESS, TABLES, LOCKS)
    else:
        queue = f"{IN_PROCESS.url}/000000000000/transactions"
        function = expire_holds(IN_PROCESS, TABLES, LOCKS, queue)
    metrics: Any = SimpleNamespace(add_metric=lambda *_: None, flush_metrics=lambda: None)
    vars(function).update(metrics=metrics, job=function.job._replace(metrics=metrics))
    return function


def _now() -> float:
    return time.time()  # the simulated one: `Locks` has kept the real function


class Jobs:
    """A bank, a job, and the queue that it sends to."""

    def __init__(self, bank: Bank, name: str) -> None:
        self.bank, self._name = bank, name
        self.aws = Aws(bank.engine)
        self.aws.sqs.answer("CreateQueue", {"QueueName": "transactions"}, IN_PROCESS.url)
        bank.engine.others["AmazonSQS"] = self.aws.answer
        for worker in range(LAST + 1):
            function = function_of(name, worker)
            function.ACCOUNTS_PER_STEP = 2
            function.job.locks.now = _now
            bank.engine.attach(function.job.locks.client)
            bank.engine.attach(function.job.queue.client)

    def deliver(self, worker: int) -> str:
        """The outcome of a message of the job's."""
        event = {"job": self._name, "scheduled_time": NOW.isoformat()}
        return run_job(function_of(self._name, worker), event, Context(started=time.monotonic()))

    def until_done(self) -> None:
        """Delivers the message once more, long after, until the run is done."""
        self.bank.engine.clock.advance(1000)
        outcomes = [self.deliver(LAST)]
        while outcomes[-1] == "Continued":
            outcomes.append(self.deliver(LAST))
        assert outcomes[-1] in {"Done", "DoneBefore"}, outcomes

    @property
    def report(self) -> dict[str, Any]:
        records = map(from_dynamodb, self.bank.items(LOCKS))
        return next(each for each in records if "finished_at" in each)


class Begun:
    """A set-up: a bank, and a job."""

    def __init__(self, name: str, opened: Opened) -> None:
        self._name, self._opened = name, opened

    def __call__(self, engine: Engine) -> Jobs:
        return Jobs(self._opened(engine), self._name)


def delivered(worker: int) -> Callable[[Jobs], str]:
    return lambda jobs: jobs.deliver(worker)


def reported(**expected: int) -> Callable[[Jobs, Sequence[Outcome]], None]:
    """One invocation at most finishes the run; in the end its report is that of the whole, and doesn't change."""

    def check(jobs: Jobs, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.error is not None and not outcome.was_killed and not isinstance(outcome.error, EXPECTED):
                raise outcome.error
        finished = [outcome for outcome in outcomes if outcome.error is None and outcome.value == "Done"]
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
        "two messages for one time end in one report",
        [delivered(0), delivered(1)],
        Begun("reconcile_accounts", ACCOUNTS),
        reported(accounts_checked=3, mismatches=0),
    ),
    Scenario(
        "an expired hold's message is the same, whoever sends it",
        [delivered(0), delivered(1)],
        Begun("expire_holds", HOLDS),
        expired_once,
    ),
]
