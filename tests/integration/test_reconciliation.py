"""The nightly reconciliation: it finds each planted error and no other, skips what it can't check, and reports once."""

import itertools
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes.core.items import item_bytes
from ledger import nightly, reconciler
from tests.support.faults import Killed
from tests.support.planted import BOOKS, change_account, change_entry
from tests.support.reconciling import Reconciled, event, filled, in_pages, mismatches
from tools.local_aws.functions import Context, metric_totals, record, run_job

# A handler that is killed or fails has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")


@pytest.fixture
def ledger(reconciled: Reconciled) -> Reconciled:
    return filled(reconciled, BOOKS)


def counts(report: dict[str, Any]) -> tuple[int, ...]:
    return tuple(int(report[name]) for name in ("accounts_checked", "accounts_skipped", "mismatches"))


def test_a_mismatch_is_a_sentence_with_the_version_and_both_values(ledger: Reconciled) -> None:
    ledger.change_account("alice", balance=7)
    ledger.change_entry("t-12", "bob", amount=2)
    found = ledger.run()["first_mismatches"]
    assert sorted(each for each in found if "broken seal" not in each) == [
        "alice: changed account: balance is 7, the journal gives -250.5",
        "bob: wrong decision: version 7, t-12: it is POSTED 2, balance 501, expected POSTED 1, balance 501",
    ]


# --- accounts that are skipped ----------------------------------------------------------------------------


ENTRY = "it can't be read: ValueError: entry 't-13'"
UNREADABLE: list[tuple[Callable[[Reconciled], None], str]] = [
    (change_account("dave", status="SLEEPING"), "it can't be read: ValueError: 'SLEEPING' is not a valid AccountSta"),
    (change_account("dave", balance="12"), "it can't be read: TypeError: balance: expected Decimal, got str"),
    (change_account("dave", version="4"), "it can't be read: TypeError: version: expected Decimal, got str"),
    (change_account("dave", balance=None), "it can't be read: KeyError: 'balance'"),
    (change_entry("t-13", "dave", request=None), f"{ENTRY}: KeyError: 'request'"),
    (change_entry("t-13", "dave", request="transaction"), f"{ENTRY}: TypeError: request: expected dict, got str"),
    (change_entry("t-13", "dave", amount="120"), f"{ENTRY}: TypeError: amount: expected Decimal, got str"),
    (change_entry("t-13", "dave", account_version=None), f"{ENTRY}: KeyError: 'account_version'"),
    (change_entry("t-13", "dave", request=["x" * 380_000]), f"{ENTRY}: TypeError: request: expected dict, got list"),
]


