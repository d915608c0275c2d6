"""A bank whose accounts are reconciled, and the damage that tests plant in its tables."""

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger import journal_versions, long_journals, reconciler
from ledger.checkpoints import Checkpoint
from ledger.core.accounts import Account, AccountStatus
from tests.support.faults import Killed
from tools.local_aws.functions import Context, Queue, process_transactions, reconcile_accounts, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, create_locks_table, create_tables, refill, scan

_numbers = itertools.count(1)
FIRST_NIGHT = datetime(2026, 3, 1, 2, tzinfo=UTC)


def event(night: float, **fields: Any) -> dict[str, Any]:
    scheduled_time = (FIRST_NIGHT + timedelta(days=night)).isoformat()
    return {"job": "reconcile_accounts", "scheduled_time": scheduled_time, "force": True} | fields


def opening(account_id: str, limit: int = -200) -> dict[str, Any]:
    fields = {"account_id": account_id, "currency": "EUR", "overdraft_limit": limit}
    return {"type": "open_account", "transaction_id": f"open-{account_id}"} | fields


def payment(transaction_id: str, account_id: str, amount: object) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "account_id": account_id, "amount": amount}


def transfer(transaction_id: str, payer: str, payee: str, amount: object) -> dict[str, Any]:
    accounts = {"from_account_id": payer, "to_account_id": payee, "amount": amount}
    return {"type": "transfer", "transaction_id": transaction_id} | accounts


BOOKS = [
    *(opening(name) for name in ("alice", "bob", "carol")),
    opening("dave") | {"currency": "XAU"},  # Gold has no minor units.
    payment("t-1", "alice", 100),
    payment("t-2", "alice", "-250.50"),
    payment("t-3", "alice", -100),  # Rejected.
    {"type": "set_overdraft_limit", "transaction_id": "t-4", "account_id": "alice", "overdraft_limit": -300},
    payment("t-5", "alice", -100),
    payment("t-6", "bob", 500),
    transfer("t-7", "bob", "carol", 120),
    transfer("t-8", "carol", "bob", 1000),  # Rejected: carol's limit.
    transfer("t-9", "carol", "bob", 120),
    {"type": "close_account", "transaction_id": "t-10", "account_id": "carol"},
    transfer("t-11", "bob", "carol", 1),  # Rejected: closed.
    payment("t-12", "bob", 1),
    payment("t-13", "dave", "1E+37"),
    payment("t-14", "dave", "0.5"),
    payment("t-15", "dave", "1E-30"),  # Rejected: the balance would need 68 digits.
]


