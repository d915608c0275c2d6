"""The nightly reconciliation of accounts with holds and reversals: it finds each planted error, and no other."""

import itertools
import random
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb
from ledger import reconciler
from tests.support.planted import (
    HELD_BOOKS,
    HELD_PLANTED,
    Plant,
    change_account,
    change_entry,
    change_reversed,
    delete_reversed,
    of_type,
)
from tests.support.reconciling import Bank, filled, mismatches, opening, payment, transfer
from tools.local_aws.server import Endpoint


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Bank:
    return Bank(ministack, dynamodb, monkeypatch)


@pytest.fixture
def held(bank: Bank) -> Bank:
    return filled(bank, HELD_BOOKS)


def found(bank: Bank, night: int = 0) -> str:
    return mismatches(bank.run(night))


def in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each journal is long: it is replayed page by page."""
    monkeypatch.setattr(reconciler, "IN_PARALLEL", reconciler.IN_PARALLEL._replace(entries=2))


def test_a_whole_replay_reads_the_reversals_of_an_account_in_one_request(held: Bank) -> None:
    assert found(held) == ""
    assert held.requests["Query reversals"] == 2
    assert held.requests["Query journal"] == 2
    assert held.requests["BatchGetItem accounts journal reversals"] == 2
    assert held.requests["BatchGetItem journal"] == 0, "an entry that is read by itself"


@pytest.mark.parametrize("planted", HELD_PLANTED)
def test_it_finds_what_is_planted_and_nothing_else(held: Bank, planted: str) -> None:
    plant, expected = HELD_PLANTED[planted]
    plant(held)
    assert found(held) == expected


IN_PAGES = [
    "a hold that is gone",
    "more reversed before a reversal",
    "a transaction that was never reversed",
    "one that was never reversed, of a later version",
    "what was reversed unreadable",
]


@pytest.mark.parametrize("planted", IN_PAGES)
def test_it_finds_what_is_planted_in_long_journals(held: Bank, planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first page with a mismatch is the last that is looked at."""
    in_pages(monkeypatch)
    held.index.limits = {"index": 3, "table": 3}
    plant, expected = HELD_PLANTED[planted]
    plant(held)
    accounts = [each.split(":")[0] for each in expected.split("; ")]
    assert [each.split(":")[0] for each in found(held).split("; ")] == accounts


