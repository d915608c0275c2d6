"""A job's run: its messages at once, twice, killed and paused, end in one report."""

import functools
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from conditional_writes import DeadlinePassed
from conditional_writes.core.items import from_dynamodb
from conditional_writes.locks import LockLost
from conditional_writes.testing import Engine, Outcome
from tests.checkers.books import violations
from tests.checkers.windows import charged_twice, open_though_expired
from tests.explore.bank import LAST, LOCKS, NOW, TABLES, Bank, Opened, assert_none
from tests.explore.scenario import Scenario
from tests.support.bodies import hold, opening, openings, payment, rate, transfer
from tests.support.in_process import IN_PROCESS, Aws
from tools.local_aws import functions
from tools.local_aws.functions import Context, reconcile_accounts, run_job

DAY_SECONDS = 24 * 3600
EXPECTED = (LockLost, DeadlinePassed)


@functools.cache
def function_of(name: str, worker: int) -> Any:
    """The job's function in a process of its own."""
    if name == "reconcile_accounts":
        function = reconcile_accounts(IN_PROCESS, TABLES, LOCKS)
    else:
        queue = f"{IN_PROCESS.url}/000000000000/transactions"
        function = getattr(functions, name)(IN_PROCESS, TABLES, LOCKS, queue)
    metrics: Any = SimpleNamespace(add_metric=lambda *_: None, flush_metrics=lambda: None)
    vars(function).update(metrics=metrics, job=function.job._replace(metrics=metrics))
    return function


def _now() -> float:
    return time.time()  # the simulated one: `Locks` has kept the real function


class Jobs:
    """A bank, a job, and the queue that it sends to. `time` is the run's."""

    def __init__(self, bank: Bank, name: str) -> None:
        self.bank, self._name, self.time = bank, name, NOW
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
        event = {"job": self._name, "scheduled_time": self.time.isoformat()}
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
        return max((each for each in records if "finished_at" in each), key=lambda each: each["finished_at"])

    def wait(self, days: int) -> None:
        """The run is so many days later."""
        self.bank.engine.clock.advance(days * DAY_SECONDS)
        self.time = datetime.fromtimestamp(self.bank.engine.clock.time(), UTC)


class Begun:
    """A set-up: a bank, and a job, to which `then` was done."""

    def __init__(self, name: str, opened: Opened, then: Callable[[Jobs], object] = lambda _: None) -> None:
        self._name, self._opened, self._then = name, opened, then

    def __call__(self, engine: Engine) -> Jobs:
        jobs = Jobs(self._opened(engine), self._name)
        self._then(jobs)
        return jobs


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


def sent_once(number: int) -> Callable[[Jobs, Sequence[Outcome]], None]:
    """So many messages, the same whoever sends them. Posted in any number, each has one effect."""

    def check(jobs: Jobs, outcomes: Sequence[Outcome]) -> None:
        reported(sent=number)(jobs, outcomes)
        bodies = [message.body for message in jobs.aws.sqs.queues["transactions"].messages]
        assert len({*bodies}) == number, bodies
        jobs.bank.deliver_until_done(*map(json.loads, bodies))
        books = jobs.bank.books
        assert_none([*violations(books), *charged_twice(books), *open_though_expired(books, jobs.time)])

    return check


def damaged(jobs: Jobs) -> None:
    """The books were reconciled the night before. Since then entries were made, and a balance was changed."""
    jobs.until_done()
    jobs.bank.deliver_until_done(payment("p-2", 5, "bob"), transfer("t-1", 7, "alice", "carol"))
    jobs.bank.change_account("bob", balance=777)
    jobs.wait(days=1)


def only_bobs_is_wrong(jobs: Jobs, outcomes: Sequence[Outcome]) -> None:
    """The checkpoints are those of the sound accounts, as they are now."""
    reported(accounts_checked=3, mismatches=1)(jobs, outcomes)
    assert [each.split(":")[0] for each in jobs.report["first_mismatches"]] == ["bob"], jobs.report
    saved, wanted = (
        {each["account_id"]: each.get("version") for each in map(from_dynamodb, jobs.bank.items(table))}
        for table in (TABLES.checkpoints, TABLES.accounts)
    )
    del wanted["bob"]
    assert saved == wanted, saved


ACCOUNTS = Opened(*[opening(name) for name in ("alice", "bob", "carol")], payment("p-1", 20))
HOLDS = Opened(
    opening("alice"),
    payment("p-1", 20),
    hold("h-1", 5, expires_at=(NOW - timedelta(hours=1)).isoformat()),
    hold("h-2", 5, expires_at=(NOW + timedelta(hours=1)).isoformat()),
)
OVERDRAWN = Opened(
    *openings("alice", "bob", "carol", limit=-1000),
    *(payment("p-1", amount, name) for name, amount in (("alice", -100), ("bob", -200), ("carol", 50))),
    *(rate("rate", "0.365", name) for name in ("alice", "bob", "carol")),
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
        sent_once(1),
    ),
    Scenario(
        "a month's interest is charged once on each account that owes it",
        [delivered(0), delivered(1)],
        Begun("charge_overdraft_interest", OVERDRAWN, then=lambda jobs: jobs.wait(days=40)),
        sent_once(2),
        completes=False,
    ),
    Scenario(
        "a night finds the damage of its day, and keeps the checkpoints of the other accounts",
        [delivered(0)],
        Begun("reconcile_accounts", ACCOUNTS, then=damaged),
        only_bobs_is_wrong,
        completes=False,
    ),
]
