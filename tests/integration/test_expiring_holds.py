"""Expired holds on both engines: each is released once, even by repeated and concurrent runs."""

import itertools
import json
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from tests.checkers.books import Books
from tests.support.job_bank import JobBank
from tools.local_aws import functions
from tools.local_aws.functions import Queue, expire_holds, process_transactions, record
from tools.local_aws.meter import Meter
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import scan
from workers import scheduled_jobs as jobs
from workers.invocation import RESERVED_SECONDS

EVENT = {"job": "expire_holds", "scheduled_time": "2026-03-01T12:00:00Z", "force": True}
NEXT_HOUR = EVENT | {"scheduled_time": "2026-03-01T13:00:00Z"}
PAST, JUST, SOON = "2026-02-01T00:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000001Z"
HOLDS: dict[str, dict[str, str | None]] = {
    "anna": {"a-1": PAST, "a-2": JUST, "a-3": SOON},
    "ben": {"b-1": None},
    "cleo": {},
    "dora": {"d-1": JUST},
    "emil": {"e-1": SOON},
}
EXPIRED = {("anna", "a-1"), ("anna", "a-2"), ("dora", "d-1")}
LATER = {("anna", "a-3"), ("emil", "e-1")}
DELIVERIES = 20

type HoldId = tuple[str, str]
"""The ids of an account and of a hold."""


class Bank(JobBank):
    """Accounts with holds, and functions that expire them."""

    def new_function(self, locks_table: str, segments: str) -> ModuleType:
        url = self.poster.worker.queue.url
        return expire_holds(self.aws, self.tables, locks_table, url, self.dynamodb, JOB_SEGMENTS=segments)

    def open(self, holds: Mapping[str, Mapping[str, str | None]] = HOLDS) -> None:
        """Accounts with a balance of 100, and holds of 1 each, by id and time of expiry."""
        messages: list[dict[str, Any]] = []
        for name, expiries in holds.items():
            messages.append({"type": "open_account", "transaction_id": "open", "account_id": name, "currency": "EUR"})
            messages.append({"transaction_id": "first", "account_id": name, "amount": 100})
            for hold_id, expires_at in expiries.items():
                messages.append({"type": "hold", "transaction_id": hold_id, "account_id": name, "amount": 1})
                messages[-1] |= {"expires_at": expires_at} if expires_at else {}
        self.post(map(json.dumps, messages))

    def put_account(self, account_id: str, **attributes: Any) -> None:
        """An account as others may write it."""
        account = {"balance": 100, "overdraft_limit": 0, "currency": "EUR", "status": "OPEN", "version": 1}
        item = to_dynamodb(account | attributes | {"account_id": account_id})
        self.dynamodb.client("dynamodb").put_item(TableName=self.tables.accounts, Item=item)

    def books(self) -> Books:
        """The books, after what is held was compared with the open holds."""
        books = super().books()
        for account in books.accounts.values():
            assert account.held == sum(hold.remaining for hold in account.open_holds.values())
            assert account.held == books.journal[account.account_id][-1].outcome.held_after
        return books

    def report(self, scheduled_time: str = "2026-03-01T12:00:00+00:00") -> dict[str, Any]:
        records = {item["lock_key"]["S"]: item for item in scan(self.dynamodb, self.locks_table)}
        return from_dynamodb(records[f"expire_holds {scheduled_time}"])


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint) -> Bank:
    return Bank(ministack, dynamodb)


