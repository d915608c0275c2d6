"""The jobs that send messages, on both engines. Runs that are killed, or that meet: tests/explore/scenarios/jobs.py."""

import json
import random
import re
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from ledger import sending_job
from tests.support.bodies import payment, post_hold
from tests.support.sending_jobs import FEBRUARY, SOON, STEP, Expiry, Interest, SendingJob
from tools.local_aws.functions import Context, record
from tools.local_aws.meter import Meter
from tools.local_aws.server import PROJECT, Endpoint

MANY = [f"acc-{number}" for number in range(11)]


@pytest.fixture(params=[Interest, Expiry], ids=lambda job: job.JOB)
def job(request: pytest.FixtureRequest, aws: Endpoint, dynamodb: Endpoint) -> SendingJob:
    made: SendingJob = request.param(aws, dynamodb)
    return made


@pytest.fixture
def opened(job: SendingJob) -> SendingJob:
    job.open_sample()
    return job


# --- both jobs --------------------------------------------------------------------------------------------


def test_its_messages_are_a_group_of_their_own_behind_payments(
    opened: SendingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(sending_job, "send_all", lambda _sqs, _url, messages, _deadline: sent.extend(messages))
    assert opened.run() == "Done"
    assert [message.group_id for message in sent] == [opened.JOB] * len(opened.SAMPLE)


def test_more_accounts_than_an_invocation_has_time_for_are_the_next_ones(job: SendingJob) -> None:
    job.open_wanted(MANY)
    outcomes, sent = job.run_on()
    assert outcomes == ["Continued"] * 3 + ["Done"]
    assert list(map(len, sent)) == [STEP, STEP, STEP, len(MANY) % STEP]
    bodies = [body for bodies in sent for body in bodies]
    assert job.counted(bodies) == dict.fromkeys(job.wanted(MANY), 1)
    job.post(*bodies)
    assert job.done().keys() == job.wanted(MANY)
    assert (job.report()["sent"], job.report()["accounts_skipped"]) == (len(MANY), 0)


def test_pages_without_anyone_to_send_about_are_passed_over(job: SendingJob) -> None:
    assert job.run(event=job.event(hour=11)) == "Done"
    assert not job.queued(), "there are no accounts"
    job.open_others(f"acc-{number}" for number in range(7))
    job.open_wanted(["wanted"])
    function = job.function()
    function.ACCOUNTS_PER_STEP = 1
    assert job.run(function) == "Done"
    assert job.counted(job.queued()) == dict.fromkeys(job.wanted(["wanted"]), 1)


# --- interest ---------------------------------------------------------------------------------------------

CHARGED = {"anna": Decimal("-2.80"), "emil": Decimal("-13.98"), "finn": Decimal("-34.56")}
"""At the end of February, which has 28 days. Ben, who owes a cent, owes less than a cent of interest."""
MARCH, APRIL = datetime(2026, 3, 1, 12, 30, tzinfo=UTC), datetime(2026, 4, 1, 12, 30, tzinfo=UTC)


@pytest.fixture
def interest(aws: Endpoint, dynamodb: Endpoint) -> Interest:
    return Interest(aws, dynamodb)


@pytest.fixture
def overdrawn(interest: Interest) -> Interest:
    interest.open_sample()
    return interest


def charged_in_april(interest: Interest) -> dict[str, Decimal]:
    """The amounts by the message of the end of March."""
    found = (each for each in interest.sound_books().entries if "interest-2026-04-01" in each.transaction_id)
    return {entry.account_id: entry.outcome.amount for entry in found}


def test_each_account_with_interest_due_is_charged_it_and_a_month_later_on_what_is_owed_then(
    overdrawn: Interest,
) -> None:
    overdrawn.run()
    bodies = overdrawn.queued()
    assert overdrawn.counted(bodies) == dict.fromkeys(CHARGED, 1)
    overdrawn.post_at(MARCH, *bodies)
    assert overdrawn.done() == CHARGED
    overdrawn.run(event=overdrawn.event() | {"scheduled_time": APRIL.isoformat()})
    overdrawn.post_at(APRIL, *overdrawn.queued())
    # 31 days of 102.80, of 513.49 and a rest of 0.00628, and of 1,269.12 and a rest of 0.00768; ben's rest is 0.00059
    amounts = map(Decimal, ("-3.18", "-15.92", "-39.35"))
    assert charged_in_april(overdrawn) == dict(zip(CHARGED, amounts, strict=True))


LATE = MARCH + timedelta(days=3)
ORDERS: dict[str, list[tuple[datetime, str]]] = {
    "in time": [(MARCH, "march"), (APRIL, "april")],
    "after an outage of three days": [(LATE, "march"), (APRIL, "april")],
    "after the next month's": [(APRIL, "april"), (APRIL, "march")],
    "each twice": [(MARCH, "march"), (LATE, "march"), (APRIL, "april"), (APRIL, "march"), (APRIL, "april")],
    "the next month's alone": [(APRIL, "april")],
}


def test_the_sum_is_the_same_in_any_order_of_messages_after_an_outage_and_whatever_was_paid_since(
    aws: Endpoint, dynamodb: Endpoint
) -> None:
    found = dict[str, dict[str, Decimal]]()
    for name, order in ORDERS.items():
        interest = Interest(aws, dynamodb)
        interest.open_sample()
        interest.run()
        bodies = {"march": interest.queued()}
        paid = {"anna": "-100", "ben": "0.01", "emil": "1000", "dora": "-250"}
        interest.post_at(MARCH, *(payment("paid", amount, name) for name, amount in paid.items()))
        interest.post_at(LATE, *bodies["march"] if (LATE, "march") in order else [])
        interest.run(event=interest.event() | {"scheduled_time": APRIL.isoformat()})
        bodies["april"] = interest.queued()
        for posted_at, messages in order:
            interest.post_at(posted_at, *bodies[messages])
        found[name] = {each: account.balance for each, account in interest.sound_books().accounts.items()}
    assert found == dict.fromkeys(ORDERS, found["in time"])
    # anna owed 102.80 for half a day of March and half an hour, and then 202.80
    assert found["in time"]["anna"] == -(200 + Decimal("2.80") + Decimal("6.23"))


def test_a_run_for_a_time_ahead_charges_nothing_early(overdrawn: Interest) -> None:
    overdrawn.clock.seconds = FEBRUARY.timestamp() + 14 * 86_400
    assert overdrawn.run() == "Done"
    assert overdrawn.queued() == []


ACCOUNT = {"balance": 100, "overdraft_limit": -500, "currency": "EUR", "status": "OPEN", "version": 1}
"""An account as others may write it."""
LONGEST_ID = "\U0001f3e6" * 512
"""2,048 bytes: DynamoDB's limit. It is no account of Teller's, so its message is dead-lettered."""


def test_damaged_accounts_are_skipped_and_named_and_do_not_stop_it(
    overdrawn: Interest, caplog: pytest.LogCaptureFixture
) -> None:
    due = {"rate": Decimal("0.365"), "due": "5", "accrued": "0"}
    account = ACCOUNT | {"interest": due}
    damaged = {
        "a text for a balance": account | {"balance": "-100"},
        "no balance": {name: account[name] for name in account if name != "balance"},
        "no sums": account | {"interest": {"rate": 1}},
        "a sum that is none": account | {"interest": due | {"accrued": "NaN"}},
        "a sum below 0": account | {"interest": due | {"due": "-5"}},
        LONGEST_ID: account,
    }
    for name, attributes in damaged.items():
        overdrawn.put_account(name, **attributes)
    overdrawn.put_account("a number for a status", **account | {"status": 1})
    overdrawn.put_account("380 KB", **account, notes="x" * 380_000)
    function = overdrawn.function()
    function.ACCOUNTS_PER_STEP = STEP
    assert overdrawn.run(function) == "Done"
    assert overdrawn.counted(overdrawn.queued()) == dict.fromkeys([*CHARGED, "380 KB"], 1)
    skipped = [vars(entry)["account_id"] for entry in caplog.records if entry.message == "skipped"]
    assert sorted(skipped) == sorted(damaged)
    assert overdrawn.report()["accounts_skipped"] == len(damaged)


# --- the expiry of holds ----------------------------------------------------------------------------------


@pytest.fixture
def expiry(aws: Endpoint, dynamodb: Endpoint) -> Expiry:
    return Expiry(aws, dynamodb)


@pytest.fixture
def held(expiry: Expiry) -> Expiry:
    expiry.open_sample()
    return expiry


def test_what_has_expired_is_released_and_all_else_stays_until_a_later_run(held: Expiry) -> None:
    assert held.run() == "Done"
    bodies = held.queued()
    assert held.counted(bodies) == dict.fromkeys(held.SAMPLE, 1)
    held.post(*bodies)
    assert held.done().keys() == held.SAMPLE
    assert held.open_holds() == held.LATER | {("ben", "b-1")}
    assert {(account.balance, account.available) for account in held.books.accounts.values()} == {(100, 99), (100, 100)}
    report = held.report()
    assert (report["sent"], report["accounts_skipped"]) == (3, 0)
    held.run(event=held.event(hour=13))
    held.post(*held.queued())
    assert held.done().keys() == held.SAMPLE | held.LATER


def test_a_hold_that_was_posted_in_part_expires_with_what_is_left(held: Expiry) -> None:
    held.run()
    held.post(post_hold("t-1", "0.4", "dora", "d-1", final=False))
    first = held.queued()
    held.forget_all_runs()
    held.run()
    again = held.queued()
    assert sorted(again) == sorted(first), "the message is the same, whatever is left"
    held.post(*first, *again)
    assert held.done().keys() == held.SAMPLE
    assert (held.account("dora").balance, held.account("dora").held) == (Decimal("99.6"), Decimal(0))


@pytest.mark.parametrize("ahead", ["2027-01-15T08:00:00Z", "2100-01-01T00:00:00Z"], ids=["some hours", "long"])
def test_a_run_for_a_time_ahead_releases_no_hold_early(expiry: Expiry, ahead: str) -> None:
    now = datetime.fromtimestamp(expiry.clock.seconds, UTC)
    expiry.open_with({"anna": {"over": now.isoformat(), "not yet": "2027-01-15T08:00:01Z"}})
    assert datetime.fromisoformat(ahead) >= now
    assert expiry.run(event=expiry.event() | {"scheduled_time": ahead}) == "Done"
    assert expiry.counted(expiry.queued()) == {("anna", "over"): 1}


HOLD = {"remaining": Decimal(1), "expires_at": "2026-02-01T00:00:00+00:00"}
DAMAGED: dict[str, dict[str, Any]] = {
    "no holds": {"held": 1},
    "a text for the holds": {"held": 1, "holds": "h-1"},
    "a text for a hold": {"held": 2, "holds": {"h-1": HOLD, "h-2": "soon"}},
    "no time for an expiry": {"held": 1, "holds": {"h-1": HOLD | {"expires_at": "soon"}}},
    "a hold's id of 2 KB": {"held": 1, "holds": {"h" * 2048: HOLD}},
    LONGEST_ID: {"held": 1, "holds": {"h-1": HOLD}},
}
HARMLESS: dict[str, dict[str, Any]] = {
    "a text for what is held": {"held": "1", "holds": {"h-1": HOLD}},
    "held, by no hold": {"held": 1, "holds": {}},
    "380 KB": {"held": 0, "notes": "x" * 380_000},
}


def test_damaged_holds_are_skipped_and_named_and_do_not_stop_it_and_an_account_gets_twenty_messages_at_most(
    held: Expiry, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for name, attributes in (DAMAGED | HARMLESS).items():
        held.put_account(name, **ACCOUNT | attributes)
    held.put_account("too many", **ACCOUNT, held=300, holds={f"h-{number}": HOLD for number in range(300)})
    function = held.function()
    function.ACCOUNTS_PER_STEP = STEP
    capsys.readouterr()
    function.lambda_handler({"Records": [record(held.event())]}, Context())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    skipped = [vars(entry)["account_id"] for entry in caplog.records if entry.message == "skipped"]
    assert sorted(skipped) == sorted(DAMAGED)
    assert sum(sum(line["AccountsSkipped"]) for line in lines if "AccountsSkipped" in line) == len(DAMAGED)
    sent = held.counted(held.queued())
    of_too_many = {about: sent.pop(about) for about in list(sent) if about[0] == "too many"}
    assert (len(of_too_many), sent) == (20, dict.fromkeys(held.SAMPLE, 1))
    report = held.report()
    assert (report["sent"], report["accounts_skipped"]) == (len(held.SAMPLE) + 20, len(DAMAGED))


def test_a_run_costs_the_units_that_its_page_says(expiry: Expiry, request: pytest.FixtureRequest) -> None:
    """The scan not on ministack, which doesn't say how large the accounts without a hold are."""
    page = " ".join((PROJECT / "docs/jobs.md").read_text().split())
    [figures] = re.findall(r"([\d,]+) read units and ([\d,]+) write units for a million accounts", page)
    reads, writes = (int(figure.replace(",", "")) / 1_000_000 for figure in figures)
    accounts, choose = 400, random.Random(1)
    account = ACCOUNT | {"balance": Decimal("12345.67"), "decimal_places": 2, "version": 42}
    account |= {"posted_at": "2026-02-21T21:01:40.742+00:00", "cw:version_id": "f64d2308440e49ca8f8ce7e30dd811cf"}

    def new_id() -> str:
        """The ids decide how many accounts of a page have a hold, and so the page's units."""
        return str(uuid.UUID(int=choose.getrandbits(128), version=4))

    for number in range(accounts):
        one = {new_id(): {"remaining": Decimal("12.34"), "expires_at": SOON}}
        expiry.put_account(new_id(), **account | ({"held": Decimal("12.34"), "holds": one} if number % 2 else {}))
    function = expiry.function()
    assert expiry.run(function, expiry.event(hour=10)) == "Done"
    times = [f"2026-02-27T{number:02}:00:00+00:00" for number in range(100)]
    expiry.change(expiry.locks_table, {"lock_key": "expire_holds"}, windows_done=times)
    meter = Meter(function.dynamodb)
    # SOON is past this time: nothing is sent
    assert expiry.run(function, expiry.event(hour=11)) == "Done"
    full_pages = accounts / function.ACCOUNTS_PER_STEP
    if "ministack" not in request.node.callspec.params.values():
        assert meter.answered["Scan"] == full_pages + 1
        assert meter.units["Scan"] - 1 == pytest.approx(reads * accounts)
    assert meter.units["UpdateItem"] == pytest.approx(3 + writes * accounts), "to acquire the lock, and for each page"
