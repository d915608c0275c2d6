"""The sums of what came in and went out, and what is said of those that don't agree."""

from decimal import Decimal

from ledger.core.turnovers import MOST_CURRENCIES, TrialBalance, Turnover, Turnovers

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