@pytest.fixture
def opened(bank: Bank) -> Bank:
    bank.open()
    return bank


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The events with which the function is invoked: at first one, and then those that it invokes itself with."""
    waiting: list[Any] = [EVENT]
    monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: waiting.append(event))
    return waiting


def run(function: ModuleType, event: dict[str, Any] = EVENT, timeout_seconds: float = 60) -> str:
    answer = function.lambda_handler(event, functions.Context(timeout_seconds))
    return str(answer["outcome"])


def holds_of(bodies: Iterable[str]) -> Counter[HoldId]:
    messages = map(json.loads, bodies)
    return Counter((message["account_id"], message["hold_id"]) for message in messages)


def expired(books: Books) -> set[HoldId]:
    """The holds that expired. Fails if an expiry was rejected, or if a hold expired twice."""
    found = [entry for entry in books.entries if entry.transaction_id.startswith("expire-hold-")]
    assert {entry.outcome.status for entry in found} <= {"POSTED"}
    ids = [(entry.account_id, entry.request["hold_id"]) for entry in found]
    assert len(set(ids)) == len(ids)
    return set(ids)


def open_holds(books: Books) -> set[HoldId]:
    return {(name, hold_id) for name, account in books.accounts.items() for hold_id in account.open_holds}


def test_its_messages_are_a_group_of_their_own_behind_payments(opened: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    function = opened.function()
    monkeypatch.setattr(function, "send_all", lambda _sqs, _url, messages, _deadline: sent.extend(messages))
    assert run(function) == "Done"
    assert [message.group_id for message in sent] == ["expire_holds"] * len(EXPIRED)


def test_what_has_expired_is_released_and_all_else_stays(opened: Bank) -> None:
    assert run(opened.function()) == "Done"
    bodies = opened.queued()
    assert holds_of(bodies) == dict.fromkeys(EXPIRED, 1)
    opened.post(bodies)
    books = opened.books()
    assert expired(books) == EXPIRED
    assert open_holds(books) == LATER | {("ben", "b-1")}
    assert {account.available for account in books.accounts.values()} == {Decimal(99), Decimal(100)}
    assert {account.balance for account in books.accounts.values()} == {Decimal(100)}
    report = opened.report()
    assert (report["sent"], report["accounts_skipped"], report["segments"]) == (3, 0, 1)


def test_a_hold_that_expires_later_is_released_by_a_later_run(opened: Bank) -> None:
    function = opened.function()
    for event in (EVENT, NEXT_HOUR, NEXT_HOUR):
        opened.clock.seconds += 0.001
        run(function, event)
        opened.post(opened.queued())
    assert expired(opened.books()) == EXPIRED | LATER


def test_delivered_twenty_times_it_sends_each_message_once(opened: Bank) -> None:
    function, outcomes = opened.function(), []
    for _ in range(DELIVERIES):
        opened.clock.seconds += 0.001
        outcomes.append(run(function))
    assert outcomes == ["Done"] + ["DoneBefore"] * (DELIVERIES - 1)
    assert holds_of(opened.queued()) == dict.fromkeys(EXPIRED, 1)


def test_delivered_twenty_times_at_once_it_sends_each_message_once(opened: Bank) -> None:
    workers = [opened.function() for _ in range(DELIVERIES)]
    for worker in workers:
        worker.job.locks.now = time.time

    with ThreadPoolExecutor(DELIVERIES) as pool:
        outcomes = Counter(pool.map(run, workers))
    assert outcomes["Done"] == 1
    assert outcomes["DoneBefore"] + outcomes["InProgress"] == DELIVERIES - 1
    assert holds_of(opened.queued()) == dict.fromkeys(EXPIRED, 1)


def test_two_runs_before_the_first_message_is_posted_send_the_same_messages(opened: Bank) -> None:
    function = opened.function()
    for event in (EVENT, NEXT_HOUR):
        opened.clock.seconds += 0.001
        assert run(function, event) == "Done"
    bodies = opened.queued()
    assert holds_of(bodies) == dict.fromkeys(EXPIRED, 2) | dict.fromkeys(LATER, 1)
    assert len(set(bodies)) == len(EXPIRED | LATER), "a second message is the first one again"
    random.Random(1).shuffle(bodies)
    opened.post(bodies)
    assert expired(opened.books()) == EXPIRED | LATER


def test_by_twenty_at_once_who_know_of_no_lock_each_hold_is_released_once(opened: Bank) -> None:
    tables = [opened.new_locks_table() for _ in range(DELIVERIES)]
    with ThreadPoolExecutor(DELIVERIES) as pool:
        assert set(pool.map(run, map(opened.function, tables))) == {"Done"}
    bodies = opened.queued()
    assert holds_of(bodies) == dict.fromkeys(EXPIRED, DELIVERIES)
    random.Random(1).shuffle(bodies)
    posters = [process_transactions(opened.aws, opened.tables, opened.dynamodb) for _ in range(4)]

    def post(number: int) -> list[Any]:
        Queue([record(body) for body in bodies[number::4]]).deliver_until_quiet(posters[number])
        return take_dead_letters(opened.aws, posters[number].worker.queue.dead_letter_url)

    with ThreadPoolExecutor(len(posters)) as pool:
        assert not any(pool.map(post, range(len(posters))))
    assert expired(opened.books()) == EXPIRED


RESOLUTIONS: dict[str, dict[str, object]] = {
    "posted": {"type": "post_hold", "hold_id": "d-1"},
    "voided": {"type": "void_hold", "hold_id": "d-1"},
}


@pytest.mark.parametrize("resolution", RESOLUTIONS.values(), ids=RESOLUTIONS)
def test_a_hold_that_was_resolved_before_its_message_came_expires_no_more(
    opened: Bank, resolution: dict[str, object]
) -> None:
    run(opened.function())
    opened.send(transaction_id="t-1", account_id="dora", **resolution)
    before = opened.books().accounts["dora"]
    opened.post(opened.queued())
    books = opened.books()
    after = books.accounts["dora"]
    assert (after.balance, after.held, after.version) == (before.balance, Decimal(0), before.version + 1)
    assert books.counts()["HOLD_NOT_OPEN"] == 1


def test_a_hold_that_was_posted_in_part_expires_with_what_is_left(opened: Bank) -> None:
    function = opened.function()
    run(function)
    opened.send(type="post_hold", transaction_id="t-1", account_id="dora", hold_id="d-1", amount="0.4", final=False)
    first = opened.queued()
    opened.forget_all_runs()
    opened.clock.seconds += 100
    run(function)
    again = opened.queued()
    assert sorted(again) == sorted(first), "the message is the same, whatever is left"
    opened.post(first + again)
    books = opened.books()
    assert expired(books) == EXPIRED
    dora = books.accounts["dora"]
    assert (dora.balance, dora.held) == (Decimal("99.6"), Decimal(0))


@pytest.mark.parametrize("ahead", ["2027-01-15T08:00:00Z", "2100-01-01T00:00:00Z"], ids=["some hours", "long"])
def test_a_run_for_a_time_ahead_releases_no_hold_early(bank: Bank, ahead: str) -> None:
    now = datetime.fromtimestamp(bank.clock.seconds, UTC)
    bank.open({"anna": {"over": now.isoformat(), "not yet": "2027-01-15T08:00:00.000001Z"}})
    assert datetime.fromisoformat(ahead) >= now
    assert run(bank.function(), EVENT | {"scheduled_time": ahead}) == "Done"
    assert holds_of(bank.queued()) == {("anna", "over"): 1}


MANY = {f"acc-{number}": {"h-1": PAST, "h-2": SOON} for number in range(11)}
EXPIRED_OF_MANY = dict.fromkeys([(name, "h-1") for name in MANY], 1)


def test_more_accounts_than_an_invocation_has_time_for_are_the_next_ones(
    bank: Bank, events: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.open(MANY)
    outcomes, sent = [], []
    while events:
        function = bank.function()
        monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 3)
        bank.clock.seconds += 0.001
        outcomes.append(run(function, events.pop(0), RESERVED_SECONDS))  # Time for one step.
        sent.append(bank.queued())
    assert outcomes == ["Continued"] * 3 + ["Done"]
    assert list(map(len, sent)) == [3, 3, 3, 2]
    bodies = list(itertools.chain(*sent))
    assert holds_of(bodies) == EXPIRED_OF_MANY
    bank.post(bodies)
    assert expired(bank.books()) == EXPIRED_OF_MANY.keys()
    assert bank.report()["sent"] == len(MANY)


@pytest.mark.parametrize("segments", [1, 4, 16])
def test_in_segments_each_hold_is_released_once_and_the_report_has_the_sums(
    bank: Bank, events: list[Any], monkeypatch: pytest.MonkeyPatch, segments: int
) -> None:
    bank.open(MANY)
    bank.put_account("damaged", held=1, holds="none")
    outcomes = Counter[str]()
    while events:
        function = bank.function(segments=segments)
        monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 3)
        bank.clock.seconds += 0.001
        outcomes[run(function, events.pop(0), RESERVED_SECONDS)] += 1  # Time for one step.
    assert outcomes["Done"] == 1
    assert holds_of(bank.queued()) == EXPIRED_OF_MANY
    report = bank.report()
    assert (report["sent"], report["accounts_skipped"], report["segments"]) == (len(MANY), 1, segments)


def test_a_run_that_is_killed_on_its_way_goes_on_from_its_checkpoint(
    bank: Bank, events: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed after the messages of its second page were sent, and before the checkpoint: they are sent again."""
    bank.open(MANY)
    function = bank.function()
    monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 3)
    work = function.job.work

    def killed(*arguments: Any) -> Iterator[Any]:
        steps = work(*arguments)
        yield next(steps)
        next(steps)
        raise KeyboardInterrupt

    function.job = function.job._replace(work=killed)
    with pytest.raises(KeyboardInterrupt):
        run(function)
    before = bank.queued()
    assert len(before) == 6
    bank.clock.seconds += 200
    events.clear()
    outcomes = [run(following(bank, monkeypatch))]
    while events:
        outcomes.append(run(following(bank, monkeypatch), events.pop(0)))
    assert outcomes[-1] == "Done"
    after = bank.queued()
    assert Counter(holds_of(before + after).values()) == {1: 8, 2: 3}
    bank.post(before + after)
    assert expired(bank.books()) == EXPIRED_OF_MANY.keys()
    assert bank.report()["sent"] == len(MANY), "of the messages that were sent twice, the report counts one"


