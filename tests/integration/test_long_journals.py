"""Journals that are replayed in pages. Small bounds make them: a few entries, pages of three."""

from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from conditional_writes import Deadline
from ledger import reconciler
from ledger.checkpoints import key_of
from ledger.core.accounts import account_from_item, account_item
from ledger.reconciler import Position
from tests.support.bodies import opening, payment, transfer
from tests.support.faults import no_logs
from tests.support.late_index import AWAY
from tests.support.planted import BOOKS
from tests.support.reconciling import Reconciled, event, filled, in_pages, mismatches
from tools.local_aws.functions import Context, run_job

# A handler that is killed has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")

LONG = "long"
LENGTH = 30
SLOW_SECONDS = 12
"""Of a query: so a step has five."""
NIGHT = reconciler.Night(date(2026, 3, 1))
LONG_BOOKS = [
    *BOOKS,
    opening(LONG),
    *(payment(f"p-{number:02}", 1, LONG) for number in range(LENGTH - 10)),
    *(transfer(f"x-{number}", 1, LONG, "bob") for number in range(10)),
]
"""One more account, of thirty-one entries, ten of them transfers."""
NEW = [payment(f"n-{number}", 1, LONG) for number in range(20)]


@pytest.fixture
def long(reconciled: Reconciled, monkeypatch: pytest.MonkeyPatch) -> Reconciled:
    """All journals but dave's are long."""
    in_pages(reconciled, monkeypatch)
    reconciled.query_seconds = 0.2
    return filled(reconciled, LONG_BOOKS)


@pytest.fixture
def night(long: Reconciled) -> int:
    """The first night after the quiet one, on which the ledger was sound. On this one no account is due."""
    filled(long, LONG_BOOKS, after_a_night=True)
    long.calls.clear()
    return long.quiet_night() + 1


def counts(report: dict[str, Any]) -> tuple[int, ...]:
    names = ("accounts_checked", "accounts_replayed_whole", "accounts_skipped", "mismatches")
    return tuple(int(report[name]) for name in names)


def test_a_sound_journal_takes_many_steps_and_is_sound(long: Reconciled) -> None:
    long.query_seconds = SLOW_SECONDS
    outcomes = long.run_until_done()
    assert counts(long.report()) == (5, 5, 0, 0)
    assert outcomes.count("Continued") > 4
    assert not long.late_checkpoints()
    assert long.requests["Query index"] > LENGTH / 3
    assert long.requests["Query journal"] > LENGTH / 3


def test_many_new_entries_are_replayed_from_the_checkpoint_in_many_steps(long: Reconciled, night: int) -> None:
    long.post(*NEW)
    long.query_seconds = SLOW_SECONDS
    outcomes = long.run_until_done(night)
    assert counts(long.report(night)) == (5, 0, 0, 0)
    assert "Continued" in outcomes
    assert long.requests["Query journal"] == 0
    assert not long.late_checkpoints()


def test_an_entry_without_a_version_is_in_no_index_and_its_account_is_skipped(long: Reconciled) -> None:
    entry = {name: value for name, value in long.entry("p-07", LONG).items() if name != "account_version"}
    long.put_entry(entry | {"transaction_id": "q"})
    report = long.run()
    assert counts(report) == (4, 4, 1, 0)
    assert report["first_skipped"] == [f"{LONG}: it can't be read: ValueError: entry 'q': KeyError: 'account_version'"]


@pytest.mark.parametrize("version", [0, -3, Decimal("7.5"), 7])
def test_an_entry_of_a_version_that_there_is_not_is_found_or_named(long: Reconciled, version: object) -> None:
    long.put_entry(long.entry("p-07", LONG) | {"transaction_id": "q", "account_version": version})
    report = long.run()
    named = [*report["first_mismatches"], *report["first_skipped"]]
    assert {sentence.split(":")[0] for sentence in named} == {LONG}
    assert counts(report)[0] == 5 - counts(report)[2]


@pytest.mark.parametrize("version", [2, 3, 4, 5, 31])
def test_entries_of_one_version_at_any_place_of_a_page_are_found(long: Reconciled, version: int) -> None:
    [twice] = [
        item
        for item in long.items(long.tables.journal)
        if (item["account_id"], item["account_version"]) == (LONG, version)
    ]
    long.put_entry(twice | {"transaction_id": "again"})
    [sentence] = long.run()["first_mismatches"]
    assert sentence.startswith(f"{LONG}: entries twice: version {version}, ")


def test_an_entry_beyond_the_account_is_found_by_its_whole_replay(long: Reconciled, night: int) -> None:
    for version in (90, 70):
        beyond = {"transaction_id": f"b-{version}", "account_version": version}
        long.put_entry(long.entry("p-07", LONG) | beyond)
    assert counts(long.run(night)) == (5, 0, 0, 0)
    sentence = f"{LONG}: entry beyond: entry b-90 is of version 90, the account is at version 31"
    assert long.run(night + 1, whole=True)["first_mismatches"] == [sentence]


