"""The ledger in every order: its tables on the explorer's engine, and workers that post as the function does."""

import functools
import json
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from unittest import mock

from conditional_writes import Deadline, dynamodb_client
from conditional_writes.core.items import Item, from_dynamodb, to_dynamodb
from conditional_writes.testing import Engine, Outcome
from conditional_writes.testing.exploring import START_SECONDS
from ledger.batch_poster import BatchPoster
from ledger.core import journal
from ledger.core.transaction_types import decode
from ledger.lines import Lines
from ledger.tables import LedgerTables
from tests.checkers.books import Books, books_of, vanished, violations
from tests.checkers.history import entries_of, flipped
from tests.explore.scenario import Scenario
from tests.support.in_process import IN_PROCESS, Aws, answered_by
from tools.local_aws.tables import (
    Tables,
    create_attempts_table,
    create_locks_table,
    create_profiles_table,
    create_tables,
)
from workers.queue_messages import Disposition, Done, QueueMessage

type Body = dict[str, Any]

NOW = datetime.fromtimestamp(START_SECONDS, UTC)
WORKERS = 3
LAST = WORKERS
"""The worker that delivers what is left, after the others."""
DELIVERY_SECONDS = 60
MOST_DELIVERIES = 5

NAMES = LedgerTables("t-accounts", "t-journal", "t-reversals", "t-refusals")
LOCKS, PROFILES, CHECKPOINTS, ATTEMPTS = "t-locks", "t-profiles", "t-checkpoints", "t-attempts"
TABLES = Tables(NAMES.accounts, NAMES.journal, CHECKPOINTS, NAMES.reversals, NAMES.refusals)


class Delivered(NamedTuple):
    """A message, and what a delivery has made of it."""

    body: Body
    disposition: Disposition | None


class Bank:
    """The tables of one order. Each worker has a client of its own, as a process has."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.clients = [engine.attach(client_of(number)) for number in range(WORKERS + 1)]

    def deliver(self, worker: int, *bodies: Body, receive_count: int = 1) -> list[Delivered]:
        """Posts the messages as the function does with a batch. The shards that it chooses begin with its number."""
        client = self.clients[worker]
        messages = [_message(body, receive_count) for body in bodies]
        poster = BatchPoster(client, NAMES, Lines(client, LOCKS), first_shard=worker)
        poster.post(messages, Deadline.after(DELIVERY_SECONDS))
        return [Delivered(body, message.disposition) for body, message in zip(bodies, messages, strict=True)]

    def deliver_until_done(self, *bodies: Body) -> None:
        for receive_count in range(2, MOST_DELIVERIES + 2):
            delivered = self.deliver(LAST, *bodies, receive_count=receive_count)
            if all(isinstance(each.disposition, Done) for each in delivered):
                return
        raise AssertionError(f"not done after {MOST_DELIVERIES} deliveries: {delivered}")

    def items(self, table: str) -> list[dict[str, Any]]:
        return list(self.engine.database.table(table).store.items.values())

    @property
    def books(self) -> Books:
        return books_of(*map(self.items, NAMES[:3]))

    def put(self, table: str, item: Item) -> None:
        self.clients[LAST].put_item(TableName=table, Item=to_dynamodb(item))

    def change_account(self, account_id: str, **changes: Any) -> None:
        [account] = [
            each for each in map(from_dynamodb, self.items(NAMES.accounts)) if each["account_id"] == account_id
        ]
        self.put(NAMES.accounts, account | changes)


@functools.cache
def client_of(_: object) -> Any:
    """A client of this worker, for all orders: it is slow to make."""
    with mock.patch.dict(os.environ, IN_PROCESS.environment):
        return dynamodb_client()


def _message(body: Body, receive_count: int) -> QueueMessage[Any]:
    text = json.dumps(body)
    message_id, content = f"m-{body['transaction_id']}", decode(text)
    return QueueMessage(message_id, "receipt", text, receive_count, NOW, {}, sent_by="producer", content=content)


class Opened:
    """A set-up: a bank to which these messages were posted, and to which `then` was done. Made once, and copied."""

    def __init__(self, *messages: Body, then: Callable[[Bank], object] = lambda _: None) -> None:
        self._messages, self._then = messages, then
        self._tables: dict[str, Any] = {}

    def __call__(self, engine: Engine) -> Bank:
        bank = Bank(engine)
        if not self._tables:
            with answered_by(Aws(engine)):
                create_tables(IN_PROCESS, "t")
                create_locks_table(IN_PROCESS, "t")
                create_profiles_table(IN_PROCESS, "t")
                create_attempts_table(IN_PROCESS, "t")
            for message in self._messages:
                bank.deliver_until_done(message)
            self._then(bank)
            self._tables = engine.database.tables
            engine.clock.reset()
        engine.database.tables = {name: table.copy() for name, table in self._tables.items()}
        return bank


def posting(worker: int, *bodies: Body, receive_count: int = 1) -> Callable[[Bank], list[Delivered]]:
    return lambda bank: bank.deliver(worker, *bodies, receive_count=receive_count)


def each_once(*bodies: Body) -> Callable[[Bank, Sequence[Outcome]], None]:
    """The check of workers that post: each message has one effect at most, and after further deliveries exactly one.

    What was reported as done is in the journal, and stays there as it was.
    """

    def check(bank: Bank, outcomes: Sequence[Outcome]) -> None:
        before = bank.books
        assert_none(violations(before))
        for outcome in outcomes:
            if not outcome.was_killed:
                assert_none(_untrue(raised_none(outcome), before))
        bank.deliver_until_done(*bodies)
        after = bank.books
        assert_none(violations(after))
        assert_none(flipped(entries_of(before), after))
        assert_none(vanished(map(json.dumps, bodies), after, ()))

    return check


def at_once(
    claim: str,
    setup: Callable[[Engine], Bank],
    *deliveries: Body | tuple[Body, ...],
    again: Sequence[int] = (),
    completes: bool = True,
) -> Scenario:
    """A worker is delivered each of these messages, or batches: those of the workers `again` a second time."""
    batches = [each if isinstance(each, tuple) else (each,) for each in deliveries]
    workers = [posting(number, *batch, receive_count=1 + (number in again)) for number, batch in enumerate(batches)]
    distinct = {json.dumps(body): body for batch in batches for body in batch}
    return Scenario(claim, workers, setup, each_once(*distinct.values()), completes=completes)


def assert_none(problems: Iterable[str]) -> None:
    found = list(problems)
    assert not found, "; ".join(found)


def raised_none(outcome: Outcome) -> Any:
    """A worker's value. Raises what the worker has raised."""
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _untrue(delivered: Iterable[Delivered], books: Books) -> Iterable[str]:
    """Yields a sentence for each outcome that a worker has reported, and that the journal doesn't have."""
    entries = entries_of(books)
    for body, disposition in delivered:
        if isinstance(disposition, Done) and isinstance(disposition.effect, journal.Outcome):
            own = [entry.outcome for (*_, name), entry in entries.items() if name == body["transaction_id"]]
            told = disposition.effect
            if all(
                (told.status, told.reason, told.account_version) != (o.status, o.reason, o.account_version) for o in own
            ):
                yield f"{body['transaction_id']} was reported as {told}, and the journal has {own}"