def following(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    bank.clock.seconds += 0.001
    function = bank.function()
    monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 3)
    return function


def test_pages_without_a_hold_are_passed_over(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    bank.open({f"acc-{number}": {} for number in range(7)} | {"holder": {"h-1": PAST}})
    function = bank.function()
    monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 1)
    assert run(function) == "Done"
    assert holds_of(bank.queued()) == {("holder", "h-1"): 1}


def test_without_accounts_there_is_nothing_to_do(bank: Bank) -> None:
    assert run(bank.function()) == "Done"
    assert not bank.queued()


def test_an_account_with_as_many_holds_as_it_may_have_gets_a_message_for_each(bank: Bank) -> None:
    bank.open({"anna": {f"h-{number}": PAST for number in range(20)}})
    run(bank.function())
    bank.post(bank.queued())
    books = bank.books()
    assert len(expired(books)) == 20
    assert not open_holds(books)


def test_ids_of_any_characters_that_can_be_seen_expire(bank: Bank) -> None:
    names = ["a b", "'", "\U0001f3e6" * 128, '"', "ä" * 128]
    bank.open({name: {f"hold {name}"[:128]: PAST} for name in names})
    run(bank.function())
    bank.post(bank.queued())
    assert expired(bank.books()) == {(name, f"hold {name}"[:128]) for name in names}


