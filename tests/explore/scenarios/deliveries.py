"""Batches of a queue's function, killed or failed at any call, until SQS's own times have brought back all of it."""

import functools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from conditional_writes.testing import Engine, Outcome
from ledger.core.outcome_events import SOURCE
from tests.checkers.books import vanished, violations
from tests.checkers.history import entries_of, flipped
from tests.checkers.outcomes import refusal_violations
from tests.explore.bank import ATTEMPTS, LAST, LOCKS, TABLES, Bank, Body, Opened, assert_none, raised_none
from tests.explore.scenario import Scenario
from tests.support.bodies import openings, payment, transfer
from tests.support.event_source import EventSource
from tests.support.in_process import IN_PROCESS, Aws, answered_by
from tests.support.ledger import with_one_queue
from tools.local_aws.functions import process_transactions
from tools.local_aws.queues import take_dead_letters
from workers.attempts import MAXIMUM_BEGUN

QUEUE, LETTERS, HEARD = (f"{IN_PROCESS.url}/000000000000/{name}" for name in ("alive", "dead", "heard"))
OPENED = Opened(*openings("alice", "bob", limit=-10))
VISIBILITY = {"VisibilityTimeout": "840"}
HOURS = 3600


class Exited(BaseException):
    """The function's process ended at a message."""


@functools.cache
def function_of(worker: int) -> Any:
    """The function in a process of its own. `killers` are the bodies at which the process ends; `ends` has each end."""
    queues = {"QUEUE_URL": QUEUE, "DEAD_LETTER_QUEUE_URL": LETTERS}
    with answered_by(Aws(Engine())):
        same = {"ATTEMPTS_TABLE": ATTEMPTS, "LOCKS_TABLE": LOCKS, "OUTCOMES_BUS": "outcomes"}
        function: Any = with_one_queue(process_transactions(IN_PROCESS, TABLES, **same, **queues))
    function.killers, function.ends = (), list[str]()
    function.poster.first_shard = worker

    def post(messages: Sequence[Any], deadline: Any) -> Any:
        for message in messages:
            if message.body in function.killers:
                function.ends.append(message.body)
                raise Exited
        return function.poster.post(messages, deadline)

    def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = function.worker.process(event, context)
        except Exited:
            return {"batchItemFailures": [{"itemIdentifier": each["messageId"]} for each in event["Records"]]}
        return answer

    silent: Any = SimpleNamespace(add_metric=lambda *_: None, flush_metrics=lambda: None)
    function.worker = function.worker._replace(handle=post, metrics=silent)
    function.lambda_handler = handle
    return function


class Delivered:
    """A bank, the queue with these messages, and the bus of refusals."""

    def __init__(self, bank: Bank, bodies: Sequence[str], killers: Sequence[str]) -> None:
        self.bank, self.aws, self.ends = bank, Aws(bank.engine), list[str]()
        for url, attributes in ((QUEUE, VISIBILITY), (LETTERS, {}), (HEARD, {})):
            name = url.rpartition("/")[2]
            self.aws.sqs.answer("CreateQueue", {"QueueName": name, "Attributes": attributes}, IN_PROCESS.url)
        self.aws.bring(SOURCE, bus="outcomes", queue="heard")
        bank.engine.others |= {"AmazonSQS": self.aws.answer, "AWSEvents": self.aws.answer}
        for worker in range(LAST + 1):
            function = function_of(worker)
            function.killers, function.ends = killers, self.ends
            function.poster.pools.clear()
            for client in (function.dynamodb, function.worker.queue.client, function.refusals.bus.client):
                bank.engine.attach(client)
        self._source(LAST).send(*bodies)

    def _source(self, worker: int) -> EventSource:
        return EventSource(self.aws.sqs, self.bank.engine.clock, function_of(worker))

    def deliver(self, worker: int) -> None:
        self._source(worker).run_once()

    def until_quiet(self, worker: int) -> None:
        source = self._source(worker)
        source.run(8 * HOURS)
        assert not source.messages, source.messages


def settled(
    bodies: Sequence[str], dead: Sequence[str], killers: Sequence[str], results: dict[str, int]
) -> Callable[[Delivered, Sequence[Outcome]], None]:
    """The check: in the end each message is posted or rejected once, or dead with its reason, and no healthy one is."""

    def check(delivered: Delivered, outcomes: Sequence[Outcome]) -> None:
        before = delivered.bank.books
        assert_none(violations(before))
        for outcome in outcomes:
            if not outcome.was_killed:
                raised_none(outcome)
        delivered.until_quiet(LAST)
        after = delivered.bank.books
        with answered_by(delivered.aws):
            letters = take_dead_letters(IN_PROCESS, LETTERS)
        heard = [json.loads(message.body) for message in delivered.aws.sqs.queues["heard"].messages]
        kills = len(delivered.ends) + sum(outcome.was_killed for outcome in outcomes)
        assert kills >= MAXIMUM_BEGUN * len(killers), f"given up after {kills} kills"
        assert_none(violations(after))
        assert_none(flipped(entries_of(before), after))
        assert_none(vanished(bodies, after, letters))
        assert_none(refusal_violations(letters, heard))
        assert {letter.body for letter in letters} == {*dead, *killers}, letters
        found_out = {letter.body for letter in letters if letter.attributes["reason_code"] == "FUNCTION_KILLED"}
        assert found_out == {*killers}, letters
        counted = Counter(entry.outcome.reason or entry.outcome.status for entry in after.entries)
        assert counted == results, counted

    return check


def scenario(
    claim: str,
    *messages: Body | str,
    dead: Sequence[Body | str] = (),
    killers: Sequence[Body] = (),
    results: dict[str, int],
    workers: int = 1,
    **how: Any,
) -> Scenario:
    """One worker gets what comes again, too. Several have a batch each, of the same messages, which were sent again."""
    bodies, dead_bodies, killing = (
        [each if isinstance(each, str) else json.dumps(each) for each in some] for some in (messages, dead, killers)
    )
    alone: list[Callable[[Delivered], None]] = [lambda delivered: delivered.until_quiet(0)]
    return Scenario(
        claim,
        alone if workers == 1 else [_delivering(worker) for worker in range(workers)],
        lambda engine: Delivered(OPENED(engine), bodies * workers, killing),
        settled(bodies, dead_bodies, killing, results),
        completes=False,
        **how,
    )


def _delivering(worker: int) -> Callable[[Delivered], None]:
    return lambda delivered: delivered.deliver(worker)


CHANGED, UNKNOWN, KILLER = payment("1", 6), payment("1", 1, "nobody"), payment("2", 7)
DEAD = [CHANGED, UNKNOWN, "not JSON"]
BATCH = [
    payment("1", 5),
    payment("1", 5),
    payment("2", -100),
    *openings("carol", limit=-10),
    transfer("3", 7, "bob", "carol"),
    transfer("4", 4, "bob", "carol"),
    *DEAD,
]
RESULTS = {"POSTED": 6, "OVERDRAFT_LIMIT": 3}

SCENARIOS = [
    scenario(
        "each message of a batch is posted or rejected once, or dead with its reason",
        *BATCH,
        dead=DEAD,
        results=RESULTS,
        most_faults=2,
        budget=20,
    ),
    scenario(
        "two batches of the same messages end as one does", *BATCH, dead=DEAD, results=RESULTS, workers=2, budget=10
    ),
    scenario(
        "a message that kills its function is dead in the end, and the others of its batch are done",
        payment("1", 5),
        KILLER,
        *openings("carol"),
        "not JSON",
        dead=["not JSON"],
        killers=[KILLER],
        results={"POSTED": 4},
        budget=20,
    ),
]
