"""A batch of transactions, delivered until the queue is empty."""

import contextlib
import itertools
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from types import ModuleType
from typing import Any

from conditional_writes import Deadline
from ledger.batch_poster import QueuedTransaction
from tests.checkers.books import Books, read_books, violations
from tests.checkers.outcomes import refusal_violations, untold
from tests.faults.scenarios import ScenarioResult
from tests.faults.scenarios.queues import competing_worker_first, deliver_until_quiet, wrongly_queued
from tests.support.faults import FaultsAt, Killed
from tools.local_aws.consumers import new_consumer
from tools.local_aws.functions import Queue, process_transactions, record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table, create_tables, refill, scan
from workers.batches import Measurement

_numbers = itertools.count(1)


class Posting:
    """Posts `batch`. `dead` has the bodies that can never be posted. Each of `killers` kills its function each time.

    With a competing worker SQS delivers the batch twice, and that worker commits it after this one's read. If `theirs`
    are given, that worker commits these messages instead. `there` is posted before, without faults.
    """

    def __init__(
        self,
        aws: Endpoint,
        dynamodb: Endpoint,
        batch: Sequence[object],
        dead: Sequence[str],
        *,
        competing_worker: bool = False,
        killers: Collection[str] = (),
        maximum_waits: int = 3,
        there: Sequence[object] = (),
        theirs: Sequence[object] = (),
    ) -> None:
        self._aws, self._dynamodb, self._batch, self._dead, self._killers = aws, dynamodb, batch, dead, killers
        prefix = f"posting-scenario-{next(_numbers)}"
        self._tables, self._locks_table = create_tables(dynamodb, prefix), create_locks_table(dynamodb, prefix)
        self._settings = {
            "MAXIMUM_WAITS": str(maximum_waits),
            "POWERTOOLS_LOG_LEVEL": "CRITICAL",
            "LOCKS_TABLE": self._locks_table,
            "OUTCOMES_BUS": prefix,
        }
        aws.client("events").create_event_bus(Name=prefix)
        self._consumer = new_consumer(aws, prefix, prefix)
        self._function = process_transactions(aws, self._tables, dynamodb, **self._settings)
        self._function.worker = self._function.worker._replace(handle=self._post)
        self._client = self._function.poster.client
        self._theirs = theirs
        self._competing_worker = self._another_worker() if competing_worker or theirs else None
        Queue(list(map(record, there))).deliver_until_quiet(self._function)
        self._there = {table: list(scan(dynamodb, table)) for table in self._all_tables()}

    def _another_worker(self) -> ModuleType:
        """A worker of the same tables."""
        attempts_table = self._function.attempts.table
        return process_transactions(
            self._aws, self._tables, self._dynamodb, **self._settings, ATTEMPTS_TABLE=attempts_table
        )

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        self._fill_tables()
        queue = Queue([record(message) for message in self._batch])
        with self._others_at_work(queue.records):
            clients = (self._client, self._function.worker.queue.client, self._function.refusals.bus.client)
            deliver_until_quiet(self._function, queue, faults, *clients)
        books = read_books(self._dynamodb, self._tables)
        letters = take_dead_letters(self._aws, self._function.worker.queue.dead_letter_url)
        wrong = [*violations(books), *wrongly_queued(queue, letters, [*self._dead, *self._killers])]
        found_out = {letter.body for letter in letters if letter.attributes["reason_code"] == "FUNCTION_KILLED"}
        wrong += [f"FUNCTION_KILLED, or not: {body}" for body in found_out ^ set(self._killers)]
        events = self._consumer.take()
        wrong += refusal_violations(letters, events) + ([] if faults.plan else untold(letters, events))
        return ScenarioResult(faults, _outcomes(books), wrong)

    def _fill_tables(self) -> None:
        for table, items in self._there.items():
            refill(self._dynamodb, table, items)

    def _all_tables(self) -> Sequence[str]:
        tables = self._tables
        return tables.accounts, tables.journal, tables.reversals, self._locks_table, self._function.attempts.table

    def _others_at_work(self, records: Sequence[dict[str, Any]]) -> AbstractContextManager[None]:
        if not self._competing_worker:
            return contextlib.nullcontext()
        theirs = list(map(record, self._theirs)) or records
        return competing_worker_first(self._client, "TransactWriteItems", self._competing_worker, theirs)

    def _post(self, messages: Sequence[QueuedTransaction], deadline: Deadline) -> list[Measurement]:
        if any(message.body in self._killers for message in messages):
            raise Killed
        measurements: list[Measurement] = self._function.poster.post(messages, deadline)
        return measurements


def _outcomes(books: Books) -> dict[tuple[str, str], tuple[str, str | None, Decimal, Decimal, int]]:
    return {
        (entry.account_id, entry.transaction_id): (
            entry.outcome.status,
            entry.outcome.reason,
            entry.outcome.amount,
            entry.outcome.balance_after,
            entry.outcome.account_version,
        )
        for entry in books.entries
    }
