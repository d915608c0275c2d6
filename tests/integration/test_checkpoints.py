"""Nights that go on from checkpoints, on both engines: their costs, what they find, and a late index."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from itertools import chain, repeat
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.late_index import AWAY, THROTTLED
from tests.support.reconciling import BOOKS, FIRST_NIGHT, PLANTED, Bank, event, payment, transfer, without_pauses
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint
from workers import scheduled_jobs as jobs
from workers.job_events import InvalidEvent

# A handler that fails has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")

NEW = [payment("n-1", "alice", 1), payment("n-2", "dave", 1), transfer("n-3", "bob", "carol", 1)]
"""An entry of each account. The transfer is rejected: carol is closed."""


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Bank:
    """No commit is in progress, so that no pause is needed."""
    without_pauses(monkeypatch)
    monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: None)
    bank = Bank(ministack, dynamodb)
    bank.post(BOOKS)
    return bank


@pytest.fixture
def night(bank: Bank) -> int:
    """The first night after one of a sound ledger. On the next six nights no account is due for a whole replay."""
    first = bank.quiet_night()
    report = bank.run(first)
    assert (report["accounts_checked"], report["accounts_replayed_whole"], report["mismatches"]) == (4, 4, 0)
    assert not bank.late_checkpoints()
    bank.requests.clear()
    return first + 1


def run(bank: Bank, night: int, **fields: Any) -> dict[str, Any]:
    bank.run_until_done(night, **fields)
    return bank.report(night)


def found(report: dict[str, Any]) -> set[str]:
    """The accounts with mismatches."""
    assert report["accounts_skipped"] == 0
    return {sentence.split(":")[0] for sentence in report["first_mismatches"]}


# --- costs ------------------------------------------------------------------------------------------------


def test_an_unchanged_account_costs_neither_a_query_nor_a_write(bank: Bank, night: int) -> None:
    report = bank.run(night)
    assert (report["accounts_checked"], report["accounts_replayed_whole"], report["mismatches"]) == (4, 0, 0)
    requests = {name: count for name, count in bank.requests.items() if "locks" not in name}
    assert requests.pop("TransactWriteItems") == 1, "the part of the report"
    assert requests == {"Scan accounts": 1, "BatchGetItem checkpoints": 1}


def test_new_entries_cost_one_query_of_the_index_and_the_whole_journal_none(bank: Bank, night: int) -> None:
    bank.post([payment(f"n-{number}", "alice", 1) for number in range(12)])
    report = bank.run(night)
    assert (report["accounts_checked"], report["accounts_replayed_whole"], report["mismatches"]) == (4, 0, 0)
    requests = {name: count for name, count in bank.requests.items() if name.startswith(("Query", "BatchWrite"))}
    assert requests == {"Query index": 1, "BatchWriteItem checkpoints": 1}
    assert not bank.late_checkpoints()
    bank.requests.clear()
    assert bank.run(night + 1)["accounts_replayed_whole"] == 0
    assert not any(name.startswith(("Query", "BatchWrite")) for name in bank.requests)


def test_an_account_that_is_new_is_replayed_whole_and_then_no_more(bank: Bank, night: int) -> None:
    opening = {"type": "open_account", "transaction_id": "open", "currency": "EUR", "overdraft_limit": 0}
    bank.post([opening | {"account_id": "erin"}])
    assert bank.run(night)["accounts_replayed_whole"] == 1
    assert bank.checkpoints()["erin"]["whole_on"] == (FIRST_NIGHT + timedelta(days=night)).date().isoformat()
    assert not bank.late_checkpoints()


def test_within_thirty_nights_each_journal_is_replayed_whole_once(bank: Bank, night: int) -> None:
    reports = [bank.run(night + number) for number in range(30)]
    assert sum(report["accounts_replayed_whole"] for report in reports) == 4
    assert {report["accounts_checked"] for report in reports} == {4}
    after = (FIRST_NIGHT + timedelta(days=night)).date().isoformat()
    assert min(item["whole_on"] for item in bank.checkpoints().values()) > after


def test_an_event_can_have_all_journals_replayed_whole(bank: Bank, night: int) -> None:
    report = bank.run(night, whole=True)
    assert (report["accounts_checked"], report["accounts_replayed_whole"], report["mismatches"]) == (4, 4, 0)
    day = (FIRST_NIGHT + timedelta(days=night)).date().isoformat()
    assert {item["whole_on"] for item in bank.checkpoints().values()} == {day}
    assert bank.run(night + 1, whole=False)["accounts_replayed_whole"] == 0


@pytest.mark.parametrize("whole", ["yes", 1, None, []])
def test_an_event_that_says_whole_otherwise_is_refused_and_the_night_can_be_done(bank: Bank, whole: Any) -> None:
    with pytest.raises(InvalidEvent, match=r"^whole: expected true or false, got "):
        bank.job().lambda_handler(event(0, whole=whole), Context())
    assert bank.run(0)["accounts_checked"] == 4


# --- damage -----------------------------------------------------------------------------------------------


AT_ONCE = {
    "a changed balance",
    "a changed limit",
    "an account's version that jumped",
    "an account of a version that no journal has",
}
"""The damage that the next night finds. All other damage is in entries from before the checkpoints."""
WITH_NEW_ENTRIES = AT_ONCE | {"a version gap"}
"""The damage that the next night finds after new entries of the accounts."""


@pytest.mark.parametrize("posted", [[], NEW], ids=["unchanged", "new entries"])
@pytest.mark.parametrize("planted", PLANTED)
def test_damage_is_found_at_once_or_by_the_whole_replay_and_then_each_night_until_it_is_mended(
    bank: Bank, night: int, planted: str, posted: list[dict[str, Any]]
) -> None:
    plant, expected = PLANTED[planted]
    bank.post(posted)
    sound = bank.books()
    plant(bank)
    accounts = {beginning.split(":")[0] for beginning in expected}
    at_once = found(run(bank, night))
    assert at_once == (accounts if planted in (WITH_NEW_ENTRIES if posted else AT_ONCE) else set())
    for later, fields in enumerate([{"whole": True}, {}, {}], 1):
        report = run(bank, night + later, **fields)
        assert found(report) == accounts
        assert bank.late_checkpoints() >= accounts
    bank.mend(sound)
    assert not found(run(bank, night + 4))
    assert not bank.late_checkpoints()
    assert bank.run(night + 5)["accounts_replayed_whole"] == 0


@pytest.mark.parametrize(
    "changes", [{"balance": 700}, {"overdraft_limit": -7_000}, {"version": 8}, {"currency": "CHF"}]
)
def test_an_account_that_was_changed_and_then_posted_to_is_found_at_once_and_each_night(
    bank: Bank, night: int, changes: dict[str, Any]
) -> None:
    bank.change_account("alice", **changes)
    bank.post([payment(f"n-{number}", "alice", -1) for number in range(3)])
    for number in range(3):
        assert found(run(bank, night + number)) == {"alice"}


@pytest.mark.parametrize("planted", sorted(PLANTED.keys() - AT_ONCE))
def test_older_damage_is_found_within_thirty_nights(bank: Bank, night: int, planted: str) -> None:
    plant, expected = PLANTED[planted]
    plant(bank)
    nights = [bank.run(night + number) for number in range(30)]
    accounts = {beginning.split(":")[0] for beginning in expected}
    assert set.union(*map(found, nights)) == found(nights[-1]) == accounts


WRONG: dict[str, tuple[Callable[[Bank], None], str]] = {
    "a balance": (lambda bank: bank.change_checkpoint("alice", balance=7), "alice: wrong checkpoint: version 6"),
    "a limit": (
        lambda bank: bank.change_checkpoint("alice", overdraft_limit=-7_000),
        "alice: wrong checkpoint: version 6",
    ),
    # An earlier release leaves such a time at an account, and the checkpoint is a copy of the account.
    "an earlier time": (
        lambda bank: bank.change_checkpoint("alice", posted_at="2020-01-01T00:00:00.000+00:00"),
        "",
    ),
    "no time": (lambda bank: bank.change_checkpoint("alice", posted_at=""), "alice: wrong checkpoint: version 6"),
    "a lower version": (lambda bank: bank.change_checkpoint("alice", version=5), "alice: wrong checkpoint: version 5"),
    "a higher version": (lambda bank: bank.change_checkpoint("alice", version=9), "alice: wrong checkpoint: it is of"),
    "a version of 0": (lambda bank: bank.change_checkpoint("alice", version=0), ""),
    "a day in the future": (lambda bank: bank.change_checkpoint("alice", whole_on="2030-01-01"), ""),
    "unreadable": (lambda bank: bank.change_checkpoint("alice", balance="7"), ""),
    "no day": (lambda bank: bank.change_checkpoint("alice", whole_on=Decimal(7)), ""),
    "none": (lambda bank: bank.delete_checkpoint("alice"), ""),
}


@pytest.mark.parametrize("posted", [[], NEW], ids=["unchanged", "new entries"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_checkpoint_is_found_or_replaced(
    bank: Bank, night: int, wrong: str, posted: list[dict[str, Any]]
) -> None:
    change, sentence = WRONG[wrong]
    change(bank)
    bank.post(posted)
    report = bank.run(night)
    if posted and wrong in ("an earlier time", "no time"):  # No decision depends on it.
        assert report["mismatches"] == 0
        assert not bank.late_checkpoints()
        return
    assert (report["accounts_checked"], report["accounts_replayed_whole"]) == (4, 1)
    assert [each[: len(sentence)] for each in report["first_mismatches"]] == ([sentence] if sentence else [])
    if sentence:
        assert "alice" not in bank.checkpoints()
        report = bank.run(night + 1)
        assert (report["accounts_replayed_whole"], report["mismatches"]) == (1, 0)
    assert not bank.late_checkpoints()
    assert bank.run(night + 2)["accounts_replayed_whole"] == 0


@pytest.mark.parametrize("posted", [[], NEW], ids=["unchanged", "new entries"])
def test_a_checkpoint_of_a_later_time_is_replaced_and_found_if_an_entry_contradicts_it(
    bank: Bank, night: int, posted: list[dict[str, Any]]
) -> None:
    """An account with an earlier time may be one that an earlier release wrote last."""
    bank.change_checkpoint("alice", posted_at="2130-01-01T00:00:00.000+00:00")
    bank.post(posted)
    assert found(bank.run(night)) == ({"alice"} if posted else set())
    bank.run(night + 1)
    assert not bank.late_checkpoints()


def test_no_night_writes_to_an_account_or_to_a_journal(bank: Bank, night: int) -> None:
    before = bank.books()
    bank.change_checkpoint("alice", balance=7)
    for number in range(3):
        bank.run(night + number, whole=number == 2)
    assert bank.books() == before


# --- the index --------------------------------------------------------------------------------------------


def refused(code: str, message: str) -> Callable[[], None]:
    def refuse() -> None:
        raise ClientError({"Error": {"Code": code, "Message": message}}, "Query")

    return refuse


def without_newest(count: int, reads: Iterator[bool]) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda items: items[:-count] if next(reads) else items


def without_versions(*versions: int) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda items: [item for item in items if item["account_version"] not in versions]


LATE: dict[str, Callable[[Bank], None]] = {
    "one entry late for a read": lambda bank: setattr(
        bank, "change_page", without_newest(1, chain([True], repeat(False)))
    ),
    "two entries late for five reads": lambda bank: setattr(
        bank, "change_page", without_newest(2, chain(repeat(True, 5), repeat(False)))
    ),
    "the newest late for ever": lambda bank: setattr(bank, "change_page", without_newest(1, repeat(True))),
    "all late for ever": lambda bank: setattr(bank, "change_page", without_newest(100, repeat(True))),
    "a hole": lambda bank: setattr(bank, "change_page", without_versions(8)),
    "away": lambda bank: setattr(bank, "before_index", refused(*AWAY)),
    "throttled": lambda bank: setattr(bank, "before_index", refused(*THROTTLED)),
}


@pytest.mark.parametrize("limit", [None, 2], ids=["one page", "pages of two"])
@pytest.mark.parametrize("late", LATE)
def test_a_late_index_is_no_mismatch_and_nobody_is_skipped(
    bank: Bank, night: int, late: str, limit: int | None
) -> None:
    bank.post(NEW + [payment(f"m-{number}", name, -1) for number in range(3) for name in ("alice", "bob", "dave")])
    LATE[late](bank)
    bank.limit = limit
    report = run(bank, night)
    assert (report["accounts_checked"], report["accounts_skipped"], report["first_mismatches"]) == (4, 0, [])
    assert report["accounts_replayed_whole"] == 0
    assert not bank.late_checkpoints()
    assert bank.run(night + 1)["mismatches"] == 0


def test_with_an_index_that_is_away_what_is_planted_is_found(bank: Bank, night: int) -> None:
    bank.post(NEW)
    bank.change_entry("alice", "n-1", amount=2)
    bank.before_index = refused(*AWAY)
    assert found(run(bank, night)) == {"alice"}


def test_a_new_entry_that_is_damaged_is_found_at_once(bank: Bank, night: int) -> None:
    bank.post(NEW)
    bank.delete_entry("alice", "n-1")
    bank.put_entry(bank.entry("dave", "n-2") | {"transaction_id": "n-2-again"})
    bank.change_entry("carol", "n-3", posted_at=bank.entry("bob", "t-7")["posted_at"])
    report = run(bank, night)
    assert found(report) == {"alice", "bob", "carol", "dave"}
    assert report["accounts_replayed_whole"] == 4