def test_an_index_that_shows_what_the_table_does_not_have_is_no_truth(long: Reconciled) -> None:
    """The index shows a balance that was right, the table has another."""
    right = long.entry("p-07", LONG)
    long.change_entry("p-07", LONG, balance_after=700)
    long.index.shown = lambda item: right if item["transaction_id"] == "p-07" else item
    report = long.run()
    assert counts(report) == (4, 4, 1, 0)
    assert report["first_skipped"] == [
        f"{LONG}: it can't be read: ValueError: its index has other entries than its journal"
    ]


@pytest.mark.parametrize(
    ("error", "reason"), [(None, "IndexIsLate: its index lacks version 25"), (AWAY, "ClientError")]
)
def test_an_index_that_lacks_what_can_not_be_searched_is_said(
    long: Reconciled, monkeypatch: pytest.MonkeyPatch, error: tuple[str, str] | None, reason: str
) -> None:
    """A journal that can be searched needs no index."""
    long.index.hidden, long.index.error = {25}, error
    assert counts(long.run()) == (5, 5, 0, 0)
    monkeypatch.setattr(reconciler, "MOST_TABLE_PAGES", 3)
    report = long.run(1, whole=True)
    assert LONG in {sentence.split(":")[0] for sentence in report["first_skipped"]}
    assert all(reason in sentence for sentence in report["first_skipped"])
    assert report["mismatches"] == 0


def test_a_commit_that_is_in_the_journal_before_the_account_is_no_mismatch(
    long: Reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    long.put_entry(long.entry("p-07", LONG) | {"transaction_id": "z", "account_version": 32})
    commit = SimpleNamespace(sleep=lambda seconds: long.change_account(LONG, version=32))
    monkeypatch.setattr(reconciler, "time", commit)
    assert mismatches(long.run()) == ""


def test_a_checkpoint_that_another_run_saved_meanwhile_is_no_mismatch(long: Reconciled) -> None:
    """The first run is interrupted in the long journal. New entries are posted, and the other run is done before."""
    long.query_seconds = SLOW_SECONDS
    progress: dict[str, Any] = {}
    while not (progress.get("position") and progress["begun"] == LONG):
        assert run_job(long.new_process(), event(), Context(150)) == "Continued"
        [lock] = (item for item in long.items(long.locks_table) if item["lock_key"] == "reconcile_accounts")
        progress = lock["checkpoint"]["saved"]
    long.post(*NEW)
    newer = account_item(account_from_item(long.by_account(long.tables.accounts)[LONG]))
    saved = key_of(LONG) | {"whole_on": "2026-03-01", "peaks": ["a"] * newer["version"].bit_count()}
    long.put(long.tables.checkpoints, newer | saved)
    assert mismatches(long.run()) == ""


def test_a_replay_whose_checkpoint_is_gone_begins_anew_and_is_whole(long: Reconciled) -> None:
    """Another run found a mismatch in an older entry: a new checkpoint would hide it for thirty nights."""
    item = long.by_account(long.tables.accounts)[LONG]
    target = account_from_item(item)
    before_last = replace(target, balance=target.balance + 1, version=target.version - 1)  # The last one is a transfer.
    long.change_entry("p-07", LONG, seal="another")
    position = Position(target, before_last, is_whole=False)
    result = long.new_process().reconciler.check(item, None, NIGHT, Deadline.after(60), position)
    assert [mismatch.what for mismatch in result.mismatches] == ["broken seal", "broken seal"]


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "from the checkpoint"])
def test_a_replay_that_is_killed_at_any_call_goes_on(
    long: Reconciled, night: int, is_whole: bool, every_case: bool
) -> None:
    long.post(*NEW)
    before = long.stored(checkpoints=True)
    long.query_seconds = SLOW_SECONDS
    expected = (5, 5 if is_whole else 0, 0, 0)
    assert counts(long.run(night, whole=is_whole)) == expected
    places, kills = range(2, len(long.calls) + 1, 7 if every_case else 97), 0
    with no_logs():
        for kill_at in places:
            long.restore(before)
            long.calls.clear()
            long.kill_at = kill_at
            same_day = night + kill_at / 1_000
            outcomes = long.run_until_done(same_day, whole=is_whole)
            # A run may take some calls less than the first one, and end before the place.
            assert "Killed" in outcomes or len(long.calls) < kill_at
            kills += outcomes.count("Killed")
            assert counts(long.report(same_day))[::2] == (5, 0), f"killed at call {kill_at}"
            assert mismatches(long.report(same_day)) == ""
            assert not long.late_checkpoints()
    assert len(places) // 2 <= kills <= len(places)
    assert long.stored() == {name: before[name] for name in long.stored()}
