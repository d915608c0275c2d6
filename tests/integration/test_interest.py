"""Overdraft interest on both engines: each account is charged once a day, even by repeated and concurrent runs."""

import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from decimal import ROUND_HALF_EVEN, Context, Decimal
from types import ModuleType
from typing import Any

import pytest

from conditional_writes.items import to_dynamodb
from ledger.account_pages import account_page
from tests.checkers.books import Books, violations
from tests.support.job_bank import JobBank
from tools.local_aws import functions
from tools.local_aws.functions import Queue, charge_overdraft_interest, process_transactions, record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_tables, scan
from workers import scheduled_jobs as jobs
from workers.invocation import RESERVED_SECONDS
from workers.segments import Segment

EVENT = {"job": "charge_overdraft_interest", "scheduled_time": "2026-03-01T00:00:00Z", "force": True}
NEXT_DAY = EVENT | {"scheduled_time": "2026-03-02T00:00:00Z"}
RATE = Decimal("0.365")  # A thousandth per day.
BALANCES = {"anna": "-100", "ben": "-0.01", "cleo": "0", "dora": "50", "emil": "-499.51", "finn": "-1234.56"}
CHARGED = {"anna": "-0.10", "ben": "0", "emil": "-0.50", "finn": "-1.23"}
DELIVERIES = 20


class Bank(JobBank):
    """Accounts below zero, and functions that charge them interest."""

    def new_function(self, locks_table: str, segments: str) -> ModuleType:
        url = self.poster.worker.queue.url
        return charge_overdraft_interest(
            self.aws, self.tables, locks_table, url, self.dynamodb, ANNUAL_RATE=str(RATE), JOB_SEGMENTS=segments
        )

    def open(self, balances: dict[str, str], limit: object = -5000, currency: str = "EUR") -> None:
        messages: list[dict[str, Any]] = []
        for name, balance in balances.items():
            messages.append({"type": "open_account", "currency": currency, "overdraft_limit": limit})
            messages[-1] |= {"transaction_id": "open", "account_id": name}
            if Decimal(balance):
                messages.append({"transaction_id": "first", "account_id": name, "amount": balance})
        self.post(map(json.dumps, messages))

    def pay(self, transaction_id: str, account_id: str, amount: object) -> None:
        self.send(transaction_id=transaction_id, account_id=account_id, amount=amount)

    def books(self) -> Books:
        """The books, after the invariants are checked."""
        books = super().books()
        assert not violations(books)
        return books


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint) -> Bank:
    return Bank(ministack, dynamodb)


@pytest.fixture
def opened(bank: Bank) -> Bank:
    bank.open(BALANCES)
    return bank


def run(function: ModuleType, event: dict[str, Any] = EVENT, timeout_seconds: float = 60) -> str:
    answer = function.lambda_handler(event, functions.Context(timeout_seconds))
    return str(answer["outcome"])


def charges(books: Books, day: str = "2026-03-01") -> dict[str, Decimal]:
    """The amount that each account was charged for the day. Fails if an account was charged twice."""
    found = [entry for entry in books.entries if entry.transaction_id.startswith(f"overdraft-interest-{day}")]
    assert max(Counter(entry.account_id for entry in found).values(), default=1) == 1
    return {entry.account_id: entry.outcome.amount for entry in found}


def expected(amounts: dict[str, str] = CHARGED) -> dict[str, Decimal]:
    return {name: Decimal(amount) for name, amount in amounts.items()}


def accounts_of(bodies: Iterable[str]) -> Counter[str]:
    return Counter(json.loads(body)["account_id"] for body in bodies)


def test_each_account_below_zero_gets_a_message_and_no_other(opened: Bank) -> None:
    assert run(opened.function()) == "Done"
    bodies = opened.queued()
    assert accounts_of(bodies) == dict.fromkeys(CHARGED, 1)
    assert {json.loads(body)["annual_rate"] for body in bodies} == {"0.365"}
    opened.post(bodies)
    books = opened.books()
    assert charges(books) == expected()
    assert books.accounts["finn"].balance == Decimal("-1235.79")


