"""The nightly reconciliation of accounts with holds and reversals: it finds each planted error, and no other."""

import random
import time
from types import SimpleNamespace
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger import reconciler
from tests.support.reconciling import Bank, opening, payment, transfer, without_pauses
from tests.support.reconciling_holds import (
    HELD_BOOKS,
    HELD_PLANTED,
    change_reversed,
    delete_reversed,
    message,
    reversed_item,
)
from tools.local_aws.server import Endpoint
from workers import scheduled_jobs as jobs


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Bank:
    without_pauses(monkeypatch)  # No commit is in progress.
    monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: None)
    return Bank(ministack, dynamodb)


@pytest.fixture
def held(bank: Bank) -> Bank:
    bank.post(HELD_BOOKS)
    return bank


def found(bank: Bank, night: int = 0) -> list[str]:
    bank.run_until_done(night)
    report = bank.report(night)
    assert report["accounts_skipped"] == 0
    return report["first_mismatches"]


def in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each journal is long: it is replayed page by page."""
    monkeypatch.setattr(reconciler, "IN_PARALLEL", reconciler.IN_PARALLEL._replace(entries=2))


def test_a_whole_replay_reads_the_reversals_of_an_account_in_one_request(held: Bank) -> None:
    assert found(held) == []
    assert held.requests["Query reversals"] == 2
    assert held.requests["Query journal"] == 2
    assert held.requests["BatchGetItem accounts journal reversals"] == 2
    assert held.requests["BatchGetItem journal"] == 0, "an entry that is read by itself"


@pytest.mark.parametrize("planted", HELD_PLANTED)
def test_it_finds_what_is_planted(held: Bank, planted: str) -> None:
    plant, expected = HELD_PLANTED[planted]
    plant(held)
    sentences = found(held)
    for beginning in expected:
        assert any(sentence.startswith(beginning) for sentence in sentences), f"{beginning!r} isn't in {sentences}"
    accounts = {beginning.split(":")[0] for beginning in expected}
    assert {sentence.split(":")[0] for sentence in sentences} <= accounts


IN_PAGES = [
    "a hold that is gone",
    "a hold's entry deleted",
    "more reversed before a reversal",
    "a raised count",
    "what was reversed deleted",
    "a transaction that was never reversed",
    "one that was never reversed, of a later version",
    "what was reversed unreadable",
]


@pytest.mark.parametrize("planted", IN_PAGES)
def test_it_finds_what_is_planted_in_long_journals(held: Bank, planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_pages(monkeypatch)
    held.limit = 3
    plant, expected = HELD_PLANTED[planted]
    plant(held)
    assert {sentence.split(":")[0] for sentence in found(held)} == {beginning.split(":")[0] for beginning in expected}


def test_the_reversals_of_a_long_journal_are_known_from_one_invocation_to_the_next(
    held: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the clock of the deadlines, a query takes so long that an invocation reads few pages."""
    in_pages(monkeypatch)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + held.waited_seconds)
    monkeypatch.setattr("conditional_writes.deadline.time", clock)
    held.limit, held.query_seconds = 3, 30
    outcomes = held.run_until_done()
    assert outcomes.count("Continued") > 2
    assert (held.report()["accounts_skipped"], held.report()["first_mismatches"]) == (0, [])


# --- incremental ------------------------------------------------------------------------------------------

NEW = [
    message("post_hold", "n-1", "ann", hold_id="h-1"),
    message("hold", "n-2", "ann", amount=3, expires_at="2026-06-01T00:00:00Z"),
    message("expire_hold", "n-3", "ann", hold_id="h-4", as_of="2026-06-01T00:00:00Z"),
    message("expire_hold", "n-4", "ann", hold_id="n-2", as_of="2026-06-01T00:00:00Z"),
    message("reverse", "n-5", "ben", of_transaction_id="x-1", amount=1),
    message("reverse", "n-6", "ann", of_transaction_id="n-1"),
]


def test_new_entries_are_replayed_from_the_checkpoint_without_a_query_of_the_reversals(held: Bank) -> None:
    night = held.quiet_night()
    assert found(held, night) == []
    assert held.checkpoints()["ann"]["holds"] == held.accounts()["ann"]["holds"] != {}
    held.post(NEW)
    held.requests.clear()
    assert found(held, night + 1) == []
    assert held.report(night + 1)["accounts_replayed_whole"] == 0
    assert held.requests["Query reversals"] == 0
    assert not held.late_checkpoints()


def test_a_checkpoint_of_a_release_without_holds_leads_on(bank: Bank) -> None:
    """The account had neither holds nor decimals when it was saved, and nothing but its own attributes."""
    bank.post([opening("ann") | {"currency": "XAU"}, payment("p-1", "ann", 100)])
    night = bank.quiet_night()
    assert found(bank, night) == []
    assert not {"held", "holds", "decimal_places"} & bank.checkpoints()["ann"].keys()
    bank.post([message("hold", "h-1", "ann", amount=30), message("reverse", "r-1", "ann", of_transaction_id="p-1")])
    assert found(bank, night + 1) == []
    assert bank.report(night + 1)["accounts_replayed_whole"] == 0