@pytest.mark.parametrize(("plant", "reason"), UNREADABLE, ids=[reason for _, reason in UNREADABLE])
def test_an_account_that_can_not_be_read_is_skipped_and_named(
    ledger: Reconciled,
    plant: Callable[[Reconciled], None],
    reason: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    plant(ledger)
    capsys.readouterr()
    report = ledger.run()
    assert counts(report) == (3, 1, 0)
    [skipped] = report["first_skipped"]
    assert skipped.startswith(f"dave: {reason}")
    [line] = [vars(line) for line in caplog.records if line.message == "skipped"]
    assert (line["levelname"], f"{line['account_id']}: {line['reason']}") == ("ERROR", skipped)
    totals = metric_totals(map(json.loads, capsys.readouterr().out.splitlines()))
    assert (totals["AccountsChecked"], totals["AccountsSkipped"], totals["Mismatches"]) == (3, 1, 0)


@pytest.mark.parametrize(
    "plant", [change_entry("t-9", "carol", amount="120"), change_account("carol", balance="120")], ids=["entry", "item"]
)
def test_the_other_side_of_a_transfer_that_can_not_be_read_is_a_mismatch(
    ledger: Reconciled, plant: Callable[[Reconciled], None]
) -> None:
    plant(ledger)
    report = ledger.run()
    assert counts(report)[:2] == (3, 1)
    assert report["first_skipped"][0].startswith("carol: it can't be read: ")
    assert "bob: one-sided transfer: version 5, t-9: on carol no entry of it can be read" in report["first_mismatches"]
    assert all(sentence.startswith("bob: one-sided transfer") for sentence in report["first_mismatches"])


def test_an_account_of_which_much_is_of_others_is_checked(ledger: Reconciled) -> None:
    ledger.change_account("dave", notes="x" * 380_000)
    assert counts(ledger.run()) == (4, 0, 0)


def test_a_large_account_with_a_long_journal_is_skipped_and_the_others_are_checked(
    ledger: Reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its position would be in the lock's record."""
    in_pages(ledger, monkeypatch)
    ledger.change_account("dave", currency="x" * 40_000)
    ledger.before_query = lambda account_id: ledger.clock.sleep(nightly.ALONE_SECONDS if account_id == "dave" else 0)
    report = ledger.run()
    assert counts(report) == (3, 1, 0)
    assert report["first_skipped"][0].startswith("dave: its item has 40,155 bytes, expected at most 32,768")


def test_the_entries_of_a_journal_in_memory_are_bounded_by_their_bytes_too(ledger: Reconciled) -> None:
    """Its account says that it has few entries: so no page but the first is read, alone or among others."""
    queries: list[str] = []
    ledger.before_query = queries.append
    for number in range(24):  # Seven pages.
        ledger.put_entry(ledger.entry("open", "dave") | {"transaction_id": f"x-{number}", "notes": "x" * 250_000})
    assert mismatches(ledger.run()) == "dave: entries twice"
    assert queries.count("dave") <= 4 * (reconciler.MOST_PAGES + 1), "each look at it reads the table, then the index"


def test_accounts_that_take_the_time_of_a_step_are_checked_one_by_one(
    ledger: Reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nightly, "STEP_SECONDS", 0)
    assert ledger.run_until_done() == ["Done"]
    assert counts(ledger.report()) == (4, 0, 0)


def test_an_account_that_is_too_slow_is_skipped_with_what_was_found_of_it(ledger: Reconciled) -> None:
    ledger.delete_entry("t-5", "alice")
    slow = iter([0, 0, nightly.STEP_SECONDS, 0, nightly.ALONE_SECONDS])
    ledger.before_query = lambda account_id: ledger.clock.sleep(next(slow, 0) if account_id == "alice" else 0)
    report = ledger.run()
    assert counts(report) == (3, 1, 0)
    assert report["first_skipped"] == [
        "alice: its items couldn't be read: DeadlinePassed: no time is left: reading a table, again, after this"
        " was found: version 6 has no entry, and the account is at version 6"
    ]


def test_accounts_of_the_longest_names_and_sentences_fit_into_the_report(ledger: Reconciled) -> None:
    names = [f"{number:02}" + "\U0001f3e6" * 511 + "xx" for number in range(60)]
    for number, name in enumerate(names):
        account = {"account_id": name, "balance": 0, "overdraft_limit": 0, "currency": "\uffff" * 9_000, "version": 0}
        ledger.put(ledger.tables.accounts, account | {"status": "\uffff" * 1_000 if number % 2 else "OPEN"})
    assert len(names[0].encode()) == 2_048
    report = ledger.run()
    assert counts(report) == (34, 30, 30)
    assert (len(report["first_skipped"]), len(report["first_mismatches"])) == (20, 20)
    assert item_bytes(report) < 200_000


# --- AWS's trouble, or an account's -----------------------------------------------------------------------


def throttle(*_: object) -> None:
    raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "injected"}}, "Query")


def killing(*who: str, times: int = 1_000) -> Callable[[str], None]:
    left = itertools.repeat(None, times)

    def kill(account_id: str) -> None:
        if account_id in who and next(left, "none") is None:
            raise Killed

    return kill


@pytest.mark.parametrize(("failures", "skipped"), [(1_000, 1), (3, 0)], ids=["for ever", "for a while"])
def test_an_account_whose_reads_fail_is_tried_again_and_then_skipped(
    ledger: Reconciled, failures: int, skipped: int
) -> None:
    """For a while: once in parallel, and twice alone."""
    left = itertools.repeat(None, failures)
    ledger.before_query = lambda name: throttle() if name == "bob" and next(left, "none") is None else None
    report = ledger.run()
    assert counts(report) == (4 - skipped, skipped, 0)
    reason = "bob: its items couldn't be read: ClientError: An error occurred (Thr"
    assert all(sentence.startswith(reason) for sentence in report["first_skipped"])


