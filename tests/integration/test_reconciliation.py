"""The nightly reconciliation on both engines: it finds each planted error and no other, and reports once."""

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.locks import LockTaken
from ledger import reconciler
from tests.checkers.books import read_books, violations
from tools.local_aws.functions import Context, Queue, process_transactions, reconcile_accounts, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, create_locks_table, create_tables
from workers import scheduled_jobs as jobs
from workers.invocation import RESERVED_SECONDS

_numbers = itertools.count(1)
FIRST_NIGHT = datetime(2026, 3, 1, 2, tzinfo=UTC)


def event(night: int) -> dict[str, Any]:
    return {"job": "reconcile_accounts", "scheduled_time": (FIRST_NIGHT + timedelta(days=night)).isoformat()}


def opening(account_id: str, limit: int = -200) -> dict[str, Any]:
    fields = {"account_id": account_id, "currency": "EUR", "overdraft_limit": limit}
    return {"type": "open_account", "transaction_id": f"open-{account_id}"} | fields


def payment(transaction_id: str, account_id: str, amount: object) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "account_id": account_id, "amount": amount}


def transfer(transaction_id: str, payer: str, payee: str, amount: object) -> dict[str, Any]:
    accounts = {"from_account_id": payer, "to_account_id": payee, "amount": amount}
    return {"type": "transfer", "transaction_id": transaction_id} | accounts


BOOKS = [
    *(opening(name) for name in ("alice", "bob", "carol", "dave")),
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


class Bank:
    def __init__(self, ministack: Endpoint, dynamodb: Endpoint) -> None:
        number = next(_numbers)
        self.dynamodb, self.client = dynamodb, dynamodb.client("dynamodb")
        self.tables: Tables = create_tables(dynamodb, f"reconcile-{number}")
        self.locks_table = create_locks_table(dynamodb, f"reconcile-{number}")
        self.teller = process_transactions(ministack, self.tables, dynamodb)
        self.hours_on = 0

    def post(self, messages: list[dict[str, Any]]) -> None:
        Queue([record(message) for message in messages]).deliver_until_quiet(self.teller)

    def job(self) -> ModuleType:
        """The function in a new process, whose clock is `hours_on` hours ahead."""
        function = reconcile_accounts(self.dynamodb, self.tables, self.locks_table)
        function.job.locks.now = lambda: time.time() + 3600 * self.hours_on
        return function

    def run(self, night: int = 0) -> dict[str, Any]:
        """Runs a night's reconciliation and returns its report."""
        assert self.job().lambda_handler(event(night), Context())["outcome"] == "Done"
        return self.report(night)

    def report(self, night: int = 0) -> dict[str, Any]:
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

    def change_account(self, account_id: str, **changes: Any) -> None:
        at = to_dynamodb({"account_id": account_id})
        item = from_dynamodb(self.client.get_item(TableName=self.tables.accounts, Key=at)["Item"]) | changes
        self.client.put_item(TableName=self.tables.accounts, Item=to_dynamodb(item))


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint) -> Bank:
    bank = Bank(ministack, dynamodb)
    bank.post(BOOKS)
    return bank


def test_it_finds_nothing_in_sound_books(bank: Bank) -> None:
    report = bank.run()
    assert not violations(read_books(bank.dynamodb, bank.tables))
    assert (report["accounts_checked"], report["mismatches"], report["first_mismatches"]) == (4, 0, [])