def test_its_messages_are_a_group_of_their_own_behind_payments(opened: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    function = opened.function()
    monkeypatch.setattr(function, "send_all", lambda _sqs, _url, messages, _deadline: sent.extend(messages))
    assert run(function) == "Done"
    assert {message.group_id for message in sent} == {"charge_overdraft_interest"}


def test_the_next_day_is_charged_on_what_is_owed_then(opened: Bank) -> None:
    function = opened.function()
    for event in (EVENT, NEXT_DAY):
        opened.clock.seconds += 0.001
        assert run(function, event) == "Done"
        opened.post(opened.queued())
    assert charges(opened.books(), "2026-03-02") == expected(CHARGED | {"finn": "-1.24"})


def test_sent_again_up_to_each_scheduled_time_before_it_a_restored_account_is_charged_for_its_overdrawn_days(
    bank: Bank,
) -> None:
    """As docs/restoring.md says. The tables are those of the first of March, whose record says that it is done."""
    bank.open({"late": "100", "repaid": "-500"})
    function = bank.function()
    assert run(function, EVENT) == "Done"
    bank.post(bank.queued())
    sent_in_order: list[tuple[str, str, str]] = [("", "", ""), ("repaid", "600", "2"), ("late", "-600", "3")]
    for (name, amount, payment), day in zip(sent_in_order, (1, 2, 3), strict=True):
        if payment:
            bank.pay(payment, name, amount)
        bank.clock.seconds += 0.001
        assert run(function, EVENT | {"scheduled_time": f"2026-03-0{day}T07:00:00Z"}) == "Done"
        bank.post(bank.queued())
    charged = {day: charges(bank.books(), f"2026-03-0{day}") for day in (1, 2, 3)}
    assert charged == {1: {"repaid": Decimal("-0.50")}, 2: {}, 3: {"late": Decimal("-0.50")}}


def test_delivered_twenty_times_one_after_the_other_it_charges_once(opened: Bank) -> None:
    function, outcomes = opened.function(), []
    for _ in range(DELIVERIES):
        opened.clock.seconds += 0.001
        outcomes.append(run(function))
    assert outcomes == ["Done"] + ["DoneBefore"] * (DELIVERIES - 1)
    bodies = opened.queued()
    assert len(bodies) == len(CHARGED)
    opened.post(bodies)
    assert charges(opened.books()) == expected()


def test_delivered_twenty_times_at_once_it_charges_once(opened: Bank) -> None:
    workers = [opened.function() for _ in range(DELIVERIES)]
    for worker in workers:
        worker.job.locks.now = time.time

    with ThreadPoolExecutor(DELIVERIES) as pool:
        outcomes = Counter(pool.map(run, workers))
    assert outcomes["Done"] == 1
    assert outcomes["DoneBefore"] + outcomes["InProgress"] == DELIVERIES - 1
    bodies = opened.queued()
    assert len(bodies) == len(CHARGED)
    opened.post(bodies)
    assert charges(opened.books()) == expected()


def test_by_twenty_at_once_who_know_of_no_lock_it_is_charged_once(opened: Bank) -> None:
    tables = [opened.new_locks_table() for _ in range(DELIVERIES)]
    with ThreadPoolExecutor(DELIVERIES) as pool:
        assert set(pool.map(run, map(opened.function, tables))) == {"Done"}
    bodies = opened.queued()
    assert accounts_of(bodies) == dict.fromkeys(CHARGED, DELIVERIES)
    random.Random(1).shuffle(bodies)
    posters = [process_transactions(opened.aws, opened.tables, opened.dynamodb) for _ in range(4)]

    def post(number: int) -> list[Any]:
        Queue([record(body) for body in bodies[number::4]]).deliver_until_quiet(posters[number])
        return take_dead_letters(opened.aws, posters[number].worker.queue.dead_letter_url)

    with ThreadPoolExecutor(len(posters)) as pool:
        assert not any(pool.map(post, range(len(posters))))
    assert charges(opened.books()) == expected()


@pytest.mark.parametrize("moved", ["1000", "-250", "99.99"], ids=["above zero", "further down", "nearly to zero"])
def test_a_second_run_without_the_lock_changes_nothing_though_balances_moved(opened: Bank, moved: str) -> None:
    function = opened.function()
    run(function)
    opened.post(opened.queued())
    for name in BALANCES:
        opened.pay("moved", name, moved)
    before = opened.books()
    opened.forget_all_runs()
    opened.clock.seconds += 100
    assert run(function, EVENT | {"scheduled_time": "2026-03-01T05:00:00Z"}) == "Done"  # The same day.
    bodies = [body for body in opened.queued() if json.loads(body)["account_id"] in CHARGED]
    opened.post(bodies)
    assert opened.books() == before
    assert charges(before) == expected()
    assert bodies or moved == "1000"


def test_what_is_charged_is_decided_when_it_is_posted(opened: Bank) -> None:
    """The message is the same before and after the balance moves."""
    function = opened.function()
    run(function)
    sent_before = opened.queued()
    for name, amount in {"anna": "-100", "ben": "0.01", "emil": "1000"}.items():
        opened.pay("moved", name, amount)
    opened.forget_all_runs()
    opened.clock.seconds += 100
    run(function)
    opened.post(sent_before + opened.queued())
    assert charges(opened.books()) == expected(CHARGED | {"anna": "-0.20", "emil": "0"})


def test_one_who_went_below_zero_since_is_charged_by_the_later_run_and_once(opened: Bank) -> None:
    function = opened.function()
    for _ in range(3):
        run(function)
        opened.post(opened.queued())
        opened.pay("spent", "dora", -250)
        opened.forget_all_runs()
        opened.clock.seconds += 100
    assert charges(opened.books()) == expected(CHARGED | {"dora": "-0.20"})


def test_interest_that_would_take_an_account_below_its_limit_is_rejected_and_recorded(bank: Bank) -> None:
    bank.open({"anna": "-99.95", "ben": "-99.90"}, limit=-100)
    assert run(bank.function()) == "Done"
    bank.post(bank.queued())
    books = bank.books()
    assert books.counts() == {"POSTED": 5, "OVERDRAFT_LIMIT": 1}
    assert {name: account.balance for name, account in books.accounts.items()} == {
        "anna": Decimal("-99.95"),
        "ben": Decimal(-100),
    }


def test_more_accounts_than_an_invocation_has_time_for_are_charged_by_the_next(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"acc-{number}" for number in range(11)]
    bank.open(dict.fromkeys(names, "-100"))
    waiting: list[Any] = [EVENT]
    monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: waiting.append(event))
    outcomes, sent = [], []
    while waiting:
        function = bank.function()
        monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 3)
        bank.clock.seconds += 0.001
        outcomes.append(run(function, waiting.pop(), RESERVED_SECONDS))  # Time for one step.
        sent.append(bank.queued())
    assert outcomes == ["Continued"] * 3 + ["Done"]
    assert list(map(len, sent)) == [3, 3, 3, 2]
    bodies = list(itertools.chain(*sent))
    assert accounts_of(bodies) == dict.fromkeys(names, 1)
    bank.post(bodies)
    assert charges(bank.books()) == expected(dict.fromkeys(names, "-0.1"))