@pytest.mark.parametrize("accounts", [4, 1])
def test_when_no_journal_can_be_read_the_run_fails_and_skips_nobody(ledger: Reconciled, accounts: int) -> None:
    for name in ("alice", "bob", "carol")[: 4 - accounts]:
        ledger.delete(ledger.tables.accounts, name)
    ledger.before_query = throttle
    for _ in range(3):
        with pytest.raises(ClientError, match="ThrottlingException"):
            run_job(ledger.new_process(), event(), Context(150))
    ledger.before_query = lambda account_id: None
    assert counts(ledger.run())[:2] == (accounts, 0)


@pytest.mark.parametrize("times", [1, 1_000])
def test_accounts_that_kill_the_function_are_skipped_and_take_no_event_more_than_its_three_tries(
    ledger: Reconciled, times: int
) -> None:
    """A run may be killed once, for whatever reason: nobody is skipped."""
    who = ("alice", "carol", "dave") if times > 1 else ("bob",)
    ledger.before_query = killing(*who, times=times)
    # The first among others, and then each of the three alone, twice.
    assert ledger.run_until_done() == ["Killed"] * (7 if times > 1 else 1) + ["Done"]
    assert counts(ledger.report())[:2] == ((1, 3) if times > 1 else (4, 0))
    reason = "the function was killed 2 times while it checked this account alone"
    skipped = [f"{name}: {reason}" for name in who] if times > 1 else []
    assert sorted(ledger.report()["first_skipped"]) == skipped


def test_what_a_killed_run_found_before_rings_the_alarms(
    ledger: Reconciled, capsys: pytest.CaptureFixture[str]
) -> None:
    function = ledger.new_process()
    function.ACCOUNTS_PER_STEP = 1
    first, second, third, _ = ledger.by_account(ledger.tables.accounts)
    ledger.change_account(first, balance="12")
    ledger.change_account(second, currency="ABC")
    ledger.before_query = killing(third)
    capsys.readouterr()
    with pytest.raises(Killed):
        function.lambda_handler({"Records": [record(event())]}, Context())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["service"] for line in lines] == ["teller", "teller"]
    totals = metric_totals(lines)
    assert (totals["AccountsSkipped"], totals["Mismatches"] > 0) == (1, True)


# --- commits ------------------------------------------------------------------------------------


def test_what_is_mended_when_it_looks_again_was_a_commit_in_progress(
    ledger: Reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = ledger.entry("t-5", "alice")
    ledger.delete_entry("t-5", "alice")
    ledger.delete_entry("t-9", "carol")
    commit = SimpleNamespace(sleep=lambda seconds: ledger.put_entry(last))
    monkeypatch.setattr(reconciler, "time", commit)
    assert mismatches(ledger.run()) == "bob: one-sided transfer; carol: missing entry"


def test_it_reads_what_is_there_now(ledger: Reconciled) -> None:
    """Asserts consistent reads. The engines have no others, but DynamoDB's others would find gaps in sound books."""
    function, consistent = ledger.new_process(), dict[str, bool]()

    def note(params: dict[str, Any], model: Any, **_: Any) -> None:
        if model.name in ("Scan", "Query", "GetItem"):
            consistent[model.name] = consistent.get(model.name, True) and params.get("ConsistentRead", False)
        if model.name == "BatchGetItem":
            consistent[model.name] = all(table.get("ConsistentRead") for table in params["RequestItems"].values())

    function.client.meta.events.register("before-parameter-build.dynamodb", note)
    ledger.put_entry(ledger.entry("t-5", "alice") | {"transaction_id": "t-6", "account_version": 9})
    assert run_job(function, event()) == "Done"
    assert consistent == dict.fromkeys(["Scan", "Query", "GetItem", "BatchGetItem"], True)
