"""Nights that go on from checkpoints: their costs, what they find, and a late index."""

from datetime import timedelta
from typing import Any

import pytest

from tests.support.bodies import Body, expire_hold, hold, opening, payment, post_hold, reverse, transfer
from tests.support.late_index import AWAY, THROTTLED
from tests.support.planted import (
    BOOKS,
    HELD_BOOKS,
    PLANTED,
    Plant,
    change_account,
    change_entry,
    change_reversed,
    delete_reversed,
    later,
)
from tests.support.reconciling import FIRST_NIGHT, Reconciled, event, filled, mismatches
from tools.local_aws.functions import run_job
from workers.scheduled_jobs import InvalidEvent

# A handler that fails has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")

NEW = [payment("n-1", 1, "alice"), payment("n-2", 1, "dave"), transfer("n-3", 1, "bob", "carol")]
"""An entry of each account. The transfer is rejected: carol is closed."""
NEW_HELD = [
    post_hold("n-1", None, "ann", "h-1"),
    hold("n-2", 3, "ann", expires_at="2026-06-01T00:00:00Z"),
    expire_hold("n-3", "ann", hold_id="h-4", as_of="2026-06-01T00:00:00Z"),
    expire_hold("n-4", "ann", hold_id="n-2", as_of="2026-06-01T00:00:00Z"),
    reverse("n-5", 1, "ben", "x-1", of_account_id="ann"),
    reverse("n-6", None, "ann", "n-1"),
]
after_new_entries = pytest.mark.parametrize("posted", [[], NEW], ids=["unchanged", "new entries"])


@pytest.fixture
def ledger(reconciled: Reconciled) -> Reconciled:
    return filled(reconciled, BOOKS, after_a_night=True)


@pytest.fixture
def night(ledger: Reconciled) -> int:
    """The first night after one of a sound ledger. On the next six nights no account is due for a whole replay."""
    assert not ledger.late_checkpoints()
    ledger.calls.clear()
    return ledger.quiet_night() + 1


@pytest.fixture
def held(reconciled: Reconciled) -> Reconciled:
    return filled(reconciled, HELD_BOOKS, after_a_night=True)


@pytest.fixture
def night_of_held(held: Reconciled) -> int:
    return held.quiet_night() + 1


def counts(report: dict[str, Any]) -> tuple[int, ...]:
    return tuple(int(report[name]) for name in ("accounts_checked", "accounts_replayed_whole", "mismatches"))


def accounts_in(kinds: str) -> set[str]:
    """The accounts with mismatches, as `mismatches` has them."""
    return {each.split(":")[0] for each in kinds.split("; ") if each}


def found(ledger: Reconciled, night: int, **fields: Any) -> set[str]:
    return accounts_in(mismatches(ledger.run(night, **fields)))


def days_of(ledger: Reconciled) -> set[str]:
    return {item["whole_on"] for item in ledger.checkpoints.values()}


def day_of(night: int) -> str:
    return (FIRST_NIGHT + timedelta(days=night)).date().isoformat()


# --- costs ------------------------------------------------------------------------------------------------


def test_an_unchanged_account_costs_neither_a_query_nor_a_write(ledger: Reconciled, night: int) -> None:
    assert counts(ledger.run(night)) == (4, 0, 0)
    requests = {name: count for name, count in ledger.requests.items() if "locks" not in name}
    assert requests.pop("TransactWriteItems") == 2, "the parts of the report and of the root's record"
    assert requests == {"Scan accounts": 1, "BatchGetItem checkpoints": 1, "Query checkpoints": 1}


def test_new_entries_cost_one_query_of_the_index_and_the_whole_journal_none(ledger: Reconciled, night: int) -> None:
    ledger.post(*(payment(f"n-{number}", 1, "alice") for number in range(12)))
    for later_nights, expected in enumerate([{"Query index": 1, "BatchWriteItem checkpoints": 1}, {}]):
        ledger.calls.clear()
        assert counts(ledger.run(night + later_nights)) == (4, 0, 0)
        requests = {name: count for name, count in ledger.requests.items() if name.startswith(("Query", "BatchWrite"))}
        assert requests == {"Query checkpoints": 1 + later_nights} | expected
        assert not ledger.late_checkpoints()