@pytest.mark.parametrize("segments", [1, 4, 16])
def test_in_segments_each_account_is_charged_once_and_the_report_has_the_sum(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, segments: int
) -> None:
    names = [f"acc-{number}" for number in range(41)]
    bank.open(dict.fromkeys(names, "-100"))
    waiting: list[Any] = [EVENT]
    monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: waiting.append(event))
    outcomes = Counter[str]()
    while waiting:
        function = bank.function(segments=segments)
        monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 3)
        bank.clock.seconds += 0.001
        outcomes[run(function, waiting.pop(), RESERVED_SECONDS)] += 1  # Time for one step.
    assert outcomes["Done"] == 1
    bodies = bank.queued()
    assert accounts_of(bodies) == dict.fromkeys(names, 1)
    records = {item["lock_key"]["S"]: item for item in scan(bank.dynamodb, bank.locks_table)}
    report = records["charge_overdraft_interest 2026-03-01T00:00:00+00:00"]
    assert (report["sent"], report["segments"]) == ({"N": "41"}, {"N": str(segments)})
    bank.post(bodies)
    assert charges(bank.books()) == expected(dict.fromkeys(names, "-0.1"))


@pytest.mark.parametrize("segments", [1, 4, 16, 100])
def test_each_account_is_in_one_segment(dynamodb: Endpoint, segments: int) -> None:
    tables = create_tables(dynamodb, f"interest-{segments}")
    client = dynamodb.client("dynamodb")
    names = [f"acc-{number}" for number in range(150)]
    for batch in itertools.batched(names, 25, strict=False):
        puts = [{"PutRequest": {"Item": to_dynamodb({"account_id": name})}} for name in batch]
        client.batch_write_item(RequestItems={tables.accounts: puts})
    found = []
    for number in range(1, segments + 1):
        after, more = None, True
        while more:
            page = account_page(client, tables.accounts, Segment(number, segments), after, limit=7)
            found += [item["account_id"] for item in page.items]
            after, more = page.after, page.after is not None
    assert sorted(found) == sorted(names)


