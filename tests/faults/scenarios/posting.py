"""A batch of transactions, delivered until the queue is empty."""

import contextlib
import itertools
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

from conditional_writes import Deadline
from ledger.fold import QueuedTransaction
from tests.checkers.books import Books, name_of, violations
from tests.checkers.outcomes import refusal_violations, untold
from tests.faults.scenarios import ScenarioResult
from tests.faults.scenarios.queues import competing_worker_first, deliver_until_quiet, wrongly_queued
from tests.support.faults import FaultsAt, Killed
from tests.support.ledger import Ledger, with_one_queue
from tools.local_aws.consumers import new_consumer
from tools.local_aws.functions import SAMPLE_QUEUES, Queue, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import refill, scan
from tools.teller.message_queues import MessageQueue
from workers.batches import Measurement

_numbers = itertools.count(1)


class Posting:
    """Posts `batch`. `dead` has the bodies that can never be posted. Each of `killers` kills its function each time.

    With a competing worker SQS delivers the batch twice, and that worker commits it after this one's read. If `theirs`
    are given, that worker commits these messages instead. `there` is posted before, without faults. So that one batch
    has every type, its queue takes those of the administration, too.
    """

    def __init__(
        self,
        aws: Endpoint,
        dynamodb: Endpoint,
        batch: Sequence[Any],
        dead: Sequence[str] = (),
        *,
        competing_worker: bool = False,
        killers: Collection[str] = (),
        maximum_waits: int = 3,
        there: Sequence[Any] = (),
        theirs: Sequence[Any] = (),
    ) -> None:
        self._batch, self._dead, self._killers, self._theirs = batch, dead, killers, theirs
        bus = f"posting-scenario-{next(_numbers)}"
        aws.client("events").create_event_bus(Name=bus)
        self._consumer = new_consumer(aws, bus, bus)
        settings = {"MAXIMUM_WAITS": str(maximum_waits), "POWERTOOLS_LOG_LEVEL": "CRITICAL", "OUTCOMES_BUS": bus}
        self.ledger = Ledger(aws, dynamodb, **settings)
        self.function = with_one_queue(self.ledger.worker)
        self.function.worker = self.function.worker._replace(handle=self._post)
        self.client = self.function.poster.client
        same = {"LOCKS_TABLE": self.ledger.locks_table, "ATTEMPTS_TABLE": self.function.attempts.table}
        self.other = with_one_queue(Ledger(aws, dynamodb, self.ledger.tables, **settings, **same).worker)
        self.function.poster.first_shard, self.other.poster.first_shard = 0, 1
        self._is_competing = competing_worker or bool(theirs)
        self.ledger.post(*there)
        tables = self.ledger.tables
        ours = (tables.accounts, tables.journal, tables.reversals, *same.values())
        self._there = {table: list(scan(dynamodb, table)) for table in ours}

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        self._fill_tables()
        queue = Queue(list(map(_record, self._batch)))
        with self._others_at_work(queue.records):
            clients = (self.client, self.function.worker.queue.client, self.function.refusals.bus.client)
            deliver_until_quiet(self.function, queue, faults, *clients)
        books, letters = self.ledger.books, self.ledger.dead_letters()
        wrong = [*violations(books), *wrongly_queued(queue, letters, [*self._dead, *self._killers])]
        found_out = {letter.body for letter in letters if letter.attributes["reason_code"] == "FUNCTION_KILLED"}
        wrong += [f"FUNCTION_KILLED, or not: {body}" for body in found_out ^ set(self._killers)]
        events = self._consumer.take()
        wrong += refusal_violations(letters, events) + ([] if faults.plan else untold(letters, events))
        return ScenarioResult(faults, _outcomes(books), wrong)

    def _fill_tables(self) -> None:
        for function in (self.function, self.other):
            function.poster.pools.clear()  # so that each run makes the same calls
        for table, items in self._there.items():
            refill(self.ledger.dynamodb, table, items)

    def _others_at_work(self, records: Sequence[dict[str, Any]]) -> AbstractContextManager[None]:
        if not self._is_competing:
            return contextlib.nullcontext()
        theirs = list(map(_record, self._theirs)) or records
        return competing_worker_first(self.client, "TransactWriteItems", self.other, theirs)

    def _post(self, messages: Sequence[QueuedTransaction], deadline: Deadline) -> list[Measurement]:
        if any(message.body in self._killers for message in messages):
            raise Killed
        measurements: list[Measurement] = self.function.poster.post(messages, deadline)
        return measurements


def _record(message: Any) -> dict[str, Any]:
    return record(message) | {"eventSourceARN": f"arn:aws:sqs:us-east-1:1:{SAMPLE_QUEUES[MessageQueue.TRANSACTIONS]}"}


def _outcomes(books: Books) -> dict[tuple[str, str], tuple[str, str | None, Decimal, Decimal, int]]:
    """By account and transaction. Each worker chooses another shard, so an entry on one counts as its pool's."""
    return {
        (name_of(entry.account_id), entry.transaction_id): (
            entry.outcome.status,
            entry.outcome.reason,
            entry.outcome.amount,
            entry.outcome.balance_after,
            entry.outcome.account_version,
        )
        for entry in books.entries
    }