PLANTED: dict[str, tuple[Callable[[Bank], None], set[str]]] = {
    "a changed balance": (
        lambda bank: bank.change_account("alice", balance=Decimal("-250.49")),
        {"alice: changed account: the account is"},
    ),
    "a changed limit": (
        lambda bank: bank.change_account("alice", overdraft_limit=-10_000),
        {"alice: changed account: the account is"},
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
        {"alice: entries twice: version 3, t-2: of one version are t-2, t-2-again"},
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
    "a transfer of one side": (
        lambda bank: bank.delete_entry("carol", "t-9"),
        {"carol: missing entry", "bob: one-sided transfer: version 5, t-9: on carol there is no entry of it"},
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
        {"alice: unreadable entry: version 2, t-1: its request"},
    ),
    "an entry without a status": (
        lambda bank: bank.change_entry("alice", "t-1", outcome=0, status=None, account_version="x"),
        {"alice: unreadable: ValueError"},
    ),
    "an entry whose request is no map": (
        lambda bank: bank.change_entry("alice", "t-1", request="transaction"),
        {"alice: unreadable: AttributeError"},
    ),
    "an entry whose amount is no number": (
        lambda bank: bank.change_entry("bob", "t-9", amount="120"),
        {"bob: unreadable: ", "carol: "},
    ),
    "an account that can't be read": (
        lambda bank: bank.change_account("alice", status="SLEEPING"),
        {"alice: unreadable: ValueError"},
    ),
}


def reject_both(bank: Bank, transaction_id: str, reason: str) -> None:
    for name in ("bob", "carol"):
        before = bank.entry(name, transaction_id)
        balance = before["balance_after"] - before["amount"]
        rejected = {"status": "REJECTED", "reason": reason, "amount": 0, "balance_after": balance}
        bank.change_entry(name, transaction_id, **rejected)


@pytest.mark.parametrize("planted", PLANTED)
def test_it_finds_what_is_planted(bank: Bank, planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "PAUSES_SECONDS", (0, 0, 0))  # No commit is in progress, so no pause is needed.
    plant, expected = PLANTED[planted]
    plant(bank)
    report = bank.run()
    found = report["first_mismatches"]
    assert report["mismatches"] == len(found)
    for beginning in expected:
        assert any(sentence.startswith(beginning) for sentence in found), f"{beginning!r} isn't in {found}"
    accounts = {beginning.split(":")[0] for beginning in expected}
    assert {sentence.split(":")[0] for sentence in found} <= accounts


def test_while_transactions_go_on_it_finds_what_is_planted_and_nothing_else(bank: Bank, ministack: Endpoint) -> None:
    names = [f"acc-{number}" for number in range(6)]
    bank.post([opening(name, limit=-10_000) for name in [*names, "planted"]])
    stop = threading.Event()

    def work(worker: int, teller: ModuleType) -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            at = [f"{worker}-{number}-{index}" for index in range(3)]
            payer, payee = names[number % 6], names[(number + worker + 1) % 6]
            messages = [payment(at[0], payer, -1), payment(at[2], "planted", 1)]
            if payer != payee:
                messages.append(transfer(at[1], payer, payee, 1))
            Queue([record(message) for message in messages]).deliver_until_quiet(teller)

    tellers = [
        process_transactions(ministack, bank.tables, bank.dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL") for _ in range(3)
    ]
    with ThreadPoolExecutor(3) as pool:
        workers = [pool.submit(work, number, teller) for number, teller in enumerate(tellers)]
        try:
            sound = [bank.run(day) for day in range(8)]
            bank.change_entry("planted", "open-planted", amount=1)
            changed = bank.run(20)
        finally:
            stop.set()
        for worker in workers:
            worker.result()
    assert [report["first_mismatches"] for report in sound] == [[]] * 8
    [found] = changed["first_mismatches"]
    assert found.startswith("planted: wrong decision: version 1, open-planted: it is POSTED 1, balance 0")
    assert max(account.version for account in read_books(bank.dynamodb, bank.tables).accounts.values()) > 20


def test_what_is_mended_when_it_looks_again_was_a_commit_in_progress(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = bank.entry("alice", "t-5")
    bank.delete_entry("alice", "t-5")
    bank.delete_entry("carol", "t-9")
    monkeypatch.setattr(reconciler, "time", SimpleNamespace(sleep=lambda seconds: bank.put_entry(last)))
    found = bank.run()["first_mismatches"]
    assert {sentence.split(":")[0] for sentence in found} == {"bob", "carol"}


def test_it_reads_what_is_there_now(bank: Bank) -> None:
    """Asserts consistent reads. The engines have no others, but DynamoDB's others would find gaps in sound books."""
    function, consistent = bank.job(), dict[str, bool]()

    def note(params: dict[str, Any], model: Any, **_: Any) -> None:
        if model.name in ("Scan", "Query", "GetItem"):
            consistent[model.name] = params.get("ConsistentRead", False)
        if model.name == "BatchGetItem":
            consistent[model.name] = all(table.get("ConsistentRead") for table in params["RequestItems"].values())

    function.client.meta.events.register("before-parameter-build.dynamodb", note)
    bank.delete_entry("alice", "t-5")  # The reconciliation reads again.
    assert function.lambda_handler(event(0), Context())["outcome"] == "Done"
    assert consistent == dict.fromkeys(["Scan", "Query", "GetItem", "BatchGetItem"], True)


# --- once ------------------------------------------------------------------------------------------------


def test_a_night_delivered_twenty_times_is_reported_once(bank: Bank) -> None:
    def deliver(function: ModuleType) -> str:
        try:
            outcome: str = function.lambda_handler(event(0), Context())["outcome"]
        except LockTaken as taken:
            return str(taken)
        return outcome

    with ThreadPoolExecutor(10) as pool:
        at_once = list(pool.map(deliver, [bank.job() for _ in range(10)]))
    first = bank.report()
    assert at_once.count("Done") == 1
    refused = [outcome for outcome in at_once if outcome not in ("Done", "DoneBefore")]
    assert all("why for 2026-03-01T02:00:00+00:00, request" in reason for reason in refused)
    assert [deliver(bank.job()) for _ in range(10)] == ["DoneBefore"] * 10
    assert bank.report() == first


def test_with_more_accounts_than_time_it_is_called_again_and_goes_on(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    called_again: list[Any] = []
    monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: called_again.append(event))
    outcomes = []
    for _ in range(4):
        function = bank.job()
        monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 1)
        outcomes.append(function.lambda_handler(event(0), Context(timeout_seconds=RESERVED_SECONDS))["outcome"])
    assert outcomes == ["Continued", "Continued", "Continued", "Continued"]
    assert called_again == [event(0)] * 4
    assert bank.job().lambda_handler(event(0), Context())["outcome"] == "Done"
    assert bank.report(0)["accounts_checked"] == 4