def test_an_account_that_is_new_is_replayed_whole_and_then_no_more(ledger: Reconciled, night: int) -> None:
    ledger.post(opening("erin"))
    assert counts(ledger.run(night)) == (5, 1, 0)
    assert ledger.checkpoints["erin"]["whole_on"] == day_of(night)
    assert not ledger.late_checkpoints()


def test_within_thirty_nights_each_journal_is_replayed_whole_once_and_older_damage_is_found(
    ledger: Reconciled, night: int
) -> None:
    ledger.change_entry("t-14", "dave", balance_after=7)
    reports = [ledger.run(night + number) for number in range(30)]
    assert {report["accounts_checked"] for report in reports} == {4}
    replayed = [report["accounts_replayed_whole"] for report in reports]
    nights_of_dave = sum(bool(report["mismatches"]) for report in reports)
    assert sum(replayed) == 3 + nights_of_dave
    assert accounts_in(mismatches(reports[-1])) == {"dave"}
    assert min(days_of(ledger)) > day_of(night)


def test_an_event_can_have_all_journals_replayed_whole(ledger: Reconciled, night: int) -> None:
    assert counts(ledger.run(night, whole=True)) == (4, 4, 0)
    assert days_of(ledger) == {day_of(night)}
    assert counts(ledger.run(night + 1, whole=False)) == (4, 0, 0)


@pytest.mark.parametrize("whole", ["yes", 1, None, []])
def test_an_event_that_says_whole_otherwise_is_refused_and_the_night_can_be_done(
    ledger: Reconciled, whole: Any
) -> None:
    with pytest.raises(InvalidEvent, match=r"^whole: expected true or false, got "):
        run_job(ledger.new_process(), event(0, whole=whole))
    assert ledger.run(0)["accounts_checked"] == 4


def test_holds_and_reversals_are_replayed_from_the_checkpoint_without_a_query_of_the_reversals(
    held: Reconciled, night_of_held: int
) -> None:
    assert held.checkpoints["ann"]["holds"] == held.by_account(held.tables.accounts)["ann"]["holds"] != {}
    held.post(*NEW_HELD)
    assert counts(held.run(night_of_held)) == (2, 0, 0)
    assert held.requests["Query reversals"] == 0
    assert held.requests["BatchGetItem accounts journal reversals"] == 2
    assert held.requests["BatchGetItem journal"] == 0, "an entry that is read by itself"
    assert not held.late_checkpoints()
    held.run(night_of_held + 1, whole=True)
    assert (held.requests["Query reversals"], held.requests["Query journal"]) == (2, 2), "one of each for an account"


# --- damage -----------------------------------------------------------------------------------------------


AT_ONCE = {"a changed balance", "an account's version that jumped", "an account of a version that no journal has"}
"""The damage that the next night finds. All other damage is in entries from before the checkpoints."""
WITH_NEW_ENTRIES = AT_ONCE | {"a version gap"}
"""The damage that the next night finds after new entries of the accounts."""
TRIED = [*sorted(WITH_NEW_ENTRIES), "a missing entry", "a wrong decision", "a transfer of one side"]
SAMPLED = {"a changed balance", "a version gap"}
"""Without new entries: one that the next night finds, and one that it doesn't."""


@pytest.mark.parametrize(
    ("planted", "posted"),
    [
        *((each, NEW) for each in TRIED),
        *(pytest.param(each, [], marks=() if each in SAMPLED else pytest.mark.exhaustive) for each in TRIED),
    ],
)
def test_damage_is_found_at_once_or_by_the_whole_replay_and_then_each_night_until_it_is_mended(
    ledger: Reconciled, night: int, planted: str, posted: list[Body]
) -> None:
    plant, expected = PLANTED[planted]
    ledger.post(*posted)
    sound = ledger.stored()
    plant(ledger)
    accounts = accounts_in(expected)
    assert found(ledger, night) == (accounts if planted in (WITH_NEW_ENTRIES if posted else AT_ONCE) else set())
    for number, fields in enumerate([{"whole": True}, {}], 1):
        assert found(ledger, night + number, **fields) == accounts
        assert ledger.late_checkpoints() >= accounts
    ledger.restore(sound)
    assert not found(ledger, night + 3)
    assert not ledger.late_checkpoints()
    assert ledger.run(night + 4)["accounts_replayed_whole"] == 0