def test_a_checkpoint_that_an_earlier_release_saved_without_the_decimals_is_replaced(held: Bank) -> None:
    """It runs beside this one for a while. The account is replayed whole once, and nothing is wrong."""
    night = held.quiet_night()
    assert found(held, night) == []
    saved = held.checkpoints()["ben"]
    held.delete_checkpoint("ben")
    without = {name: value for name, value in saved.items() if name != "decimal_places"}
    held.client.put_item(TableName=held.tables.checkpoints, Item=to_dynamodb(without))
    assert found(held, night + 1) == []
    assert held.report(night + 1)["accounts_replayed_whole"] == 1
    assert held.checkpoints()["ben"]["decimal_places"] == 2


@pytest.mark.parametrize(
    "plant",
    [
        lambda bank: delete_reversed(bank, "ann", "x-1"),
        lambda bank: change_reversed(bank, "ann", "x-1", version=2),
        lambda bank: change_reversed(bank, "ann", "n-1", amount=17),
        lambda bank: bank.change_entry("ann", "n-2", held_after=4),
        lambda bank: bank.change_account("ann", held=1),
    ],
    ids=["deleted", "a lowered count", "a lowered sum", "another sum of holds", "a changed account"],
)
def test_damage_to_new_entries_is_found_on_the_next_night(held: Bank, plant: Any) -> None:
    night = held.quiet_night()
    assert found(held, night) == []
    held.post(NEW)
    plant(held)
    assert found(held, night + 1)


# --- while others post ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pages", [False, True], ids=["whole", "long journals"])
def test_reversals_during_the_replay_are_no_mismatch(held: Bank, monkeypatch: pytest.MonkeyPatch, pages: bool) -> None:
    """Before each query of Ann's a reversal of each of her transactions is posted: the table is ahead of the replay."""
    if pages:
        in_pages(monkeypatch)
    numbers = iter(range(1_000))

    def post(account_id: str) -> None:
        if account_id == "ann":
            number = next(numbers)
            held.post(
                [
                    message("reverse", f"d-{number}-{of}", "ann", of_transaction_id=of, amount="0.01")
                    for of in ("x-1", "p-1", "q-2", "r-2")
                ]
            )

    held.before_query = post
    assert found(held) == []
    assert next(numbers) > 1
    assert reversed_item(held, "ann", "q-2")["version"] > 1


def test_an_item_that_is_newer_than_the_replay_does_not_hide_another(held: Bank) -> None:
    """An item of a transaction that was never reversed is found, although the sums can't be compared."""
    numbers = iter(range(1_000))

    def post(account_id: str) -> None:
        if account_id == "ann":
            held.post([message("reverse", f"d-{next(numbers)}", "ben", of_transaction_id="q-1", amount="0.01")])

    change_reversed(held, "ann", "h-3", account_version=5, version=30)
    held.before_query = post
    [sentence] = found(held)
    assert sentence.startswith("ann: wrong reversals: the table Reversals has 33 to ")


# --- any history ------------------------------------------------------------------------------------------


def history(choose: random.Random, length: int) -> list[dict[str, Any]]:
    """Transactions of any type on three accounts, most of which refer to earlier ones."""
    names = ["ann", "ben", "cat"]
    messages = [opening(name, limit=-choose.choice([0, 50])) for name in names]
    messages += [payment(f"start-{name}", name, 200) for name in names]
    placed: list[tuple[str, str]] = []
    posted = [(f"start-{name}", name) for name in names]
    for number in range(length):
        name, other = choose.sample(names, 2)
        amount, this = choose.choice(["0.01", "7", "12.5", "60", "150"]), f"t-{number:03}"
        part = {"amount": amount} if choose.random() < 0.6 else {}
        hold_id, holder = choose.choice(placed or [("t-000", name)])
        reversed_id, side = choose.choice(posted)
        payee = {"to_account_id": choose.choice([each for each in names if each != holder])}
        time = f"2026-0{choose.randint(1, 9)}-01T00:00:00Z"
        messages.append(
            choose.choice(
                [
                    payment(this, name, choose.choice([amount, f"-{amount}"])),
                    transfer(this, name, other, amount),
                    message("hold", this, name, amount=amount, expires_at=time),
                    message("post_hold", this, holder, hold_id=hold_id, final=choose.random() < 0.5, **part),
                    message("post_hold", this, holder, hold_id=hold_id, **part, **payee),
                    message("void_hold", this, holder, hold_id=hold_id),
                    message("expire_hold", this, holder, hold_id=hold_id, as_of=time),
                    message("reverse", this, side, of_transaction_id=reversed_id, **part),
                    message("reverse", this, side, of_transaction_id=reversed_id, amount="0.01"),
                ]
            )
        )
        last = messages[-1]
        if last.get("type") == "hold":
            placed.append((this, name))
        named = [last[field] for field in ("account_id", "from_account_id", "to_account_id") if field in last]
        posted.append((this, choose.choice(named)))
    return messages


@pytest.mark.parametrize("seed", range(4))
def test_any_history_is_sound_whole_and_from_checkpoints_and_in_long_journals(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    messages = history(random.Random(seed), 160)
    half = len(messages) // 2
    bank.post(messages[:half])
    night = bank.quiet_night()
    assert found(bank, night) == []
    bank.post(messages[half:])
    assert found(bank, night + 1) == []
    assert bank.report(night + 1)["accounts_replayed_whole"] == 0
    for name in bank.accounts():
        bank.delete_checkpoint(name)
    in_pages(monkeypatch)
    assert found(bank, night + 2) == []
    assert bank.report(night + 2)["accounts_replayed_whole"] == 3
    kinds = {from_dynamodb(item)["request"]["type"] for item in bank.books()[bank.tables.journal]}
    assert kinds >= {"hold", "post_hold", "void_hold", "expire_hold", "reverse"}
