"""The nightly reconciliation on both engines: it finds each planted error and no other, and reports once."""

import itertools
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.sizes import item_bytes
from ledger import reconciler
from ledger.core.mismatches import MOST_MISMATCHES
from tests.checkers.books import read_books, violations
from tests.support.faults import Killed
from tests.support.reconciling import BOOKS, PLANTED, Bank, event, opening, payment, transfer
from tools.local_aws.functions import (
    Context,
    Queue,
    metric_totals,
    process_transactions,
    record,
)
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import scan
from workers import scheduled_jobs as jobs
from workers.invocation import RESERVED_SECONDS

# A handler that is killed or fails has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Bank:
    monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: None)
    bank = Bank(ministack, dynamodb)
    bank.post(BOOKS)
    return bank


def test_it_finds_nothing_in_sound_books(bank: Bank) -> None:
    report = bank.run()
    assert not violations(read_books(bank.dynamodb, bank.tables))
    assert (report["accounts_checked"], report["mismatches"], report["first_mismatches"]) == (4, 0, [])


@pytest.mark.parametrize("planted", PLANTED)
def test_it_finds_what_is_planted(bank: Bank, planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "PAUSES_SECONDS", (0, 0, 0))  # No commit is in progress, so no pause is needed.
    plant, expected = PLANTED[planted]
    plant(bank)
    bank.run_until_done()
    report = bank.report()
    found = report["first_mismatches"]
    assert report["mismatches"] == len(found) or report["mismatches"] == MOST_MISMATCHES
    for beginning in expected:
        assert any(sentence.startswith(beginning) for sentence in found), f"{beginning!r} isn't in {found}"
    accounts = {beginning.split(":")[0] for beginning in expected}
    assert {sentence.split(":")[0] for sentence in found} <= accounts


# --- accounts that are skipped ----------------------------------------------------------------------------


UNREADABLE: dict[str, tuple[Callable[[Bank], None], str]] = {
    "an account of an unknown status": (
        lambda bank: bank.change_account("dave", status="SLEEPING"),
        "it can't be read: ValueError: 'SLEEPING' is not a valid AccountStatus",
    ),
    "a text for a balance": (
        lambda bank: bank.change_account("dave", balance="12"),
        "it can't be read: TypeError: balance: expected Decimal, got str",
    ),
    "a version that is no number": (
        lambda bank: bank.change_account("dave", version="4"),
        "it can't be read: TypeError: version: expected Decimal, got str",
    ),
    "an account with nothing but its key": (
        lambda bank: bank.replace_account("dave"),
        "it can't be read: KeyError: 'balance'",
    ),
    "a large account": (
        lambda bank: bank.change_account("dave", notes="x" * 380_000),
        "its item has 380,161 bytes, expected at most 32,768",
    ),
    "an entry without a request": (
        lambda bank: bank.put_entry(without(bank.entry("dave", "t-13"), "request")),
        "it can't be read: ValueError: entry 't-13': KeyError: 'request'",
    ),
    "an entry whose request is no map": (
        lambda bank: bank.change_entry("dave", "t-13", request="transaction"),
        "it can't be read: ValueError: entry 't-13': TypeError: request: expected dict, got str",
    ),
    "an entry whose amount is no number": (
        lambda bank: bank.change_entry("dave", "t-13", amount="120"),
        "it can't be read: ValueError: entry 't-13': TypeError: amount: expected Decimal, got str",
    ),
    "an entry without a version": (
        lambda bank: bank.put_entry(without(bank.entry("dave", "t-13"), "account_version")),
        "it can't be read: ValueError: entry 't-13': KeyError: 'account_version'",
    ),
    "an entry of a later release": (
        lambda bank: bank.change_entry("dave", "t-13", format=2),
        "it can't be read: ValueError: entry 't-13': ValueError: format: expected 1, got 2: a later release of Teller"
        " may have written it",
    ),
    "a large entry that is none": (
        lambda bank: bank.change_entry("dave", "t-13", request=["x" * 380_000]),
        "it can't be read: ValueError: entry 't-13': TypeError: request: expected dict, got list",
    ),
}


def without(item: dict[str, Any], name: str) -> dict[str, Any]:
    return {other: value for other, value in item.items() if other != name}


