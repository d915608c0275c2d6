"""The tests' ledger: its tables, its queue, and the functions that post to it and run its jobs, each as a process."""

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

from conditional_writes.core.items import Item, from_dynamodb, to_dynamodb
from conditional_writes.core.steps import current
from ledger.core.accounts import Account
from ledger.core.journal import Outcome
from ledger.core.transaction_types import decode
from tests.checkers.books import Books, read_books
from tests.checkers.statement_oracle import Journal, journals
from tests.support.bodies import Body, openings
from tests.support.clock import Clock
from tools.local_aws import functions
from tools.local_aws.functions import Context, Queue, invoke, process_transactions, record
from tools.local_aws.queues import DeadLetter, take_dead_letters
from tools.local_aws.server import Endpoint, shared_client
from tools.local_aws.tables import Tables, create_locks_table, create_tables, refill, scan

YEAR_2020 = datetime(2020, 1, 1, tzinfo=UTC)
_numbers = itertools.count(1)

type Key = dict[str, str]


def with_one_queue(function: ModuleType) -> ModuleType:
    """The function, whose queues both take every type: so a batch may have all of them."""
    function.worker = function.administration = function.worker._replace(decode=decode)
    return function


class Ledger:
    """The tables are on `dynamodb`, or on `aws`, too. Names are alice's unless they are given.

    `clock` is that of the jobs' locks. `calls` has the calls of the watched clients, as in "GetItem accounts", with the
    ends of tables' names, and "Query index". Before each of them `before_call` gets its operation and its body, which
    it may change, and it may raise an error. Variables are those of the function that posts.
    """

    def __init__(
        self, aws: Endpoint, dynamodb: Endpoint | None = None, tables: Tables | None = None, **variables: str
    ) -> None:
        self.aws, self.dynamodb = aws, dynamodb or aws
        name = f"ledger-{next(_numbers)}"
        self.tables = tables or create_tables(self.dynamodb, name)
        self.locks_table = variables.pop("LOCKS_TABLE", "") or create_locks_table(self.dynamodb, name)
        self.client = shared_client(self.dynamodb, "dynamodb")
        self.clock = Clock()
        self._variables = variables
        self.workers: list[ModuleType] = []
        self.calls: list[str] = []
        self.before_call: Callable[[str, dict[str, Any]], None] = lambda operation, body: None
        self._noting = threading.Lock()

    # Posting

    @property
    def worker(self) -> ModuleType:
        """The function that posts. Ledgers that are filled otherwise need none."""
        if not self.workers:
            self.workers.append(self._new_worker())
        return self.workers[0]

    def _new_worker(self, **same: str) -> ModuleType:
        variables = {"LOCKS_TABLE": self.locks_table} | self._variables | same
        return process_transactions(self.aws, self.tables, self.dynamodb, **variables)

    def another_worker(self, **variables: str) -> ModuleType:
        """The function that posts, in another process. It may have other variables."""
        queue = self.worker.worker.queue
        made = self._new_worker(
            QUEUE_URL=queue.url,
            DEAD_LETTER_QUEUE_URL=queue.dead_letter_url,
            ATTEMPTS_TABLE=self.worker.attempts.table,
            **variables,
        )
        self.workers.append(made)
        return made

    def open(self, *account_ids: str, limit: object = None, currency: str = "EUR") -> None:
        self.post(*openings(*account_ids, limit=limit, currency=currency))

    def post(self, *messages: Body | str, batch: int = 10_000, worker: ModuleType | None = None) -> None:
        """Delivers messages, or bodies as they are, until none is left on the queue."""
        for start in range(0, len(messages), batch):
            Queue(list(map(record, messages[start : start + batch]))).deliver_until_quiet(worker or self.worker)

    def returned(
        self, *messages: Body | str, worker: ModuleType | None = None, context: Context | None = None
    ) -> set[str]:
        """Delivers messages once. Returns the ids of those that go back to the queue."""
        return invoke(worker or self.worker, list(map(record, messages)), context)

    def post_at(self, time: datetime, *messages: Body, meanwhile: Sequence[Body] = ()) -> None:
        """Posts as of a time. Another worker posts `meanwhile` just before the first commit, which thus loses."""
        waiting = [meanwhile] if meanwhile else []
        other = (self.workers[1:] or [self.another_worker()])[0] if meanwhile else None

        def before_commit(**_: Any) -> None:
            if waiting:
                self.returned(*waiting.pop(), worker=other)

        events = self.worker.poster.client.meta.events
        events.register("before-call.dynamodb.TransactWriteItems", before_commit)
        with mock.patch("ledger.batch_poster.datetime", SimpleNamespace(now=time.astimezone)):
            self.returned(*messages)
        events.unregister("before-call.dynamodb.TransactWriteItems", before_commit)

    def post_hourly(self, *messages: Body) -> None:
        """The first one as of the beginning of 2020."""
        for hours, message in enumerate(messages):
            self.post_at(YEAR_2020 + timedelta(hours=hours), message)

    def dead_letters(self) -> list[DeadLetter]:
        """Takes all of them from the dead-letter queue."""
        return take_dead_letters(self.aws, self.worker.worker.queue.dead_letter_url)

    def queued(self) -> list[str]:
        """Takes all bodies from the transactions queue: those that jobs have sent."""
        return [message.body for message in take_dead_letters(self.aws, self.worker.worker.queue.url)]

    # Jobs

    def job(self, name: str, **variables: str) -> ModuleType:
        """A job's function in a new process, by the ledger's clock."""
        if name == "reconcile_accounts":
            function = functions.reconcile_accounts(self.dynamodb, self.tables, self.locks_table, **variables)
        else:
            url, make = self.worker.worker.queue.url, getattr(functions, name)
            function = make(self.aws, self.tables, self.locks_table, url, self.dynamodb, **variables)
        function.job.locks.now = self.clock
        return function

    def forget_all_runs(self) -> None:
        refill(self.dynamodb, self.locks_table)

    # Calls

    def watch(self, *clients: Any) -> None:
        """From now on `calls` has these clients' calls, too. Threads may share a client."""
        for client in clients:
            client.meta.events.register("before-call", self._note)

    @property
    def requests(self) -> Counter[str]:
        return Counter(self.calls)

    def calls_of(self, do: Callable[[], object]) -> list[str]:
        """The calls while this is done."""
        before = len(self.calls)
        do()
        return self.calls[before:]

    def _note(self, model: Any, params: dict[str, Any], **_: Any) -> None:
        body = json.loads(params["body"])
        names = [body["TableName"]] if "TableName" in body else list(body.get("RequestItems", ()))
        which = "index" if "IndexName" in body else " ".join(sorted(name.rpartition("-")[2] for name in names))
        with self._noting:
            self.calls.append(f"{model.name} {which}".strip())
        before = current.set(None)  # what others do meanwhile is no part of this request
        try:
            self.before_call(model.name, body)
        finally:
            current.reset(before)
        params["body"] = json.dumps(body).encode()

    # What became of it, and damage to it

    @property
    def books(self) -> Books:
        return read_books(self.dynamodb, self.tables)

    def account(self, account_id: str = "alice") -> Account:
        return self.books.accounts[account_id]

    def outcomes(self, account_id: str = "alice") -> dict[str, Outcome]:
        """The account's outcomes by transaction id, in their order."""
        return {entry.transaction_id: entry.outcome for entry in self.books.journal[account_id]}

    def results(self, *transaction_ids: str, account_id: str = "alice") -> list[str]:
        """Of each transaction: POSTED, or the reason of its rejection."""
        outcomes = self.outcomes(account_id)
        return [outcomes[each].reason or outcomes[each].status for each in transaction_ids]

    def journals(self) -> dict[str, Journal]:
        return journals(self.items(self.tables.accounts), self.items(self.tables.journal))

    def items(self, table: str) -> list[Item]:
        return list(map(from_dynamodb, scan(self.dynamodb, table)))

    def item(self, table: str, key: Key) -> Item:
        found = self.client.get_item(TableName=table, Key=to_dynamodb(dict(key)), ConsistentRead=True)
        return from_dynamodb(found["Item"])

    def put(self, table: str, item: Item) -> None:
        self.client.put_item(TableName=table, Item=to_dynamodb(item))

    def change(self, table: str, key: Key, **changes: Any) -> None:
        """Puts the item with these attributes changed; those that are None are removed."""
        item = self.item(table, key) | changes
        self.put(table, {name: value for name, value in item.items() if value is not None})

    def account_item(self, account_id: str = "alice") -> Item:
        return self.item(self.tables.accounts, {"account_id": account_id})

    def put_account(self, account_id: str = "alice", /, **attributes: Any) -> None:
        """An account of any attributes, in the place of the one that was there."""
        self.put(self.tables.accounts, attributes | {"account_id": account_id})

    def change_account(self, account_id: str = "alice", /, **changes: Any) -> None:
        self.change(self.tables.accounts, {"account_id": account_id}, **changes)

    def entry(self, transaction_id: str, account_id: str = "alice") -> Item:
        return self.item(self.tables.journal, self._entry_key(transaction_id, account_id))

    def put_entry(self, item: Item) -> None:
        self.put(self.tables.journal, item)

    def change_entry(self, transaction_id: str, account_id: str = "alice", /, **changes: Any) -> None:
        self.change(self.tables.journal, self._entry_key(transaction_id, account_id), **changes)

    def delete_entry(self, transaction_id: str, account_id: str = "alice") -> None:
        key = to_dynamodb(dict(self._entry_key(transaction_id, account_id)))
        self.client.delete_item(TableName=self.tables.journal, Key=key)

    def empty(self, tables: Iterable[str] = ()) -> None:
        """Removes all items of these tables, or of the ledger's own three."""
        for table in tables or (self.tables.accounts, self.tables.journal, self.tables.reversals):
            refill(self.dynamodb, table)

    def _entry_key(self, transaction_id: str, account_id: str) -> Key:
        """Also if the account isn't the transaction's home."""
        found = (each for each in self.items(self.tables.journal) if each["account_id"] == account_id)
        ids = {item["request"]["transaction_id"]: item["transaction_id"] for item in found}
        return {"account_id": account_id, "transaction_id": ids[transaction_id]}
