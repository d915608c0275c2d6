"""The nightly reconciliation of accounts with holds and reversals: it finds each planted error, and no other."""

import itertools

import pytest

from ledger import reconciler
from tests.support.bodies import (
    expire_hold,
    hold,
    opening,
    payment,
    post_hold,
    reverse,
)
from tests.support.planted import (
    HELD_BOOKS,
    HELD_PLANTED,
    Plant,
    change_account,
    change_entry,
    change_reversed,
    delete_reversed,
)
from tests.support.reconciling import Reconciled, filled, mismatches
from tools.local_aws.server import Endpoint


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Reconciled:
    return Reconciled(aws, dynamodb, monkeypatch)


@pytest.fixture
def held(ledger: Reconciled) -> Reconciled:
    return filled(ledger, HELD_BOOKS)


def found(ledger: Reconciled, night: int = 0) -> str:
    return mismatches(ledger.run(night))


def in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each journal is long: it is replayed page by page."""
    monkeypatch.setattr(reconciler, "IN_PARALLEL", reconciler.IN_PARALLEL._replace(entries=2))


def test_a_whole_replay_reads_the_reversals_of_an_account_in_one_request(held: Reconciled) -> None:
    assert found(held) == ""
    assert held.requests["Query reversals"] == 2
    assert held.requests["Query journal"] == 2
    assert held.requests["BatchGetItem accounts journal reversals"] == 2
    assert held.requests["BatchGetItem journal"] == 0, "an entry that is read by itself"


@pytest.mark.parametrize("planted", HELD_PLANTED)
def test_it_finds_what_is_planted_and_nothing_else(held: Reconciled, planted: str) -> None:
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
def test_it_finds_what_is_planted_in_long_journals(
    held: Reconciled, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page with a mismatch is the last that is looked at."""
    in_pages(monkeypatch)
    held.index.limits = {"index": 3, "table": 3}
    plant, expected = HELD_PLANTED[planted]
    plant(held)
    accounts = [each.split(":")[0] for each in expected.split("; ")]
    assert [each.split(":")[0] for each in found(held).split("; ")] == accounts


def test_the_reversals_of_a_long_journal_are_known_from_one_invocation_to_the_next(
    held: Reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query takes so long that an invocation reads few pages."""
    in_pages(monkeypatch)
    held.index.limits, held.query_seconds = {"index": 3, "table": 3}, 30
    assert held.run_until_done().count("Continued") > 2
    assert mismatches(held.report()) == ""


# --- incremental ------------------------------------------------------------------------------------------

NEW = [
    post_hold("n-1", None, "ann", "h-1"),
    hold("n-2", 3, "ann", expires_at="2026-06-01T00:00:00Z"),
    expire_hold("n-3", "ann", hold_id="h-4", as_of="2026-06-01T00:00:00Z"),
    expire_hold("n-4", "ann", hold_id="n-2", as_of="2026-06-01T00:00:00Z"),
    reverse("n-5", 1, "ben", "x-1"),
    reverse("n-6", None, "ann", "n-1"),
]


def test_new_entries_are_replayed_from_the_checkpoint_without_a_query_of_the_reversals(held: Reconciled) -> None:
    night = held.quiet_night()
    assert found(held, night) == ""
    assert held.checkpoints["ann"]["holds"] == held.by_account(held.tables.accounts)["ann"]["holds"] != {}
    held.post(*NEW)
    held.calls.clear()
    assert found(held, night + 1) == ""
    assert held.report(night + 1)["accounts_replayed_whole"] == 0
    assert held.requests["Query reversals"] == 0
    assert not held.late_checkpoints()


def test_a_checkpoint_of_a_release_without_holds_leads_on(ledger: Reconciled) -> None:
    """The account had neither holds nor decimals when it was saved, and nothing but its own attributes."""
    ledger.post(opening("ann", currency="XAU"), payment("p-1", 100, "ann"))
    night = ledger.quiet_night()
    assert found(ledger, night) == ""
    assert not {"held", "holds", "decimal_places"} & ledger.checkpoints["ann"].keys()
    ledger.post(hold("h-1", 30, "ann"), reverse("r-1", None, "ann", "p-1"))
    assert found(ledger, night + 1) == ""
    assert ledger.report(night + 1)["accounts_replayed_whole"] == 0


NEW_DAMAGE: dict[str, Plant] = {
    "deleted": delete_reversed("x-1", "ann"),
    "a lowered count": change_reversed("x-1", "ann", version=2),
    "a lowered sum": change_reversed("n-1", "ann", amount=17),
    "another sum of holds": change_entry("n-2", "ann", held_after=4),
    "a changed account": change_account("ann", held=1),
}


@pytest.mark.parametrize("damage", NEW_DAMAGE)
def test_damage_to_new_entries_is_found_on_the_next_night(held: Reconciled, damage: str) -> None:
    night = held.quiet_night()
    assert found(held, night) == ""
    held.post(*NEW)
    NEW_DAMAGE[damage](held)
    assert found(held, night + 1)


# --- while others post ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pages", [False, True], ids=["whole", "long journals"])
def test_reversals_during_the_replay_are_no_mismatch(
    held: Reconciled, monkeypatch: pytest.MonkeyPatch, pages: bool
) -> None:
    """Before each query of Ann's a reversal of each of her transactions is posted: the table is ahead of the replay."""
    if pages:
        in_pages(monkeypatch)
    numbers = itertools.count()

    def post(account_id: str) -> None:
        number = next(numbers) if account_id == "ann" else None
        reversed_ids = ("x-1", "p-1", "q-2", "r-2") if number is not None else ()
        held.post(*(reverse(f"d-{number}-{of}", "0.01", "ann", of) for of in reversed_ids))

    held.before_query = post
    assert found(held) == ""
    assert held.reversed("q-2", "ann")["version"] == next(numbers) > 1


def test_an_item_that_is_newer_than_the_replay_does_not_hide_another(held: Reconciled) -> None:
    """An item of a transaction that was never reversed is found, although the sums can't be compared."""
    numbers = itertools.count()

    def post(account_id: str) -> None:
        if account_id == "ann":
            held.post(reverse(f"d-{next(numbers)}", "0.01", "ben", "q-1"))

    held.change_reversed("h-3", "ann", account_version=5, version=30)
    held.before_query = post
    [sentence] = held.run()["first_mismatches"]
    assert sentence.startswith("ann: wrong reversals: the table Reversals has 33 to ")