HOLD = {"remaining": Decimal(1), "expires_at": "2026-02-01T00:00:00+00:00"}
DAMAGED: dict[str, dict[str, Any]] = {
    "no holds": {"held": 1},
    "a text for the holds": {"held": 1, "holds": "h-1"},
    "a text for a hold": {"held": 2, "holds": {"h-1": HOLD, "h-2": "soon"}},
    "no time for an expiry": {"held": 1, "holds": {"h-1": HOLD | {"expires_at": "soon"}}},
    "a hold's id of 2 KB": {"held": 1, "holds": {"h" * 2048: HOLD}},
    "\U0001f3e6" * 512: {"held": 1, "holds": {"h-1": HOLD}},
}
HARMLESS: dict[str, dict[str, Any]] = {
    "a text for what is held": {"held": "1", "holds": {"h-1": HOLD}},
    "held, by no hold": {"held": 1, "holds": {}},
    "380 KB": {"held": 0, "notes": "x" * 380_000},
}


def test_damaged_holds_are_skipped_and_named_and_do_not_stop_it(
    opened: Bank,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, attributes in (DAMAGED | HARMLESS).items():
        opened.put_account(name, **attributes)
    opened.put_account("too many", held=300, holds={f"h-{number}": HOLD for number in range(300)})
    function = opened.function()
    monkeypatch.setattr(function, "ACCOUNTS_PER_STEP", 3)
    capsys.readouterr()
    assert run(function) == "Done"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    skipped = [vars(entry)["account_id"] for entry in caplog.records if entry.message == "skipped"]
    assert sorted(skipped) == sorted(DAMAGED)
    assert sum(sum(line["AccountsSkipped"]) for line in lines if "AccountsSkipped" in line) == len(DAMAGED)
    sent = holds_of(opened.queued())
    assert sum(count for (name, _), count in sent.items() if name == "too many") == 20
    assert {hold_id: count for hold_id, count in sent.items() if hold_id[0] != "too many"} == dict.fromkeys(EXPIRED, 1)
    report = opened.report()
    assert (report["sent"], report["accounts_skipped"]) == (len(EXPIRED) + 20, len(DAMAGED))


def test_it_counts_what_it_sent(opened: Bank, capsys: pytest.CaptureFixture[str]) -> None:
    function = opened.function()
    sent = []
    for _ in range(2):
        opened.clock.seconds += 0.001
        capsys.readouterr()
        run(function)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        sent += [sum(line["HoldExpiries"]) for line in lines if "HoldExpiries" in line]
    assert sent == [len(EXPIRED)]


ACCOUNT = {
    "balance": Decimal("12345.67"),
    "overdraft_limit": -800,
    "decimal_places": 2,
    "version": 42,
    "posted_at": "2026-02-21T21:01:40.742+00:00",
    "cw:version_id": "f64d2308440e49ca8f8ce7e30dd811cf",
}


def test_a_run_costs_the_units_that_its_page_says(bank: Bank) -> None:
    """The scan on DynamoDB Local alone: ministack doesn't say how large the accounts without a hold are."""
    page = " ".join((PROJECT / "docs/jobs.md").read_text().split())
    [figures] = re.findall(r"([\d,]+) read units and ([\d,]+) write units for a million accounts", page)
    reads, writes = (int(figure.replace(",", "")) / 1_000_000 for figure in figures)
    accounts, choose = 400, random.Random(1)

    def new_id() -> str:
        """The ids decide how many accounts of a page have a hold, and so the page's units."""
        return str(uuid.UUID(int=choose.getrandbits(128), version=4))

    for number in range(accounts):
        hold = {new_id(): {"remaining": Decimal("12.34"), "expires_at": SOON}}
        held = {"held": Decimal("12.34"), "holds": hold} if number % 2 else {}
        bank.put_account(new_id(), **ACCOUNT | held)
    function = bank.function()
    assert run(function) == "Done"
    bank.clock.seconds += 1
    bank.dynamodb.client("dynamodb").update_item(
        TableName=bank.locks_table,
        Key=to_dynamodb({"lock_key": "expire_holds"}),
        UpdateExpression="SET windows_done = :times",
        ExpressionAttributeValues=to_dynamodb({":times": [f"2026-02-27T{i:02}:00:00+00:00" for i in range(100)]}),
    )
    meter = Meter(function.dynamodb)
    # SOON is past this time: nothing is sent
    assert run(function, EVENT | {"scheduled_time": "2026-03-01T11:00:00Z"}) == "Done"
    full_pages = accounts / function.ACCOUNTS_PER_STEP
    if bank.dynamodb is not bank.aws:
        assert meter.answered["Scan"] == full_pages + 1
        assert meter.units["Scan"] - 1 == pytest.approx(reads * accounts)
    assert meter.units["UpdateItem"] / meter.answered["UpdateItem"] == pytest.approx(writes * accounts / full_pages)