change = later(Reconciled.change_checkpoint)
WRONG: dict[str, tuple[Plant, str]] = {
    "a balance": (change("alice", balance=7), "alice: wrong checkpoint: version 6"),
    "an earlier time": (
        change("alice", posted_at="2020-01-01T00:00:00.000+00:00"),
        "alice: wrong checkpoint: version 6",
    ),
    "no time": (change("alice", posted_at=""), "alice: wrong checkpoint: version 6"),
    "a lower version": (change("alice", version=5), "alice: wrong checkpoint: version 5"),
    "a higher version": (change("alice", version=9), "alice: wrong checkpoint: it is of"),
    "a version of 0": (change("alice", version=0), ""),
    "a day in the future": (change("alice", whole_on="2030-01-01"), ""),
    "unreadable": (change("alice", balance="7"), ""),
    "none": (lambda ledger: ledger.delete_checkpoint("alice"), ""),
}


@after_new_entries
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_checkpoint_is_found_or_replaced(
    ledger: Reconciled, night: int, wrong: str, posted: list[Body]
) -> None:
    plant, sentence = WRONG[wrong]
    plant(ledger)
    ledger.post(*posted)
    report = ledger.run(night)
    if posted and wrong in ("an earlier time", "no time"):  # No decision depends on it.
        assert counts(report) == (4, 0, 0)
    else:
        assert counts(report) == (4, 1, bool(sentence))
        assert [each[: len(sentence)] for each in report["first_mismatches"]] == ([sentence] if sentence else [])
        assert ("alice" in ledger.checkpoints) == (not sentence)
    assert counts(ledger.run(night + 1))[1:] == (("alice" in ledger.late_checkpoints()) or report["mismatches"], 0)
    assert not ledger.late_checkpoints()


def test_no_night_writes_to_an_account_or_to_a_journal(ledger: Reconciled, night: int) -> None:
    before = ledger.stored()
    ledger.change_checkpoint("alice", balance=7)
    for number in range(3):
        ledger.run(night + number, whole=number == 2)
    assert ledger.stored() == before


NEW_DAMAGE: dict[str, Plant] = {
    "deleted": delete_reversed("x-1", "ann"),
    "a lowered count": change_reversed("x-1", "ann", version=2),
    "a raised count and a lowered sum": change_reversed("x-1", "ann", version=9, amount=1),
    "a lowered sum": change_reversed("n-1", "ann", amount=17),
    "another sum of holds": change_entry("n-2", "ann", held_after=4),
    "a changed account": change_account("ann", held=1),
}


@pytest.mark.parametrize("damage", NEW_DAMAGE)
def test_damage_to_holds_and_reversals_of_the_day_is_found_on_the_next_night(
    held: Reconciled, night_of_held: int, damage: str
) -> None:
    held.post(*NEW_HELD)
    NEW_DAMAGE[damage](held)
    assert found(held, night_of_held)


# --- the index --------------------------------------------------------------------------------------------


LATE: dict[str, dict[str, Any]] = {
    "one entry late for a read": {"hidden": {7}, "reads": 1},
    "the newest late for ever": {"hidden": set(range(9, 99))},
    "all late for ever": {"hidden": set(range(99))},
    "a hole": {"hidden": {8}},
    "away": {"error": AWAY},
    "throttled": {"error": THROTTLED},
}


@pytest.mark.parametrize("late", LATE)
def test_a_late_index_is_no_mismatch_and_nobody_is_skipped(ledger: Reconciled, night: int, late: str) -> None:
    ledger.post(*NEW, *(payment(f"m-{number}", -1, name) for number in range(3) for name in ("alice", "bob", "dave")))
    vars(ledger.index).update(LATE[late], limits={"index": 2, "table": 2})
    report = ledger.run(night)
    assert (counts(report), mismatches(report)) == ((4, 0, 0), "")
    assert not ledger.late_checkpoints()


@pytest.mark.parametrize("error", [None, AWAY], ids=["there", "away"])
def test_a_new_entry_that_is_damaged_is_found_at_once(
    ledger: Reconciled, night: int, error: tuple[str, str] | None
) -> None:
    ledger.post(*NEW)
    ledger.index.error = error
    ledger.delete_entry("n-1", "alice")
    ledger.put_entry(ledger.entry("n-2", "dave") | {"transaction_id": "n-2-again"})
    ledger.change_entry("n-3", "carol", posted_at=ledger.entry("t-7", "bob")["posted_at"])
    report = ledger.run(night)
    assert accounts_in(mismatches(report)) == {"alice", "bob", "carol", "dave"}
    assert report["accounts_replayed_whole"] == 4