def test_pages_without_anyone_to_charge_are_passed_over(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    bank.open({f"acc-{number}": "1" for number in range(7)} | {"debtor": "-100"})
    function = bank.function()
    monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 1)
    assert run(function) == "Done"
    assert accounts_of(bank.queued()) == {"debtor": 1}


def test_without_accounts_there_is_nothing_to_do(bank: Bank) -> None:
    assert run(bank.function()) == "Done"
    assert not bank.queued()


EXTREMES = [
    "-" + "9" * 38,
    "-1e38",
    "-123456789012345678901234567890123456.78",
    "-3.65e40",
    "-0.0136986301369863013698",
]


def test_balances_of_any_digits_are_charged_exactly(bank: Bank) -> None:
    wide = Context(prec=200, rounding=ROUND_HALF_EVEN)
    # XAU has no rule of minor units: its amounts may have any decimals.
    bank.open({f"acc {balance}": balance for balance in EXTREMES}, limit="-9.9e125", currency="XAU")
    run(bank.function())
    bank.post(bank.queued())
    books = bank.books()
    assert len(charges(books)) == len(EXTREMES)
    for entry in books.entries:
        if entry.transaction_id.startswith("overdraft"):
            balance = Decimal(entry.account_id.removeprefix("acc "))
            exactly = wide.divide(wide.multiply(balance, RATE), Decimal(365))
            amount = wide.quantize(exactly, Decimal("0.01"))
            if entry.outcome.reason:
                assert entry.outcome.reason == "BALANCE_OUT_OF_RANGE"
                assert len(wide.add(balance, amount).normalize(wide).as_tuple().digits) > 38
            else:
                assert entry.outcome.amount == amount
                assert entry.outcome.balance_after == wide.add(balance, amount)
    assert books.counts()["BALANCE_OUT_OF_RANGE"] == 1


def test_account_ids_of_any_characters_that_can_be_seen_are_charged(bank: Bank) -> None:
    names = ["a b", "'", "\U0001f3e6" * 128, '"', "ä" * 128]
    bank.open(dict.fromkeys(names, "-100"))
    run(bank.function())
    bank.post(bank.queued())
    assert charges(bank.books()) == expected(dict.fromkeys(names, "-0.1"))


LONGEST_ID = "\U0001f3e6" * 512
"""2,048 bytes: DynamoDB's limit. It is no account of Teller's, so its message is dead-lettered."""
ODD: dict[str, dict[str, Any]] = {
    "a text for a balance": {"balance": "-100"},
    "no balance": {"balance": None},
    "no status": {"status": None},
    "a number for a status": {"status": 1},
    "380 KB": {"balance": 1, "notes": "x" * 380_000},
    "380 KB, overdrawn": {"balance": -100, "notes": "x" * 380_000},
    LONGEST_ID: {"balance": -100},
}


def test_an_odd_account_does_not_stop_it(opened: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    client = opened.dynamodb.client("dynamodb")
    account = {"balance": -100, "overdraft_limit": -500, "currency": "EUR", "status": "OPEN", "version": 1}
    for name, changes in ODD.items():
        there = {attribute: value for attribute, value in (account | changes).items() if value is not None}
        client.put_item(TableName=opened.tables.accounts, Item=to_dynamodb(there | {"account_id": name}))
    function = opened.function()
    monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 3)
    assert run(function) == "Done"
    assert accounts_of(opened.queued()) == dict.fromkeys([*CHARGED, "380 KB, overdrawn", LONGEST_ID], 1)


def test_it_counts_what_it_sent(opened: Bank, capsys: pytest.CaptureFixture[str]) -> None:
    function = opened.function()
    sent = []
    for _ in range(2):
        opened.clock.seconds += 0.001
        capsys.readouterr()
        run(function)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        sent += [sum(line["InterestTransactions"]) for line in lines if "InterestTransactions" in line]
    assert sent == [len(CHARGED)]
