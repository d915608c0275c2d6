"""A bank whose accounts are reconciled, and changes of its items behind its back."""

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from conditional_writes import Item
from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger.checkpoints import Checkpoint
from ledger.core.accounts import Account, AccountStatus
from tests.support.clock import Clock
from tests.support.faults import Killed
from tests.support.late_index import LateIndex
from tools.local_aws.functions import Context, Queue, process_transactions, reconcile_accounts, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, create_locks_table, create_tables, refill, scan

_numbers = itertools.count(1)
FIRST_NIGHT = datetime(2026, 3, 1, 2, tzinfo=UTC)


def event(night: float = 0, **fields: Any) -> dict[str, Any]:
    scheduled_time = (FIRST_NIGHT + timedelta(days=night)).isoformat()
    return {"job": "reconcile_accounts", "scheduled_time": scheduled_time, "force": True} | fields


def opening(account_id: str, limit: int = -200) -> dict[str, Any]:
    fields = {"account_id": account_id, "currency": "EUR", "overdraft_limit": limit}
    return {"type": "open_account", "transaction_id": f"open-{account_id}"} | fields


def payment(transaction_id: str, amount: object, account_id: str) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "account_id": account_id, "amount": amount}


def transfer(transaction_id: str, amount: object, payer: str, payee: str) -> dict[str, Any]:
    accounts = {"from_account_id": payer, "to_account_id": payee, "amount": amount}
    return {"type": "transfer", "transaction_id": transaction_id} | accounts