def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests without a commit in progress: nothing needs a pause before it is read again."""
    for module in (journal_versions, reconciler):
        monkeypatch.setattr(module, "PAUSES_SECONDS", (0,) * len(module.PAUSES_SECONDS))
    monkeypatch.setattr(long_journals, "PAUSE_SECONDS", 0)


class Bank:
    """A ledger on `dynamodb`, and its reconciliation. Tests change what its requests are answered.

    Before each query of a journal `before_query` is called with the account id, and before each of its index
    `before_index`: they may raise an error of AWS's, or kill the process. `change_page` changes the items of the
    index's answers. A query has at most `limit` items, and takes `query_seconds` on the clock of the deadlines. The
    process is killed before call number `kill_at`. `requests` counts the requests by operation and table.
    """

    def __init__(self, ministack: Endpoint, dynamodb: Endpoint) -> None:
        number = next(_numbers)
        self.dynamodb, self.client = dynamodb, dynamodb.client("dynamodb")
        self.tables: Tables = create_tables(dynamodb, f"reconcile-{number}")
        self.locks_table = create_locks_table(dynamodb, f"reconcile-{number}")
        self.teller = process_transactions(ministack, self.tables, dynamodb)
        self.hours_on = 0
        self.before_query: Callable[[str], None] = lambda account_id: None
        self.before_index: Callable[[], None] = lambda: None
        self.change_page: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = lambda items: items
        self.limit: int | None = None
        self.query_seconds = self.waited_seconds = 0.0
        self.kill_at, self.calls, self._counting = 0, 0, threading.Lock()
        self.queries: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()

    def post(self, messages: list[dict[str, Any]]) -> None:
        Queue([record(message) for message in messages]).deliver_until_quiet(self.teller)

    def job(self) -> ModuleType:
        """The function in a new process, whose clock is `hours_on` hours ahead."""
        function = reconcile_accounts(self.dynamodb, self.tables, self.locks_table)
        function.job.locks.now = lambda: time.time() + 3600 * self.hours_on
        killed = threading.Event()

        def before_call(model: Any, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
            body = json.loads(params["body"])
            try:
                self._check_alive(killed, self._count(model.name, body))
                if model.name == "Query":
                    self.waited_seconds += self.query_seconds
                    context["is_of_index"] = "IndexName" in body
                    if self.limit:
                        params["body"] = json.dumps(body | {"Limit": self.limit}).encode()
                    self.before_query(body["ExpressionAttributeValues"][":account_id"]["S"])
                    if "IndexName" in body:
                        self.before_index()
            except Killed:
                killed.set()
                raise

        def after_call(parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
            if context["is_of_index"] and "Items" in parsed:
                parsed["Items"] = list(map(to_dynamodb, self.change_page(list(map(from_dynamodb, parsed["Items"])))))

        function.client.meta.events.register("before-call.dynamodb", before_call)
        function.client.meta.events.register("after-call.dynamodb.Query", after_call)
        return function

    def _check_alive(self, killed: threading.Event, call: int) -> None:
        if killed.is_set() or call == self.kill_at:
            raise Killed

    def _count(self, operation: str, body: dict[str, Any]) -> int:
        """Returns the call's number. The reconciler's threads call in parallel."""
        names = [body["TableName"]] if "TableName" in body else list(body.get("RequestItems", ()))
        which = "index" if "IndexName" in body else " ".join(sorted(name.rpartition("-")[2] for name in names))
        with self._counting:
            self.calls += 1
            self.requests[f"{operation} {which}".strip()] += 1
            if operation == "Query":
                self.queries[body["ExpressionAttributeValues"][":account_id"]["S"]] += 1
            return self.calls

    def run_until_done(self, night: float = 0, **fields: Any) -> list[str]:
        """Invokes the function for a night until it is done, each time after the last lease is over."""
        outcomes: list[str] = []
        while not outcomes or outcomes[-1] not in ("Done", "DoneBefore"):
            assert len(outcomes) < 100
            self.hours_on += 1
            try:
                outcomes.append(self.job().lambda_handler(event(night, **fields), Context(150))["outcome"])
            except Killed:
                outcomes.append("Killed")
        return outcomes

    def run(self, night: int = 0, **fields: Any) -> dict[str, Any]:
        """Runs a night's reconciliation, with these fields in the event, and returns its report."""
        assert self.job().lambda_handler(event(night, **fields), Context())["outcome"] == "Done"
        return self.report(night)

    def report(self, night: float = 0) -> dict[str, Any]:
        at = to_dynamodb({"lock_key": f"reconcile_accounts {event(night)['scheduled_time']}"})
        return from_dynamodb(self.client.get_item(TableName=self.locks_table, Key=at, ConsistentRead=True)["Item"])

    def entry(self, account_id: str, transaction_id: str) -> dict[str, Any]:
        at = to_dynamodb({"account_id": account_id, "transaction_id": transaction_id})
        return from_dynamodb(self.client.get_item(TableName=self.tables.journal, Key=at)["Item"])

    def change_entry(self, account_id: str, transaction_id: str, **changes: Any) -> None:
        self.put_entry(self.entry(account_id, transaction_id) | changes)

    def put_entry(self, item: dict[str, Any]) -> None:
        self.client.put_item(TableName=self.tables.journal, Item=to_dynamodb(item))

    def delete_entry(self, account_id: str, transaction_id: str) -> None:
        at = to_dynamodb({"account_id": account_id, "transaction_id": transaction_id})
        self.client.delete_item(TableName=self.tables.journal, Key=at)

    def replace_account(self, account_id: str, **attributes: Any) -> None:
        item = to_dynamodb(attributes | {"account_id": account_id})
        self.client.put_item(TableName=self.tables.accounts, Item=item)

    def checkpoints(self) -> dict[str, dict[str, Any]]:
        items = map(from_dynamodb, scan(self.dynamodb, self.tables.checkpoints))
        return {item["account_id"]: item for item in items}

    def accounts(self) -> dict[str, dict[str, Any]]:
        items = map(from_dynamodb, scan(self.dynamodb, self.tables.accounts))
        return {item["account_id"]: item for item in items}

    def late_checkpoints(self) -> set[str]:
        """The accounts whose checkpoints aren't their present state."""
        saved, names = self.checkpoints(), Account.__struct_fields__
        return {
            account_id
            for account_id, account in self.accounts().items()
            if {name: saved.get(account_id, {}).get(name) for name in names}
            != {name: account.get(name) for name in names}
        }

    def change_checkpoint(self, account_id: str, /, **changes: Any) -> None:
        item = self.checkpoints()[account_id] | changes
        self.client.put_item(TableName=self.tables.checkpoints, Item=to_dynamodb(item))

    def delete_checkpoint(self, account_id: str) -> None:
        self.client.delete_item(TableName=self.tables.checkpoints, Key=to_dynamodb({"account_id": account_id}))

    def books(self) -> dict[str, list[dict[str, Any]]]:
        """The items of the accounts and the journal."""
        return {name: list(scan(self.dynamodb, name)) for name in (self.tables.accounts, self.tables.journal)}

    def mend(self, books: dict[str, list[dict[str, Any]]]) -> None:
        """Puts the items back."""
        for name, items in books.items():
            refill(self.dynamodb, name, items)

    def quiet_night(self) -> int:
        """A night that is followed by as many nights as possible on which no account is due for a whole replay."""
        names = self.accounts()

        def quiet_after(night: int) -> int:
            day = (FIRST_NIGHT + timedelta(days=night)).date()
            saved = [Checkpoint(_account(name), day) for name in names]
            later = itertools.count(1)
            return next(days for days in later if any(each.is_whole_due(day + timedelta(days=days)) for each in saved))

        return max(range(30), key=quiet_after)

    def change_account(self, account_id: str, **changes: Any) -> None:
        at = to_dynamodb({"account_id": account_id})
        item = from_dynamodb(self.client.get_item(TableName=self.tables.accounts, Key=at)["Item"]) | changes
        self.client.put_item(TableName=self.tables.accounts, Item=to_dynamodb(item))


