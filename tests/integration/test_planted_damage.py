"""The nightly reconciliation finds each planted damage and nothing else, in short journals and in long ones."""

import itertools

import pytest

from tests.support.bodies import payment, reverse, transfer
from tests.support.planted import BOOKS, HELD_BOOKS, HELD_PLANTED, PLANTED
from tests.support.reconciling import Reconciled, filled, in_pages, mismatches

EACH = ("nothing", "nothing held", *PLANTED, *HELD_PLANTED)
LONG = [
    pytest.param(each, True, marks=[] if number % 8 == 0 else pytest.mark.exhaustive)
    for number, each in enumerate(EACH)
]
"""A page is replayed as a short journal is: a sample of what may be planted is enough."""


@pytest.mark.parametrize(("planted", "long"), [*((each, False) for each in EACH), *LONG])
def test_what_is_planted_is_found_and_nothing_else(
    reconciled: Reconciled, monkeypatch: pytest.MonkeyPatch, planted: str, long: bool
) -> None:
    """Of a long journal the first page with a mismatch is the last that is replayed. Each page has three entries."""
    if long:
        in_pages(reconciled, monkeypatch)
    held = planted in HELD_PLANTED or planted == "nothing held"
    ledger = filled(reconciled, HELD_BOOKS if held else BOOKS)
    plant, expected = (PLANTED | HELD_PLANTED).get(planted, (lambda _: None, ""))
    plant(ledger)
    found = mismatches(ledger.run())
    if not long:
        assert found == expected
        return
    kinds, expected_kinds = (
        {name: set(what.split(", ")) for name, what in (each.split(": ") for each in given.split("; ") if each)}
        for given in (found, expected)
    )
    assert kinds.keys() == expected_kinds.keys()
    assert all(kinds[name] & expected_kinds[name] for name in kinds)


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
def test_while_transactions_go_on_nothing_is_found(
    reconciled: Reconciled, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    """A payment and a transfer are posted before each third query of a journal: between an account and its entries."""
    ledger = filled(reconciled, BOOKS)
    if long:
        in_pages(ledger, monkeypatch)
    queries = itertools.count()

    def post(account_id: str) -> None:
        if (number := next(queries)) % 3 == 0:
            ledger.post(payment(f"p-{number}", 1, account_id), transfer(f"x-{number}", "0.01", "bob", "alice"))

    ledger.before_query = post
    for night in range(4):
        report = ledger.run(night, whole=night % 2 == 0)
        assert (report["accounts_checked"], mismatches(report)) == (4, "")
    assert next(queries) >= 16  # one for each account and night at least; how many more is up to the threads
    ledger.before_query = lambda account_id: None
    assert mismatches(ledger.run(4)) == ""
    assert not ledger.late_checkpoints()


@pytest.fixture
def held(reconciled: Reconciled) -> Reconciled:
    return filled(reconciled, HELD_BOOKS)


def test_the_reversals_of_a_long_journal_are_known_from_one_invocation_to_the_next(
    held: Reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query takes so long that an invocation reads few pages."""
    in_pages(held, monkeypatch)
    held.query_seconds = 30
    assert held.run_until_done().count("Continued") > 2
    assert mismatches(held.report()) == ""


@pytest.mark.parametrize(
    "pages", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["whole", "long journals"]
)
def test_reversals_during_the_replay_are_no_mismatch(
    held: Reconciled, monkeypatch: pytest.MonkeyPatch, pages: bool
) -> None:
    """Before each query of Ann's a reversal of each of her transactions is posted: the table is ahead of the replay."""
    if pages:
        in_pages(held, monkeypatch)
    numbers = itertools.count()

    def post(account_id: str) -> None:
        number = next(numbers) if account_id == "ann" else None
        reversed_ids = ("x-1", "p-1", "q-2", "r-2") if number is not None else ()
        held.post(*(reverse(f"d-{number}-{of}", "0.01", "ann", of) for of in reversed_ids))

    held.before_query = post
    assert mismatches(held.run()) == ""
    assert held.reversed("q-2", "ann")["version"] == next(numbers) > 1


def test_an_item_that_is_newer_than_the_replay_does_not_hide_another(held: Reconciled) -> None:
    """An item of a transaction that was never reversed is found, although the sums can't be compared."""
    numbers = itertools.count()

    def post(account_id: str) -> None:
        if account_id == "ann":
            held.post(reverse(f"d-{next(numbers)}", "0.01", "ben", "q-1", of_account_id="ann"))

    held.change_reversed("h-3", "ann", account_version=5, version=30)
    held.before_query = post
    [sentence] = held.run()["first_mismatches"]
    assert sentence.startswith("ann: wrong reversals: the table Reversals has 33 to ")