class Bank:
    """A ledger on `dynamodb`, and its reconciliation. Pauses and deadlines go by `clock`, and so do leases.

    `index` is the journal's index as the reconciliation sees it. Before each query of a journal `before_query` is
    called with the account id: it may raise an error of AWS's, or kill the process. A query takes `query_seconds` of
    the clock. The process is killed before call number `kill_at`. `requests` counts by operation and table.
    """

    def __init__(self, aws: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
        prefix = f"reconcile-{next(_numbers)}"
        self.aws, self.dynamodb, self.client = aws, dynamodb, dynamodb.client("dynamodb")
        self.tables: Tables = create_tables(dynamodb, prefix)
        self.locks_table = create_locks_table(dynamodb, prefix)
        self.clock, self.index = Clock(), LateIndex()
        self.before_query: Callable[[str], None] = lambda account_id: None
        self.query_seconds = 0.0
        self.kill_at, self.calls = 0, 0
        self._counting, self._posting = threading.Lock(), threading.Lock()
        self.requests: Counter[str] = Counter()
        self._process: ModuleType | None = None
        for module in ("reconciler", "journal_versions", "long_journals"):
            monkeypatch.setattr(f"ledger.{module}.time", self.clock)
        monkeypatch.setattr("conditional_writes.deadline.time", SimpleNamespace(monotonic=self.clock))
        monkeypatch.setattr("workers.scheduled_jobs._invoke_again", lambda event, context: None)

    @cached_property
    def teller(self) -> ModuleType:
        return process_transactions(self.aws, self.tables, self.dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")

    def post(self, *messages: dict[str, Any]) -> None:
        """One thread of the reconciler's at a time."""
        with self._posting:
            Queue([record(message) for message in messages]).deliver_until_quiet(self.teller)

    # --- the job ----------------------------------------------------------------------------------------------

    def job(self) -> ModuleType:
        """The function in a new process."""
        function = reconcile_accounts(self.dynamodb, self.tables, self.locks_table)
        function.job.locks.now = self.clock
        killed = threading.Event()

        def before_call(model: Any, params: dict[str, Any], **_: Any) -> None:
            body = json.loads(params["body"])
            if self._count(model.name, body) == self.kill_at:
                killed.set()
            if killed.is_set():
                raise Killed
            try:
                if model.name == "Query":
                    self.clock.sleep(self.query_seconds)
                    self.before_query(body["ExpressionAttributeValues"][":account_id"]["S"])
            except Killed:
                killed.set()
                raise

        function.client.meta.events.register("before-call.dynamodb", before_call)
        self.index.watch(function.client)
        return function

    def _count(self, operation: str, body: dict[str, Any]) -> int:
        """Returns the call's number. The reconciler's threads call in parallel."""
        names = [body["TableName"]] if "TableName" in body else list(body.get("RequestItems", ()))
        which = "index" if "IndexName" in body else " ".join(sorted(name.rpartition("-")[2] for name in names))
        with self._counting:
            self.calls += 1
            self.requests[f"{operation} {which}".strip()] += 1
            return self.calls

    def run_until_done(self, night: float = 0, **fields: Any) -> list[str]:
        """Invokes the function for a night until it is done, each time after the last lease is over.

        One process has all nights until it is killed.
        """
        outcomes: list[str] = []
        while not outcomes or outcomes[-1] not in ("Done", "DoneBefore"):
            assert len(outcomes) < 100
            self.clock.sleep(3600)
            self._process = self._process or self.job()
            try:
                outcomes.append(self._process.lambda_handler(event(night, **fields), Context(150))["outcome"])
            except Killed:
                outcomes.append("Killed")
                self._process = None
        return outcomes

    def run(self, night: float = 0, **fields: Any) -> dict[str, Any]:
        """Runs a night's reconciliation to its end, and returns its report."""
        self.run_until_done(night, **fields)
        return self.report(night)

    def report(self, night: float = 0) -> dict[str, Any]:
        return self._item(self.locks_table, lock_key=f"reconcile_accounts {event(night)['scheduled_time']}")

    def quiet_night(self) -> int:
        """A night that is followed by as many nights as possible on which no account is due for a whole replay."""
        names = self.accounts()

        def quiet_after(night: int) -> int:
            day = (FIRST_NIGHT + timedelta(days=night)).date()
            saved = [Checkpoint(_account(name), day) for name in names]
            later = itertools.count(1)
            return next(days for days in later if any(each.is_whole_due(day + timedelta(days=days)) for each in saved))

        return max(range(30), key=quiet_after)

    # --- items ------------------------------------------------------------------------------------------------

    def _item(self, table: str, **key: str) -> dict[str, Any]:
        return from_dynamodb(self.client.get_item(TableName=table, Key=to_dynamodb(key)).get("Item", {}))

    def put(self, table: str, item: Item) -> None:
        """Attributes that are None are left out."""
        present = {name: value for name, value in item.items() if value is not None}
        self.client.put_item(TableName=table, Item=to_dynamodb(present))

    def delete(self, table: str, account_id: str, transaction_id: str | None = None) -> None:
        key = {"account_id": account_id} | ({"transaction_id": transaction_id} if transaction_id else {})
        self.client.delete_item(TableName=table, Key=to_dynamodb(key))

    def change_account(self, account_id: str, **changes: Any) -> None:
        self.put(self.tables.accounts, self._item(self.tables.accounts, account_id=account_id) | changes)

    def entry(self, account_id: str, transaction_id: str) -> dict[str, Any]:
        return self._item(self.tables.journal, account_id=account_id, transaction_id=transaction_id)

    def change_entry(self, account_id: str, transaction_id: str, **changes: Any) -> None:
        self.put(self.tables.journal, self.entry(account_id, transaction_id) | changes)

    def delete_entry(self, account_id: str, transaction_id: str) -> None:
        self.delete(self.tables.journal, account_id, transaction_id)

    def reversed(self, account_id: str, transaction_id: str) -> dict[str, Any]:
        return self._item(self.tables.reversals, account_id=account_id, transaction_id=transaction_id)

    def change_reversed(self, account_id: str, transaction_id: str, /, **changes: Any) -> None:
        """Changes an item of the Reversals table, or adds one."""
        key = {"account_id": account_id, "transaction_id": transaction_id}
        added = {"amount": Decimal(1), "version": 1, "reversed_by": "r-9", "account_version": 3}
        self.put(self.tables.reversals, (self.reversed(account_id, transaction_id) or added) | key | changes)

    def delete_reversed(self, account_id: str, transaction_id: str) -> None:
        self.delete(self.tables.reversals, account_id, transaction_id)

    def accounts(self) -> dict[str, dict[str, Any]]:
        return self._by_account(self.tables.accounts)

    def checkpoints(self) -> dict[str, dict[str, Any]]:
        return self._by_account(self.tables.checkpoints)

    def _by_account(self, table: str) -> dict[str, dict[str, Any]]:
        return {item["account_id"]: item for item in self.items_of(table)}

    def items_of(self, table: str) -> list[dict[str, Any]]:
        return list(map(from_dynamodb, scan(self.dynamodb, table)))

    def change_checkpoint(self, account_id: str, /, **changes: Any) -> None:
        self.put(self.tables.checkpoints, self.checkpoints()[account_id] | changes)

    def late_checkpoints(self) -> set[str]:
        """The accounts whose checkpoints aren't their present state."""
        saved, names = self.checkpoints(), Account.__struct_fields__
        present = {name: [account.get(field) for field in names] for name, account in self.accounts().items()}
        return {name for name, state in present.items() if [saved.get(name, {}).get(each) for each in names] != state}

    def books(self) -> dict[str, list[dict[str, Any]]]:
        """The items of the accounts, the journal and the reversals."""
        return self._items(self.tables.accounts, self.tables.journal, self.tables.reversals)

    def everything(self) -> dict[str, list[dict[str, Any]]]:
        return self.books() | self._items(self.tables.checkpoints)

    def _items(self, *names: str) -> dict[str, list[dict[str, Any]]]:
        return {name: list(scan(self.dynamodb, name)) for name in names}

    def mend(self, books: dict[str, list[dict[str, Any]]]) -> None:
        """Puts the items back."""
        for name, items in books.items():
            refill(self.dynamodb, name, items)


def _account(account_id: str) -> Account:
    return Account(account_id, Decimal(0), Decimal(0), "EUR", AccountStatus.OPEN, 1)


def mismatches(report: dict[str, Any]) -> str:
    """What was found on which accounts, in alphabetical order. No account was skipped."""
    assert report["accounts_skipped"] == 0, report["first_skipped"]
    found = sorted({tuple(sentence.split(": ")[:2]) for sentence in report["first_mismatches"]})
    by_account = itertools.groupby(found, lambda one: one[0])
    return "; ".join(f"{name}: {', '.join(what for _, what in of_one)}" for name, of_one in by_account)


_posted: dict[tuple[Endpoint, str, bool], list[list[dict[str, Any]]]] = {}


def filled(bank: Bank, books: Sequence[dict[str, Any]], *, after_a_night: bool = False) -> Bank:
    """The bank with these messages posted, and their accounts reconciled on the quiet night.

    The items are made once an engine, and then copied.
    """
    key = (bank.dynamodb, json.dumps(books), after_a_night)
    if key not in _posted:
        bank.post(*books)
        assert not after_a_night or mismatches(bank.run(bank.quiet_night())) == ""
        _posted[key] = list(bank.everything().values())
    bank.mend(dict(zip(bank.everything(), _posted[key], strict=True)))
    return bank
