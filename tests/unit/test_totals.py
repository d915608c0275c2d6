"""Trees of hashes as RFC 6962 defines them, and the sums of what came in and went out."""

import contextlib
from collections.abc import Sequence
from decimal import Decimal

import pytest
from msgspec.structs import replace

from ledger.core.journal import JournalEntry, Outcome
from ledger.core.totals import MOST_CURRENCIES, HashTree, TrialBalance, Turnover, Turnovers, hash_of, node
from ledger.core.transaction_types import HISTORIC
from ledger.core.transaction_types.base import TransactionMessage
from tests.support.samples import NOW, entry_of, payment, transfer
from tools import check_proof
from tools.teller.prove import siblings

LEAVES = [hash_of(str(number)) for number in range(70)]


def top_of(leaves: Sequence[str]) -> str:
    """By the definition in RFC 6962, 2.1: the left side is the largest power of two that is less than the number."""
    if len(leaves) == 1:
        return leaves[0]
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return node(top_of(leaves[:left]), top_of(leaves[left:]))


def test_a_tree_of_any_size_is_that_of_the_definition_and_has_each_leaf() -> None:
    tree = HashTree()
    assert tree.top == ""
    for size, leaf in enumerate(LEAVES, 1):
        tree = tree.with_leaves([leaf])
        leaves = LEAVES[:size]
        assert tree == HashTree().with_leaves(leaves)
        assert (tree.size, len(tree.peaks), tree.top) == (size, size.bit_count(), top_of(leaves))
        for place, each in enumerate(leaves):
            beside = siblings(leaves, place)
            assert check_proof.top(each, place, size, beside) == tree.top
            assert check_proof.top(hash_of("another"), place, size, beside) != tree.top


@pytest.mark.parametrize(("place", "size", "more"), [(5, 5, ""), (-1, 5, ""), (2, 5, "x" * 43), (2, 3, "")])
def test_siblings_of_another_tree_prove_nothing(place: int, size: int, more: str) -> None:
    beside = siblings(LEAVES[:5], 2) + more
    with contextlib.suppress(ValueError):
        assert check_proof.top(LEAVES[2], place, size, beside) != top_of(LEAVES[:5])


SUMS = TrialBalance(
    "2026-03-01T01:57:55.000+00:00",
    {
        "EUR": Turnover(Decimal("100.5"), Decimal(30), Decimal(-1)),
        "CHF": Turnover(Decimal(5), Decimal(5)),
        "JPY": Turnover(Decimal(5), Decimal(6)),
    },
)


def test_sums_that_do_not_agree_are_named_with_their_currency() -> None:
    lost = "EUR: 100.5 came in, 30 went out, and the balances sum to 69.5"
    assert list(SUMS.wrong(double_entry=False)) == [lost]
    assert list(SUMS.wrong(double_entry=True)) == [lost, "JPY: the balances sum to -1, expected 0 in double entry"]
    assert list(SUMS._replace(accounts_left_out=1).wrong(double_entry=True)) == []


def entry(amount: str, message: TransactionMessage | None = None, posted_at: str = NOW) -> JournalEntry:
    outcome = Outcome("POSTED", None, Decimal(amount), Decimal(0), 1, posted_at, "EUR")
    return entry_of(message or payment(1), outcome)


def test_a_part_of_a_unit_comes_in_or_goes_out_a_transfer_moves_it_and_an_imported_history_has_no_sum() -> None:
    half, historic = Decimal("0.5"), entry("0.5")
    historic = replace(historic, request=historic.request | {"type": HISTORIC})
    entries = [entry("0.5"), entry("-0.5"), entry("-0.5", transfer(1)), historic]
    expected = [Turnover(came_in=half), Turnover(went_out=half), Turnover(moved=-half), Turnover()]
    assert [Turnover().with_entry(each) for each in entries] == expected


def test_what_was_before_a_moment_is_known_of_the_moment_that_was_kept_and_of_one_after_the_last_entry() -> None:
    before, then, after = (f"2026-03-0{day}T00:00:00.000+00:00" for day in (1, 2, 3))
    turnovers = Turnovers(then).with_entries(entry("1", posted_at=at) for at in (before, then, after))
    assert turnovers.before == Turnover(came_in=Decimal(1))
    assert turnovers.at(then, after) is turnovers
    assert turnovers.at(after, then).before == turnovers.total == Turnover(came_in=Decimal(3))
    assert turnovers.at(after, after).before is None
    assert turnovers.at(after, after).with_entries([entry("1", posted_at=after)]).since is None


def test_an_account_whose_sum_is_not_known_is_left_out_of_a_report_of_texts() -> None:
    report = TrialBalance(NOW).plus("EUR", None).plus("CHF", Turnover(Decimal(3), Decimal("0.50"))).as_report()
    of_francs = {"came_in": "3", "went_out": "0.5", "balances": "2.5"}
    assert report == {"as_of": NOW, "accounts_left_out": 1, "currencies": {"CHF": of_francs}}


def test_accounts_of_more_currencies_than_a_report_has_room_for_are_left_out() -> None:
    sums = TrialBalance()
    for number in range(MOST_CURRENCIES + 2):
        sums = sums.plus(f"C{number}", Turnover(Decimal(1)))
    sums = sums.plus("C0", Turnover(Decimal(1)))
    assert (len(sums.currencies), sums.accounts_left_out) == (MOST_CURRENCIES, 2)
    assert sums.currencies["C0"].came_in == 2


def test_a_nights_progress_and_a_checkpoint_have_the_sums_in_texts_of_any_length() -> None:
    """A sum may have more digits than a number of DynamoDB's."""
    of_many_digits = SUMS.plus("EUR", Turnover(Decimal("9.9e125"), Decimal("1e-130")))
    assert TrialBalance.from_item(of_many_digits.as_item()) == of_many_digits
    for since in (Turnover(Decimal("1e-130")), None):
        turnovers = Turnovers("now", of_many_digits.currencies["EUR"], since)
        assert Turnovers.from_item(turnovers.as_item()) == turnovers
