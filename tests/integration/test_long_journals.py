"""Journals that are too long for memory, on both engines. Small bounds make them: a few entries, pages of three."""

import itertools
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes import Deadline
from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger import long_journals, reconciler
from ledger.checkpoints import Checkpoint
from ledger.core.accounts import Account, AccountStatus, account_from_item, account_item
from ledger.long_journals import SUMS, Position
from tests.support.faults import no_logs
from tests.support.numbers import exact_numbers
from tests.support.reconciling import BOOKS, PLANTED, Bank, event, opening, payment, transfer, without_pauses
from tests.support.strategies import ids
from tools.local_aws.functions import Context, Queue, process_transactions, record
from tools.local_aws.server import Endpoint
from workers import scheduled_jobs as jobs

# A handler that is killed has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")

LONG = "long"
LENGTH = 30
SLOW_SECONDS = 12
"""Of a query: so a step has five."""
NIGHT = reconciler.Night(date(2026, 3, 1))
NEW = [payment(f"n-{number}", LONG, 1) for number in range(20)]


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Bank:
    """A query takes a second on the clock of the deadlines."""
    without_pauses(monkeypatch)
    monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: None)
    monkeypatch.setattr(reconciler, "IN_PARALLEL", reconciler.IN_PARALLEL._replace(entries=2))
    bank = Bank(ministack, dynamodb)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + bank.waited_seconds)
    monkeypatch.setattr("conditional_writes.deadline.time", clock)
    bank.post(BOOKS)
    bank.limit, bank.query_seconds = 3, 1
    return bank


@pytest.fixture
def long(bank: Bank) -> Bank:
    """A bank with one more account, of thirty-one entries, ten of them transfers."""
    payments = [payment(f"p-{number:02}", LONG, 1) for number in range(LENGTH - 10)]
    bank.post([opening(LONG), *payments, *(transfer(f"x-{number}", LONG, "bob", 1) for number in range(10))])
    return bank


def run(bank: Bank, night: int = 0, **fields: Any) -> dict[str, Any]:
    bank.run_until_done(night, **fields)
    return bank.report(night)


def counts(report: dict[str, Any]) -> tuple[int, ...]:
    names = ("accounts_checked", "accounts_replayed_whole", "accounts_skipped", "mismatches")
    return tuple(int(report[name]) for name in names)


# --- sound ------------------------------------------------------------------------------------------------


def test_a_sound_journal_takes_many_steps_and_is_sound(long: Bank) -> None:
    long.query_seconds = SLOW_SECONDS
    outcomes = long.run_until_done()
    assert counts(long.report()) == (5, 5, 0, 0)
    assert outcomes.count("Continued") > 4
    assert not long.late_checkpoints()
    assert long.requests["Query index"] > LENGTH / 3
    assert long.requests["Query journal"] > LENGTH / 3


def test_many_new_entries_are_replayed_from_the_checkpoint_in_many_steps(long: Bank) -> None:
    night = long.quiet_night()
    run(long, night)
    long.post(NEW)
    long.requests.clear()
    long.query_seconds = SLOW_SECONDS
    outcomes = long.run_until_done(night + 1)
    assert counts(long.report(night + 1)) == (5, 0, 0, 0)
    assert "Continued" in outcomes
    assert long.requests["Query journal"] == 0
    assert not long.late_checkpoints()
    assert run(long, night + 2)["accounts_replayed_whole"] == 0