def test_the_reversals_of_a_long_journal_are_known_from_one_invocation_to_the_next(
    held: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query takes so long that an invocation reads few pages."""
    in_pages(monkeypatch)
    held.index.limits, held.query_seconds = {"index": 3, "table": 3}, 30
    assert held.run_until_done().count("Continued") > 2
    assert mismatches(held.report()) == ""


# --- incremental ------------------------------------------------------------------------------------------

NEW = [
    of_type("post_hold", "n-1", "ann", hold_id="h-1"),
    of_type("hold", "n-2", "ann", amount=3, expires_at="2026-06-01T00:00:00Z"),
    of_type("expire_hold", "n-3", "ann", hold_id="h-4", as_of="2026-06-01T00:00:00Z"),
    of_type("expire_hold", "n-4", "ann", hold_id="n-2", as_of="2026-06-01T00:00:00Z"),
    of_type("reverse", "n-5", "ben", of_transaction_id="x-1", amount=1),
    of_type("reverse", "n-6", "ann", of_transaction_id="n-1"),
]


def test_new_entries_are_replayed_from_the_checkpoint_without_a_query_of_the_reversals(held: Bank) -> None:
    night = held.quiet_night()
    assert found(held, night) == ""
    assert held.checkpoints()["ann"]["holds"] == held.accounts()["ann"]["holds"] != {}
    held.post(*NEW)
    held.requests.clear()
    assert found(held, night + 1) == ""
    assert held.report(night + 1)["accounts_replayed_whole"] == 0
    assert held.requests["Query reversals"] == 0
    assert not held.late_checkpoints()


def test_a_checkpoint_of_a_release_without_holds_leads_on(bank: Bank) -> None:
    """The account had neither holds nor decimals when it was saved, and nothing but its own attributes."""
    bank.post(opening("ann") | {"currency": "XAU"}, payment("p-1", 100, "ann"))
    night = bank.quiet_night()
    assert found(bank, night) == ""
    assert not {"held", "holds", "decimal_places"} & bank.checkpoints()["ann"].keys()
    bank.post(of_type("hold", "h-1", "ann", amount=30), of_type("reverse", "r-1", "ann", of_transaction_id="p-1"))
    assert found(bank, night + 1) == ""
    assert bank.report(night + 1)["accounts_replayed_whole"] == 0


def test_a_checkpoint_that_an_earlier_release_saved_without_the_decimals_is_replaced(held: Bank) -> None:
    """It runs beside this one for a while. The account is replayed whole once, and nothing is wrong."""
    night = held.quiet_night()
    assert found(held, night) == ""
    held.change_checkpoint("ben", decimal_places=None)
    assert found(held, night + 1) == ""
    assert held.report(night + 1)["accounts_replayed_whole"] == 1
    assert held.checkpoints()["ben"]["decimal_places"] == 2


NEW_DAMAGE: dict[str, Plant] = {
    "deleted": delete_reversed("ann", "x-1"),
    "a lowered count": change_reversed("ann", "x-1", version=2),
    "a lowered sum": change_reversed("ann", "n-1", amount=17),
    "another sum of holds": change_entry("ann", "n-2", held_after=4),
    "a changed account": change_account("ann", held=1),
}


@pytest.mark.parametrize("damage", NEW_DAMAGE)
def test_damage_to_new_entries_is_found_on_the_next_night(held: Bank, damage: str) -> None:
    night = held.quiet_night()
    assert found(held, night) == ""
    held.post(*NEW)
    NEW_DAMAGE[damage](held)
    assert found(held, night + 1)


# --- while others post ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pages", [False, True], ids=["whole", "long journals"])
def test_reversals_during_the_replay_are_no_mismatch(held: Bank, monkeypatch: pytest.MonkeyPatch, pages: bool) -> None:
    """Before each query of Ann's a reversal of each of her transactions is posted: the table is ahead of the replay."""
    if pages:
        in_pages(monkeypatch)
    numbers = itertools.count()

    def post(account_id: str) -> None:
        number = next(numbers) if account_id == "ann" else None
        reversed_ids = ("x-1", "p-1", "q-2", "r-2") if number is not None else ()
        held.post(
            *(of_type("reverse", f"d-{number}-{of}", "ann", of_transaction_id=of, amount="0.01") for of in reversed_ids)
        )

    held.before_query = post
    assert found(held) == ""
    assert held.reversed("ann", "q-2")["version"] == next(numbers) > 1


def test_an_item_that_is_newer_than_the_replay_does_not_hide_another(held: Bank) -> None:
    """An item of a transaction that was never reversed is found, although the sums can't be compared."""
    numbers = itertools.count()

    def post(account_id: str) -> None:
        if account_id == "ann":
            held.post(of_type("reverse", f"d-{next(numbers)}", "ben", of_transaction_id="q-1", amount="0.01"))

    held.change_reversed("ann", "h-3", account_version=5, version=30)
    held.before_query = post
    [sentence] = held.run()["first_mismatches"]
    assert sentence.startswith("ann: wrong reversals: the table Reversals has 33 to ")


# --- any history ------------------------------------------------------------------------------------------


def history(choose: random.Random, length: int) -> list[dict[str, Any]]:
    """Transactions of any type on three accounts, most of which refer to earlier ones."""
    names = ["ann", "ben", "cat"]
    messages = [opening(name, limit=-choose.choice([0, 50])) for name in names]
    messages += [payment(f"start-{name}", 200, name) for name in names]
    placed: list[tuple[str, str]] = [("t-000", "ann")]
    posted = [(f"start-{name}", name) for name in names]
    for number in range(length):
        name, other = choose.sample(names, 2)
        amount, this = choose.choice(["0.01", "7", "12.5", "60", "150"]), f"t-{number:03}"
        part = {"amount": amount} if choose.random() < 0.6 else {}
        (hold_id, holder), (reversed_id, side) = choose.choice(placed), choose.choice(posted)
        payee = {"to_account_id": choose.choice([each for each in names if each != holder])}
        time = f"2026-0{choose.randint(1, 9)}-01T00:00:00Z"
        kinds = [
            payment(this, choose.choice([amount, f"-{amount}"]), name),
            transfer(this, amount, name, other),
            of_type("hold", this, name, amount=amount, expires_at=time),
            of_type("post_hold", this, holder, hold_id=hold_id, final=choose.random() < 0.5, **part),
            of_type("post_hold", this, holder, hold_id=hold_id, **part, **payee),
            of_type("void_hold", this, holder, hold_id=hold_id),
            of_type("expire_hold", this, holder, hold_id=hold_id, as_of=time),
            of_type("reverse", this, side, of_transaction_id=reversed_id, **part),
            of_type("reverse", this, side, of_transaction_id=reversed_id, amount="0.01"),
        ]
        message = choose.choice(kinds)
        messages.append(message)
        placed += [(this, name)] if message.get("type") == "hold" else []
        named = [message[field] for field in ("account_id", "from_account_id", "to_account_id") if field in message]
        posted.append((this, choose.choice(named)))
    return messages


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 8))])
def test_any_history_is_sound_whole_and_from_checkpoints_and_in_long_journals(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    messages = history(random.Random(seed), 160)
    half = len(messages) // 2
    bank.post(*messages[:half])
    night = bank.quiet_night()
    assert found(bank, night) == ""
    bank.post(*messages[half:])
    assert found(bank, night + 1) == ""
    assert bank.report(night + 1)["accounts_replayed_whole"] == 0
    for name in bank.accounts():
        bank.delete(bank.tables.checkpoints, name)
    in_pages(monkeypatch)
    assert found(bank, night + 2) == ""
    assert bank.report(night + 2)["accounts_replayed_whole"] == 3
    kinds = {from_dynamodb(item)["request"]["type"] for item in bank.books()[bank.tables.journal]}
    assert kinds >= {"hold", "post_hold", "void_hold", "expire_hold", "reverse"}