@pytest.mark.parametrize("planted", UNREADABLE)
def test_an_account_that_can_not_be_read_is_skipped_and_named(
    bank: Bank, planted: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    plant, reason = UNREADABLE[planted]
    plant(bank)
    capsys.readouterr()
    report = bank.run()
    assert (report["accounts_checked"], report["mismatches"]) == (3, 0)
    assert (report["accounts_skipped"], report["first_skipped"]) == (1, [f"dave: {reason}"])
    [line] = [vars(line) for line in caplog.records if line.message == "skipped"]
    assert (line["levelname"], line["account_id"], line["reason"]) == ("ERROR", "dave", reason)
    totals = metric_totals(map(json.loads, capsys.readouterr().out.splitlines()))
    assert (totals["AccountsChecked"], totals["AccountsSkipped"], totals["Mismatches"]) == (3, 1, 0)


@pytest.mark.parametrize(
    "plant",
    [
        lambda bank: bank.change_entry("carol", "t-9", amount="120"),
        lambda bank: bank.change_account("carol", balance="120"),
    ],
    ids=["its entry", "its account"],
)
def test_the_other_side_of_a_transfer_that_can_not_be_read_is_a_mismatch(
    bank: Bank, plant: Callable[[Bank], None]
) -> None:
    plant(bank)
    report = bank.run()
    assert (report["accounts_checked"], report["accounts_skipped"]) == (3, 1)
    assert report["first_skipped"][0].startswith("carol: it can't be read: ")
    named = {"bob: one-sided transfer: version 5, t-9: on carol no entry of it can be read"}
    assert named <= set(report["first_mismatches"])
    assert all(sentence.startswith("bob: one-sided transfer") for sentence in report["first_mismatches"])


def test_a_night_with_a_long_journal_an_unreadable_account_and_a_large_one_checks_the_others(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample of test_planted_night.py: small bounds instead of a million entries."""
    monkeypatch.setattr(reconciler, "IN_PARALLEL", reconciler.IN_PARALLEL._replace(entries=30, pages=1))
    monkeypatch.setattr(reconciler, "ALONE", reconciler.ALONE._replace(pages=2))
    bank.post([opening(name) for name in ("long", "unreadable", "large", "just-fits")])
    bank.post([payment(f"p-{number}", "just-fits", 1) for number in range(40)])
    for number in range(12):  # Three pages.
        bank.put_entry(bank.entry("long", "open-long") | {"transaction_id": f"t-{number}", "notes": "x" * 250_000})
    bank.change_account("unreadable", balance="12")
    bank.change_account("large", notes="x" * 380_000)
    bank.run_until_done()
    report = bank.report()
    assert (report["accounts_checked"], report["mismatches"], report["accounts_skipped"]) == (6, 1, 2)
    large, unreadable = sorted(report["first_skipped"])
    [long] = report["first_mismatches"]
    assert large == "large: its item has 380,178 bytes, expected at most 32,768"
    assert long.startswith("long: entries twice: version 1, ")
    assert unreadable == "unreadable: it can't be read: TypeError: balance: expected Decimal, got str"
    assert bank.queries["long"] < 20


def test_accounts_that_take_the_time_of_a_step_are_checked_one_by_one(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "STEP_SECONDS", 0)
    assert bank.run_until_done() == ["Done"]
    assert bank.report()["accounts_checked"] == 4


def test_an_account_that_is_too_slow_is_skipped_with_what_was_found_of_it(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "IN_PARALLEL", reconciler.IN_PARALLEL._replace(seconds=3))
    monkeypatch.setattr(reconciler, "ALONE", reconciler.ALONE._replace(seconds=3))
    monkeypatch.setattr(reconciler, "PAUSES_SECONDS", (0, 3.1))
    bank.delete_entry("alice", "t-5")  # It is checked again, after pauses of more than its time.
    bank.run_until_done()
    report = bank.report()
    assert (report["accounts_checked"], report["mismatches"], report["accounts_skipped"]) == (3, 0, 1)
    assert report["first_skipped"] == [
        "alice: its items couldn't be read: DeadlinePassed: no time is left: reading, again, after this was found:"
        " the account is at version 6, and this one has no entry"
    ]


def test_accounts_of_the_longest_names_and_sentences_fit_into_the_report(bank: Bank) -> None:
    names = [f"{number:02}" + "\U0001f3e6" * 511 + "xx" for number in range(60)]
    for number, name in enumerate(names):
        account = {"account_id": name, "balance": 0, "overdraft_limit": 0, "currency": "\uffff" * 9_000}
        status = "\uffff" * 1_000 if number % 2 else "OPEN"
        bank.replace_account(**account | {"status": status, "version": 0})
    assert len(names[0].encode()) == 2_048
    report = bank.run()
    assert (report["accounts_checked"], report["accounts_skipped"], report["mismatches"]) == (34, 30, 30)
    assert (len(report["first_skipped"]), len(report["first_mismatches"])) == (20, 20)
    assert item_bytes(report) < 200_000


def test_accounts_that_fill_a_page_by_two_or_three_are_all_named(bank: Bank) -> None:
    for number in range(9):
        bank.replace_account(f"large-{number}", notes="x" * 380_000)
    report = bank.run()
    assert (report["accounts_checked"], report["accounts_skipped"]) == (4, 9)


# --- AWS's trouble, or an account's -----------------------------------------------------------------------


def throttle(*_: object) -> None:
    raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "injected"}}, "Query")


def test_an_account_whose_reads_fail_is_skipped_when_others_are_read(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "PAUSES_SECONDS", (0, 0, 0))
    bank.before_query = lambda account_id: throttle() if account_id == "bob" else None
    bank.run_until_done()
    report = bank.report()
    assert (report["accounts_checked"], report["mismatches"], report["accounts_skipped"]) == (3, 0, 1)
    assert report["first_skipped"][0].startswith("bob: its items couldn't be read: ClientError: An error occurred (Thr")


def test_an_account_whose_reads_fail_for_a_while_is_checked(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "PAUSES_SECONDS", (0, 0, 0))
    failures = iter([True] * 3)  # One in parallel, and two alone.
    bank.before_query = lambda account_id: throttle() if account_id == "bob" and next(failures, False) else None
    bank.run_until_done()
    report = bank.report()
    assert (report["accounts_checked"], report["accounts_skipped"]) == (4, 0)


@pytest.mark.parametrize("accounts", [4, 1])
def test_when_no_journal_can_be_read_the_run_fails_and_skips_nobody(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, accounts: int
) -> None:
    monkeypatch.setattr(reconciler, "PAUSES_SECONDS", (0, 0, 0))
    if accounts == 1:
        bank.run_until_done()
        for name in ("alice", "bob", "carol"):
            at = to_dynamodb({"account_id": name})
            bank.client.delete_item(TableName=bank.tables.accounts, Key=at)
    bank.before_query = throttle
    for _ in range(3):
        with pytest.raises(ClientError, match="ThrottlingException"):
            bank.job().lambda_handler(event(1, whole=True), Context(150))
    bank.before_query = lambda account_id: None
    bank.run_until_done(1, whole=True)
    assert (bank.report(1)["accounts_checked"], bank.report(1)["accounts_skipped"]) == (accounts, 0)


@pytest.mark.parametrize("who", ["alice", "bob", "carol", "dave"])
def test_an_account_that_kills_the_function_each_time_is_skipped_and_the_night_ends(bank: Bank, who: str) -> None:
    def kill(account_id: str) -> None:
        if account_id == who:
            raise Killed

    bank.before_query = kill
    outcomes = bank.run_until_done()
    assert outcomes.count("Killed") == 3  # Once among others, and twice alone.
    report = bank.report()
    assert (report["accounts_checked"], report["accounts_skipped"], report["mismatches"]) == (3, 1, 0)
    reason = "the function was killed 2 times while it checked this account alone"
    assert report["first_skipped"] == [f"{who}: {reason}"]


def test_accounts_that_kill_the_function_take_no_event_more_than_its_three_tries(bank: Bank) -> None:
    def kill(account_id: str) -> None:
        if account_id != "bob":
            raise Killed

    bank.before_query = kill
    outcomes = bank.run_until_done()
    assert outcomes[-1] == "Done"
    kills = [index for index, outcome in enumerate(outcomes) if outcome == "Killed"]
    assert len(kills) == 7  # The first among others, and then each of the three alone, twice.
    assert all(outcomes[index + 1] == "Continued" for index in kills)
    assert (bank.report()["accounts_checked"], bank.report()["accounts_skipped"]) == (1, 3)


def test_what_a_killed_run_found_before_rings_the_alarms(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    function = bank.job()
    monkeypatch.setattr("ledger.nightly.ACCOUNTS_PER_STEP", 1)
    order = [from_dynamodb(item)["account_id"] for item in scan(bank.dynamodb, bank.tables.accounts)]
    bank.change_account(order[0], balance="12")
    bank.change_account(order[1], currency="ABC")

    def kill(account_id: str) -> None:
        if account_id == order[2]:
            raise Killed

    bank.before_query = kill
    capsys.readouterr()
    with pytest.raises(Killed):
        function.lambda_handler(event(0), Context())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["service"] for line in lines] == ["teller", "teller"]
    totals = metric_totals(lines)
    assert (totals["AccountsSkipped"], totals["Mismatches"] > 0) == (1, True)


def test_a_run_that_is_killed_once_skips_nobody(bank: Bank) -> None:
    kills = iter([True])

    def kill(account_id: str) -> None:
        if account_id == "bob" and next(kills, False):
            raise Killed

    bank.before_query = kill
    assert bank.run_until_done().count("Killed") == 1
    assert (bank.report()["accounts_checked"], bank.report()["accounts_skipped"]) == (4, 0)


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
            changed = bank.run(20, whole=True)
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
        return str(function.lambda_handler(event(0), Context())["outcome"])

    with ThreadPoolExecutor(10) as pool:
        at_once = list(pool.map(deliver, [bank.job() for _ in range(10)]))
    first = bank.report()
    assert at_once.count("Done") == 1
    assert set(at_once) <= {"Done", "DoneBefore", "InProgress"}
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
        monkeypatch.setattr("ledger.nightly.ACCOUNTS_PER_STEP", 1)
        outcomes.append(function.lambda_handler(event(0), Context(timeout_seconds=RESERVED_SECONDS))["outcome"])
    assert outcomes == ["Continued", "Continued", "Continued", "Continued"]
    assert called_again == [event(0)] * 4
    assert bank.job().lambda_handler(event(0), Context())["outcome"] == "Done"
    assert bank.report(0)["accounts_checked"] == 4