def test_while_transactions_go_on_nothing_is_found(long: Bank, ministack: Endpoint) -> None:
    """Before each third query of the journal a payment and a transfer are posted."""
    night = long.quiet_night()
    queries = itertools.count()
    teller = process_transactions(ministack, long.tables, long.dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")

    def post(account_id: str) -> None:
        number = next(queries) if account_id == LONG else 1
        if number % 3 == 0:
            messages = [payment(f"during-{number}", LONG, 1), transfer(f"during-{number}-x", LONG, "bob", 1)]
            Queue(list(map(record, messages))).deliver_until_quiet(teller)

    long.before_query = post
    for number, fields in enumerate([{}, {}, {"whole": True}, {}]):
        checked, _, skipped, mismatches = counts(run(long, night + number, **fields))
        assert (checked, skipped, mismatches) == (5, 0, 0), long.report(night + number)
    assert next(queries) > 40
    long.before_query = lambda account_id: None
    assert counts(run(long, night + 4))[2:] == (0, 0)
    assert not long.late_checkpoints()


# --- damage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_new", [True, False], ids=["the first night", "a whole night"])
@pytest.mark.parametrize("planted", PLANTED)
def test_it_finds_what_is_planted(bank: Bank, planted: str, is_new: bool) -> None:
    """All journals but dave's are long here. The first page with a mismatch is the last that is looked at."""
    plant, expected = PLANTED[planted]
    night = bank.quiet_night()
    if not is_new:
        run(bank, night)
    plant(bank)
    accounts = {beginning.split(":")[0] for beginning in expected}
    for number, fields in enumerate([{} if is_new else {"whole": True}, {}], 1):
        report = run(bank, night + number, **fields)
        found = report["first_mismatches"]
        assert report["accounts_skipped"] == 0, report["first_skipped"]
        assert {sentence.split(":")[0] for sentence in found} == accounts
        assert any(sentence.startswith(tuple(expected)) for sentence in found), found
        assert not accounts & bank.checkpoints().keys()


AT_ONCE: dict[str, Callable[[Bank], None]] = {
    "a changed balance": lambda bank: bank.change_account(LONG, balance=7),
    "a changed limit": lambda bank: bank.change_account(LONG, overdraft_limit=-7_000),
    "a changed currency": lambda bank: bank.change_account(LONG, currency="CHF"),
    "a lower version": lambda bank: bank.change_account(LONG, version=20),
    "a version of one": lambda bank: bank.change_account(LONG, version=1),
    "a higher version": lambda bank: bank.change_account(LONG, version=60),
    "a version that no journal has": lambda bank: bank.change_account(LONG, version=Decimal("1E+60")),
    "a wrong checkpoint": lambda bank: bank.change_checkpoint(LONG, balance=7),
    "a lower version of the checkpoint": lambda bank: bank.change_checkpoint(LONG, version=20),
    "a higher version of the checkpoint": lambda bank: bank.change_checkpoint(LONG, version=99),
}


@pytest.mark.parametrize("posted", [[], NEW], ids=["unchanged", "new entries"])
@pytest.mark.parametrize("planted", AT_ONCE)
def test_a_changed_account_or_checkpoint_is_found_at_once(
    long: Bank, planted: str, posted: list[dict[str, Any]]
) -> None:
    night = long.quiet_night()
    run(long, night)
    long.post(posted)
    AT_ONCE[planted](long)
    report = run(long, night + 1)
    found = {sentence.split(":")[0] for sentence in report["first_mismatches"]}
    assert (found, report["accounts_skipped"], report["accounts_replayed_whole"]) == ({LONG}, 0, 1)
    assert LONG not in long.checkpoints()
    report = run(long, night + 2)
    assert bool(report["mismatches"]) == ("checkpoint" not in planted)


def test_an_entry_without_a_version_is_in_no_index_and_its_account_is_skipped(long: Bank) -> None:
    entry = long.entry(LONG, "p-07")
    long.put_entry(
        {name: value for name, value in entry.items() if name != "account_version"} | {"transaction_id": "q"}
    )
    report = run(long)
    assert counts(report) == (4, 4, 1, 0)
    assert report["first_skipped"] == [f"{LONG}: it can't be read: ValueError: entry 'q': KeyError: 'account_version'"]


@pytest.mark.parametrize("version", [0, -3, Decimal("7.5"), 7])
def test_an_entry_of_a_version_that_there_is_not_is_found_or_named(long: Bank, version: object) -> None:
    long.put_entry(long.entry(LONG, "p-07") | {"transaction_id": "q", "account_version": version})
    report = run(long)
    named = [*report["first_mismatches"], *report["first_skipped"]]
    assert {sentence.split(":")[0] for sentence in named} == {LONG}
    assert counts(report)[0] == 5 - counts(report)[2]


@pytest.mark.parametrize("version", range(2, 12))
def test_entries_of_one_version_at_any_place_of_a_page_are_found(long: Bank, version: int) -> None:
    twice = next(item for item in long.books()[long.tables.journal] if _is(item, version))
    long.put_entry(from_dynamodb(twice) | {"transaction_id": "again"})
    [sentence] = run(long)["first_mismatches"]
    assert sentence.startswith(f"{LONG}: entries twice: version {version}, ")


def _is(item: dict[str, Any], version: int) -> bool:
    return item["account_id"]["S"] == LONG and item["account_version"]["N"] == str(version)


def test_an_entry_beyond_the_account_is_found_by_its_whole_replay(long: Bank) -> None:
    night = long.quiet_night()
    run(long, night)
    for version in (90, 70):
        long.put_entry(long.entry(LONG, "p-07") | {"transaction_id": f"b-{version}", "account_version": version})
    assert counts(run(long, night + 1)) == (5, 0, 0, 0)
    [sentence] = run(long, night + 2, whole=True)["first_mismatches"]
    assert sentence.startswith(f"{LONG}: entry beyond: version 90, b-90: the account is at version 31")


# --- the index --------------------------------------------------------------------------------------------


def test_an_index_that_shows_what_the_table_does_not_have_is_no_truth(long: Bank) -> None:
    """The index shows a balance that was right, the table has another."""
    right = long.entry(LONG, "p-07")
    long.change_entry(LONG, "p-07", balance_after=700)
    long.change_page = lambda items: [right if item["transaction_id"] == "p-07" else item for item in items]
    report = run(long)
    assert {sentence.split(":")[0] for sentence in report["first_mismatches"]} == {LONG}
    assert report["accounts_skipped"] == 0


def test_an_index_that_is_wrong_about_a_sound_journal_is_no_mismatch(long: Bank) -> None:
    def with_note(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [item | {"note": "of the index"} for item in items]

    long.change_page = with_note
    assert counts(run(long)) == (5, 5, 0, 0)
    assert not long.late_checkpoints()


def test_an_index_that_differs_from_a_journal_that_is_too_long_for_memory_is_said(
    long: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "ALONE", reconciler.ALONE._replace(entries=20))
    long.change_page = lambda items: [item | {"note": "of the index"} for item in items]
    report = run(long)
    assert counts(report) == (4, 4, 1, 0)
    reason = "its index differs from its journal, and its journal has 31 entries"
    assert report["first_skipped"] == [f"{LONG}: {reason}"]


@pytest.mark.parametrize("hidden", [{31}, {1}, {9}, set(range(5, 15))], ids=str)
def test_an_index_with_a_hole_is_filled_from_the_table(long: Bank, hidden: set[int]) -> None:
    long.change_page = lambda items: [item for item in items if item["account_version"] not in hidden]
    assert counts(run(long)) == (5, 5, 0, 0)


def test_a_hole_in_the_index_of_a_journal_that_is_too_long_to_be_searched_is_said(
    long: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only memory is left. If the journal fits into it, the hole is no matter."""
    monkeypatch.setattr(long_journals, "MOST_TABLE_PAGES", 3)
    long.change_page = lambda items: [item for item in items if item["account_version"] != 25]
    assert counts(run(long)) == (5, 5, 0, 0)
    monkeypatch.setattr(reconciler, "ALONE", reconciler.ALONE._replace(entries=20))
    report = run(long, 1, whole=True)
    assert counts(report) == (4, 4, 1, 0)
    reason = "its index differs from its journal, and its journal has 31 entries"
    assert report["first_skipped"] == [f"{LONG}: {reason}"]


def test_a_commit_that_is_in_the_journal_before_the_account_is_no_mismatch(
    long: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    beyond = long.entry(LONG, "p-07") | {"transaction_id": "z", "account_version": 32}
    long.put_entry(beyond)
    monkeypatch.setattr(
        long_journals, "time", SimpleNamespace(sleep=lambda seconds: long.change_account(LONG, version=32))
    )
    assert counts(run(long))[2:] == (0, 0)


# --- another run ------------------------------------------------------------------------------------------


def test_a_checkpoint_that_another_run_saved_meanwhile_is_no_mismatch(long: Bank) -> None:
    """The first run is interrupted in the long journal. New entries are posted, and the other run is done before."""
    night = long.quiet_night()
    long.query_seconds = SLOW_SECONDS
    progress: dict[str, Any] = {}
    while not (progress.get("position") and progress["begun"] == LONG):
        assert long.job().lambda_handler(event(night), Context(150))["outcome"] == "Continued"
        key = to_dynamodb({"lock_key": "reconcile_accounts"})
        lock = from_dynamodb(long.client.get_item(TableName=long.locks_table, Key=key)["Item"])
        progress = lock["checkpoint"]["saved"]
    long.post(NEW)
    newer = account_item(account_from_item(long.accounts()[LONG]))
    item = to_dynamodb(newer | {"whole_on": "2026-03-01"})
    long.client.put_item(TableName=long.tables.checkpoints, Item=item)
    assert counts(run(long, night))[2:] == (0, 0)


def test_a_checkpoint_that_another_run_saves_while_an_invocation_goes_on_is_no_mismatch(long: Bank) -> None:
    """The invocation read the account before the new entries, and the other run's checkpoint after them."""
    item = long.accounts()[LONG]
    long.post(NEW)
    newer = account_from_item(long.accounts()[LONG])
    checker = long.job().reconciler
    checker.checkpoints.write({LONG: Checkpoint(newer, NIGHT.day)}, Deadline.after(5))
    result = checker.check_alone(item, NIGHT)
    assert (list(result.mismatches), result.skipped, result.is_whole) == ([], None, True)


def test_a_replay_whose_checkpoint_is_gone_begins_anew_and_is_whole(long: Bank) -> None:
    """Another run found a mismatch in an older entry: a new checkpoint would hide it for thirty nights."""
    item = long.accounts()[LONG]
    target = account_from_item(item)
    before_last = replace(target, balance=target.balance + 1, version=target.version - 1)  # The last one is a transfer.
    long.change_entry(LONG, "p-07", payload_hash="another")
    result = long.job().reconciler.check_alone(item, NIGHT, Position(target, before_last, is_whole=False))
    assert [mismatch.what for mismatch in result.mismatches] == ["changed request"]


# --- positions --------------------------------------------------------------------------------------------


accounts = st.builds(
    Account,
    ids,
    exact_numbers(),
    exact_numbers(),
    st.text(min_size=1, max_size=3),
    st.sampled_from(AccountStatus),
    st.integers(0, 10**38 - 1),
    st.none() | st.text(min_size=1),
)
sums = st.integers(0, SUMS - 1)
positions = st.builds(
    Position,
    accounts,
    st.none() | accounts,
    st.booleans(),
    sums,
    sums,
    st.none() | ids,
    st.none() | st.tuples(st.integers(-(10**37), 10**38 - 1), ids),
)


@given(positions)
def test_a_position_keeps_all_of_itself_as_an_item(position: Position) -> None:
    assert Position.from_item(from_dynamodb(to_dynamodb(position.as_item()))) == position


# --- kills ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "from the checkpoint"])
def test_a_replay_that_is_killed_at_any_call_goes_on(long: Bank, is_whole: bool, every_case: bool) -> None:
    night = long.quiet_night()
    run(long, night)
    long.post(NEW)
    books, saved = long.books(), long.checkpoints()
    long.calls, long.query_seconds = 0, SLOW_SECONDS
    expected = counts(run(long, night + 1, whole=is_whole))
    last_call = long.calls
    assert expected == (5, 5 if is_whole else 0, 0, 0)
    places, kills = range(2, last_call + 1, 7 if every_case else 31), 0
    with no_logs():
        for kill_at in places:
            for account_id, item in saved.items():
                long.change_checkpoint(account_id, **item)
            long.calls, long.kill_at = 0, kill_at
            same_day = night + 1 + kill_at / 1_000
            outcomes = long.run_until_done(same_day, whole=is_whole)
            report = long.report(same_day)
            # A run may take some calls less than the first one, and end before the place.
            assert "Killed" in outcomes or long.calls < kill_at
            kills += outcomes.count("Killed")
            checked, _, skipped, mismatches = counts(report)
            assert (checked, skipped, mismatches) == (5, 0, 0), f"killed at call {kill_at}"
            assert not long.late_checkpoints()
    assert len(places) // 2 <= kills <= len(places)
    assert long.books() == books
