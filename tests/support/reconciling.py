"""A ledger whose accounts are reconciled."""

import itertools
import json
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from conditional_writes.core.items import Item, from_dynamodb, to_dynamodb
from ledger import reconciler
from ledger.checkpoints import RECORD, Checkpoint, key_of
from ledger.core.accounts import Account, AccountStatus
from ledger.core.totals import HashTree
from tests.support.bodies import Body
from tests.support.faults import Killed
from tests.support.late_index import LateIndex
from tests.support.ledger import Ledger
from tools.local_aws.functions import Context, run_job
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import refill, scan

if TYPE_CHECKING:
    from ledger.published_roots import PublishedRoots

FIRST_NIGHT = datetime(2026, 3, 1, 2, tzinfo=UTC)


def event(night: float = 0, **fields: Any) -> dict[str, Any]:
    scheduled_time = (FIRST_NIGHT + timedelta(days=night)).isoformat()
    return {"job": "reconcile_accounts", "scheduled_time": scheduled_time, "force": True} | fields


class Reconciled(Ledger):
    """Pauses and deadlines of the reconciliation go by `clock`, too. `calls` are its own.

    `index` is the journal's index as it sees it. Before each query of a journal `before_query` is called with the
    account id: it may raise an error of AWS's, or kill the process. A query takes `query_seconds` of the clock. The
    process is killed before call number `kill_at`. Roots are `published` from the next process on, which knows of
    `double_entry`, too.
    """

    def __init__(self, aws: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(aws, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
        self.index = LateIndex()
        self.published: PublishedRoots | None = None
        self.double_entry = False
        self.before_query: Callable[[str], None] = lambda account_id: None
        self.before_call = self._before_call
        self.query_seconds, self.kill_at = 0.0, 0
        self._process: ModuleType | None = None
        self._is_killed, self._posting = False, threading.Lock()
        for module in ("reconciler", "nightly", "table_reading"):
            monkeypatch.setattr(f"ledger.{module}.time", self.clock)
        monkeypatch.setattr(
            "conditional_writes.core.steps.time", SimpleNamespace(monotonic=self.clock, sleep=self.clock.sleep)
        )

    def post(self, *messages: Body | str, **options: Any) -> None:
        """One thread of the reconciler's at a time."""
        with self._posting:
            super().post(*messages, **options)

    def new_process(self) -> ModuleType:
        function = self.job("reconcile_accounts")
        function.published, function.double_entry = self.published, self.double_entry
        self.watch(function.client)
        self.index.watch(function.client)
        return function

    def _before_call(self, operation: str, body: dict[str, Any]) -> None:
        if self.kill_at and len(self.calls) >= self.kill_at:
            self.kill_at, self._is_killed = 0, True
        if self._is_killed:
            raise Killed
        if operation == "Query":
            self.clock.sleep(self.query_seconds)
        if operation == "Query" and ":account_id" in body["ExpressionAttributeValues"]:
            try:
                self.before_query(body["ExpressionAttributeValues"][":account_id"]["S"])
            except Killed:
                self._is_killed = True
                raise

    def run_until_done(self, night: float = 0, **fields: Any) -> list[str]:
        """Invokes the function for a night until it is done, each time after the last lease is over.

        One process has all nights until it is killed.
        """
        outcomes: list[str] = []
        while not outcomes or outcomes[-1] not in ("Done", "DoneBefore"):
            assert len(outcomes) < 100
            self.clock.sleep(3600)
            self._process, self._is_killed = self._process or self.new_process(), False
            try:
                outcomes.append(run_job(self._process, event(night, **fields), Context(150)))
            except Killed:
                outcomes.append("Killed")
                self._process = None
        return outcomes

    def run(self, night: float = 0, **fields: Any) -> Item:
        """Runs a night's reconciliation to its end, and returns its report."""
        self.run_until_done(night, **fields)
        return self.report(night)

    def report(self, night: float = 0) -> Item:
        return self.item(self.locks_table, {"lock_key": f"reconcile_accounts {event(night)['scheduled_time']}"})

    def quiet_night(self) -> int:
        """A night that is followed by as many nights as possible on which no account is due for a whole replay."""
        names = self.by_account(self.tables.accounts)

        def quiet_after(night: int) -> int:
            day = (FIRST_NIGHT + timedelta(days=night)).date()
            saved = [Checkpoint(_account(name), day, HashTree()) for name in names]
            later = itertools.count(1)
            return next(days for days in later if any(each.is_whole_due(day + timedelta(days=days)) for each in saved))

        return max(range(30), key=quiet_after)

    def by_account(self, table: str) -> dict[str, Item]:
        return {item["account_id"]: item for item in self.items(table)}

    @property
    def checkpoints(self) -> dict[str, Item]:
        return self.by_account(self.tables.checkpoints)

    def change_checkpoint(self, account_id: str, /, **changes: Any) -> None:
        self.change(self.tables.checkpoints, key_of(account_id), **changes)

    def delete_checkpoint(self, account_id: str) -> None:
        self.client.delete_item(TableName=self.tables.checkpoints, Key=to_dynamodb(key_of(account_id)))

    def delete(self, table: str, account_id: str, **key: str) -> None:
        self.client.delete_item(TableName=table, Key=to_dynamodb({"account_id": account_id} | key))

    def late_checkpoints(self) -> set[str]:
        """The accounts whose checkpoints aren't their present state."""
        saved, names = self.checkpoints, Account.__struct_fields__
        present = {
            name: [account.get(field) for field in names]
            for name, account in self.by_account(self.tables.accounts).items()
        }
        return {name for name, state in present.items() if [saved.get(name, {}).get(each) for each in names] != state}

    def reversed(self, transaction_id: str, account_id: str) -> Item:
        """Empty if nothing was."""
        key = to_dynamodb({"account_id": account_id, "transaction_id": transaction_id})
        return from_dynamodb(self.client.get_item(TableName=self.tables.reversals, Key=key).get("Item", {}))

    def change_reversed(self, transaction_id: str, account_id: str, /, **changes: Any) -> None:
        """Changes an item of the Reversals table, or adds one."""
        key = {"account_id": account_id, "transaction_id": transaction_id}
        added = {"amount": Decimal(1), "version": 1, "reversed_by": "r-9", "account_version": 3}
        self.put(self.tables.reversals, (self.reversed(transaction_id, account_id) or added) | key | changes)

    def delete_reversed(self, transaction_id: str, account_id: str) -> None:
        self.delete(self.tables.reversals, account_id, transaction_id=transaction_id)

    def stored(self, *, checkpoints: bool = False) -> dict[str, list[dict[str, Any]]]:
        """The items of the accounts, the journal and the reversals, in DynamoDB's JSON."""
        names = [self.tables.accounts, self.tables.journal, self.tables.reversals]
        names += [self.tables.checkpoints] if checkpoints else []
        return {name: list(scan(self.dynamodb, name)) for name in names}

    def restore(self, stored: dict[str, list[dict[str, Any]]]) -> None:
        """The last root is none then."""
        for name, items in stored.items():
            refill(self.dynamodb, name, items)
        self.client.delete_item(TableName=self.locks_table, Key=to_dynamodb({"lock_key": RECORD}))


def _account(account_id: str) -> Account:
    return Account(account_id, Decimal(0), Decimal(0), "EUR", AccountStatus.OPEN, 1)


def mismatches(report: Item) -> str:
    """What was found on which accounts, in alphabetical order. No account was skipped."""
    assert report["accounts_skipped"] == 0, report["first_skipped"]
    found = sorted({tuple(sentence.split(": ")[:2]) for sentence in report["first_mismatches"]})
    by_account = itertools.groupby(found, lambda one: one[0])
    return "; ".join(f"{name}: {', '.join(what for _, what in of_one)}" for name, of_one in by_account)


def in_pages(ledger: Reconciled, monkeypatch: pytest.MonkeyPatch) -> None:
    """All journals of more than two entries are long, and a page has three entries."""
    monkeypatch.setattr(reconciler, "MOST_ENTRIES", 2)
    ledger.index.limits = {"index": 3, "table": 3}


_stored: dict[tuple[Endpoint, str, bool], list[list[dict[str, Any]]]] = {}


def filled(ledger: Reconciled, books: Sequence[Body], *, after_a_night: bool = False) -> Reconciled:
    """The ledger with these messages posted, and their accounts reconciled on the quiet night.

    The items are made once an engine, and then copied.
    """
    key = (ledger.dynamodb, json.dumps(books), after_a_night)
    if key not in _stored:
        ledger.post(*books)
        assert not after_a_night or mismatches(ledger.run(ledger.quiet_night())) == ""
        _stored[key] = list(ledger.stored(checkpoints=True).values())
    ledger.restore(dict(zip(ledger.stored(checkpoints=True), _stored[key], strict=True)))
    ledger.calls.clear()
    return ledger