def _account(account_id: str) -> Account:
    return Account(account_id, Decimal(0), Decimal(0), "EUR", AccountStatus.OPEN, 1)


PLANTED: dict[str, tuple[Callable[[Bank], None], set[str]]] = {
    "a changed balance": (
        lambda bank: bank.change_account("alice", balance=Decimal("-250.49")),
        {"alice: changed account: balance is -250.49, the journal gives -250.5"},
    ),
    "a changed limit": (
        lambda bank: bank.change_account("alice", overdraft_limit=-10_000),
        {"alice: changed account: overdraft_limit is -10000, the journal gives -300"},
    ),
    "a missing entry": (
        lambda bank: bank.delete_entry("alice", "t-2"),
        {"alice: missing entry: the account is at version 6"},
    ),
    "the last entry missing": (
        lambda bank: bank.delete_entry("alice", "t-5"),
        {"alice: missing entry: the account is at version 6"},
    ),
    "an entry twice": (
        lambda bank: bank.put_entry(bank.entry("alice", "t-2") | {"transaction_id": "t-2-again"}),
        {"alice: entries twice: version 3, t-2: of one version are t-2 and t-2-again"},
    ),
    "a version gap": (
        lambda bank: bank.change_entry("alice", "t-5", account_version=7),
        {"alice: missing entry: the account is at version 6", "alice: entry beyond: version 7, t-5: the account is at"},
    ),
    "an account's version that jumped": (
        lambda bank: bank.change_account("alice", version=8),
        {"alice: missing entry: the account is at version 8"},
    ),
    "a wrong decision": (
        lambda bank: bank.change_entry("alice", "t-3", status="POSTED", amount=-100, balance_after=Decimal("-250.5")),
        {"alice: wrong decision: version 4, t-3: it is POSTED -100, OVERDRAFT_LIMIT, balance -250.5"},
    ),
    "another amount": (
        lambda bank: bank.change_entry("alice", "t-1", amount=101, balance_after=101),
        {"alice: wrong decision: version 2, t-1: it is POSTED 101, balance 101, expected POSTED 100, balance 100"},
    ),
    "another balance": (
        lambda bank: bank.change_entry("dave", "t-14", balance_after=7),
        {"dave: wrong decision: version 3, t-14", "dave: wrong decision: version 4, t-15"},
    ),
    "another request": (
        lambda bank: bank.change_entry("alice", "t-1", request=bank.entry("alice", "t-2")["request"]),
        {"alice: wrong request: version 2, t-1: its request is that of t-2 on alice"},
    ),
    "another description": (
        lambda bank: bank.change_entry(
            "alice", "t-1", request=bank.entry("alice", "t-1")["request"] | {"description": "x"}
        ),
        {"alice: changed request: version 2, t-1: its payload_hash is not that of its request"},
    ),
    "another payload hash": (
        lambda bank: bank.change_entry("carol", "t-8", payload_hash="0" * 64),
        {"carol: changed request: version 3, t-8: its payload_hash is not that of its request"},
    ),
    "another currency": (
        lambda bank: bank.change_entry("alice", "t-1", currency="USD"),
        {"alice: wrong currency: version 2, t-1: it is USD, expected EUR"},
    ),
    "a time in the future": (
        lambda bank: bank.change_entry("dave", "t-15", posted_at="9999-12-31T23:59:59-23:59"),
        {"dave: wrong time: version 4, t-15: posted at 9999-12-31T23:59:59-23:59, and now it is 2"},
    ),
    "a transfer of two times": (
        lambda bank: bank.change_entry("bob", "t-7", posted_at=bank.entry("bob", "t-6")["posted_at"] + ":00"),
        {"bob: unlike sides: version 3, t-7: here 2", "carol: unlike sides: version 2, t-7: here 2"},
    ),
    "a transfer of one side": (
        lambda bank: bank.delete_entry("carol", "t-9"),
        {"carol: missing entry", "bob: one-sided transfer: version 5, t-9: on carol no entry of it can be read"},
    ),
    "a transfer that was rejected on one side": (
        lambda bank: bank.change_entry("bob", "t-7", status="REJECTED", reason="OVERDRAFT_LIMIT", amount=0),
        {"bob: unlike sides: version 3, t-7", "carol: unlike sides: version 2, t-7", "bob: wrong decision: version 3"},
    ),
    "a transfer that was rejected without a reason": (
        lambda bank: reject_both(bank, "t-7", "OVERDRAFT_LIMIT"),
        {
            "bob: wrong decision: version 3, t-7: it is REJECTED 0, OVERDRAFT_LIMIT",
            "carol: wrong decision: version 3, t-8",
        },
    ),
    "a transfer between currencies that are one": (
        lambda bank: reject_both(bank, "t-7", "CURRENCY_MISMATCH"),
        {"bob: wrong decision: version 3, t-7", "carol: wrong decision: version 2, t-7"},
    ),
    "an entry that can't be read": (
        lambda bank: bank.change_entry("alice", "t-1", request={"type": "magic"}),
        {"alice: unreadable entry: version 2, t-1: its request: type: expected that of a transaction, got magic"},
    ),
    "an account of a version that no journal has": (
        lambda bank: bank.change_account("alice", version=10**30),
        {f"alice: missing entry: the account is at version {10**30}"},
    ),
}


def reject_both(bank: Bank, transaction_id: str, reason: str) -> None:
    for name in ("bob", "carol"):
        before = bank.entry(name, transaction_id)
        balance = before["balance_after"] - before["amount"]
        rejected = {"status": "REJECTED", "reason": reason, "amount": 0, "balance_after": balance}
        bank.change_entry(name, transaction_id, **rejected)
