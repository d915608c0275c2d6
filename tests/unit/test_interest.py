"""Interest to the unit: what is charged is what the oracle's rational arithmetic says, whenever it is charged."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.accounts import timestamp
from ledger.core.transaction_types.base import TransactionMessage
from ledger.core.values import WIDE
from tests.checkers.books import Books, violations
from tests.checkers.interest_oracle import Interest
from tests.checkers.small_books import post_messages
from tests.support.replaying import Ledger
from tests.support.samples import closing, interest, opening, payment, rate
from tests.support.strategies import exact_rates
from tests.unit.test_messages_page import rows

BEGIN = datetime(2025, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
PLACES = {"EUR": 2, "JPY": 0, "KWD": 3, "XTS": 2}
"""The last one has no rule for its amounts."""
YEAR = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


class Account:
    """Alice's, in books that go by the times of their messages."""

    def __init__(self, currency: str, begin: datetime = BEGIN) -> None:
        self.begin, self.number = begin, 0
        self.books = post_messages(Books({}, {}), [opening("-9e125", currency)], posted_at=timestamp(begin))

    def __call__(self, time: datetime, kind: str, number: Decimal | str = "0") -> None:
        self.number += 1
        name = f"t-{self.number}"
        message = {
            "pay": lambda: payment(number, transaction_id=name),
            "rate": lambda: rate(number, transaction_id=name),
            "charge": lambda: interest(transaction_id=name),
            "rejected": lambda: opening(transaction_id=name),
        }[kind]()
        self.books = post_messages(self.books, [message], posted_at=timestamp(time))

    @property
    def balance(self) -> Decimal:
        return self.books.accounts["alice"].balance

    def is_sound(self) -> bool:
        """Whether the oracle replays the journal to the same account, with the same interest to the last digit."""
        return violations(self.books) == []


units = st.integers(-(10**11), 10**11).filter(bool) | st.sampled_from([-1520, -(10**30)])
gaps = st.sampled_from([0, 1, 86_399_999, 2_678_400_000]) | st.integers(0, 10**10)
rates = exact_rates() | st.sampled_from([Decimal(0), Decimal(1), Decimal("0.12")])
moves = st.tuples(gaps, st.tuples(st.just("pay"), units) | st.tuples(st.just("rate"), rates))
charges = st.lists(st.tuples(st.integers(0, 10**11), st.sampled_from(["charge", "charge", "rejected"])), max_size=8)


@given(st.lists(moves, min_size=1, max_size=12), charges, st.sampled_from(sorted(PLACES)))
def test_whenever_it_is_charged_an_account_owes_what_the_oracle_says_to_the_unit(
    steps: Sequence[tuple[int, tuple[str, Any]]], charged: Sequence[tuple[int, str]], currency: str
) -> None:
    """The oracle knows of no charge: it adds up what is due on a balance that nothing is debited from."""
    places = PLACES[currency]
    times = accumulate(gap for gap, _ in steps)
    events = [
        (at, kind, Decimal(each).scaleb(-places) if kind == "pay" else each)
        for at, (_, (kind, each)) in zip(times, steps, strict=True)
    ]
    account, balance, oracle = Account(currency), Decimal(0), Interest()
    for at, kind, number in sorted([*events, *((at, kind, "0") for at, kind in charged)], key=itemgetter(0)):
        time = BEGIN + timedelta(milliseconds=at)
        account(time, kind, number)
        oracle = oracle.until(timestamp(time), Fraction(balance), Fraction(1, 10**places))
        if kind == "pay":
            balance = WIDE.add(balance, number)
        elif kind == "rate":
            oracle = oracle.rounded(Fraction(1, 10**places))._replace(rate=Fraction(number))
    end = BEGIN + timedelta(days=1200)
    account(end, "charge")
    oracle = oracle.until(timestamp(end), Fraction(balance), Fraction(1, 10**places))
    assert Fraction(account.balance) == Fraction(balance) - oracle.due
    assert account.is_sound()


@pytest.mark.parametrize("order", ["in time", "after an outage of three days", "each twice", "shuffled", "once"])
def test_a_year_costs_what_the_page_says_in_any_order_of_messages(order: str) -> None:
    for balance, places, owed in rows("| balance | decimal places | due in the year |"):
        account = Account({"2": "EUR", "0": "JPY", "3": "KWD"}[places], datetime(2026, 1, 1, tzinfo=UTC))
        account(account.begin, "rate", "0.12")
        account(account.begin, "pay", balance)
        month_ends = [account.begin + timedelta(days=days) for days in accumulate(YEAR)]
        for time in messages_of(order, month_ends):
            account(time, "charge")
        assert account.balance == Decimal(balance) - Decimal(owed)
        assert account.is_sound()


def messages_of(order: str, month_ends: Sequence[datetime]) -> list[datetime]:
    """When the messages of the month's ends are posted. Whose message it is makes no difference."""
    late = timedelta(days=3) if order == "after an outage of three days" else timedelta(minutes=31)
    in_time = [*(end + late for end in month_ends[:-1]), month_ends[-1]]
    others = {"each twice": sorted(in_time * 2), "once": [month_ends[-1]]}
    others["shuffled"] = [month_ends[4] + late] * 3 + [month_ends[-1]] * 9
    return others.get(order, in_time)


PAYEES: dict[str, tuple[list[TransactionMessage], str | None]] = {
    "posted": ([opening(account_id="bob")], None),
    "another currency": ([opening(account_id="bob", currency="CHF")], "CURRENCY_MISMATCH"),
    "a closed account": ([opening(account_id="bob"), closing(account_id="bob")], "ACCOUNT_CLOSED"),
    "a full account": (
        [opening(account_id="bob"), payment(f"{'9' * 36}.99", transaction_id="all", account_id="bob")],
        "BALANCE_OUT_OF_RANGE",
    ),
}


@pytest.mark.parametrize(("messages", "reason"), PAYEES.values(), ids=PAYEES)
@pytest.mark.parametrize("debt", [-100, 0])
def test_another_account_gets_what_is_charged_or_it_stays_due(
    messages: Sequence[TransactionMessage], reason: str | None, debt: int
) -> None:
    if debt == 0 and reason == "BALANCE_OUT_OF_RANGE":
        reason = None  # nothing is due
    owing = [opening(-100), rate(transaction_id="rate"), *([payment(debt, transaction_id="debt")] if debt else [])]
    books = post_messages(Books({}, {}), [*messages, *owing], posted_at="2025-01-01T00:00:00.000+00:00")
    books = post_messages(books, [interest(to_account_id="bob")], posted_at="2025-12-31T00:00:00.000+00:00")
    outcomes = [books.journal[name][-1].outcome for name in ("alice", "bob")]
    charged = Decimal("-11.54") if debt and not reason else Decimal(0)
    assert [(each.reason, each.amount) for each in outcomes] == [(reason, charged), (reason, -charged)]
    due = books.accounts["alice"].interest.due
    assert bool(due) == bool(debt and reason)
    assert Ledger.with_books(books).mismatches() == []
