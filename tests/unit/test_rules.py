"""The building blocks of all types' rules: posted, rejected, moved."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from msgspec.structs import replace

from ledger.core.money import normalized
from ledger.core.rules import Decision, RejectionReason, Status, moved, posted, rejected
from tests.support.numbers import exact_numbers
from tests.support.rules import fits_dynamodb
from tests.support.samples import ALICE


def test_what_is_posted_or_rejected_leaves_the_balance_as_it_is() -> None:
    assert posted(ALICE) == Decision(Decimal(0), Decimal(100), None)
    assert rejected(ALICE, "CLOSED") == Decision(Decimal(0), Decimal(100), "CLOSED")


def test_a_decision_with_a_reason_is_a_rejection() -> None:
    assert posted(ALICE).status is Status.POSTED
    assert rejected(ALICE, RejectionReason.ACCOUNT_CLOSED).status is Status.REJECTED


@pytest.mark.parametrize(
    ("amount", "balance", "reason"),
    [
        ("25", "125", None),
        ("-25", "75", None),
        ("-150", "-50", None),
        ("-150.01", "100", RejectionReason.OVERDRAFT_LIMIT),
        ("1e-36", "100", RejectionReason.BALANCE_OUT_OF_RANGE),
    ],
)
def test_an_amount_moves_the_balance_down_to_the_limit(amount: str, balance: str, reason: str | None) -> None:
    effect = Decimal(0) if reason else Decimal(amount)
    assert moved(ALICE, Decimal(amount)) == Decision(effect, Decimal(balance), reason)


def test_a_credit_is_posted_below_the_limit_too() -> None:
    """A balance may be below a limit that was set before. A credit is never rejected for it."""
    account = replace(ALICE, balance=Decimal(-100))
    assert moved(account, Decimal(1)) == Decision(Decimal(1), Decimal(-99))


@given(exact_numbers(), exact_numbers())
@example(Decimal("1e37"), Decimal("0.1"))
@example(Decimal("1e36"), Decimal("0.1"))
@example(Decimal("9e125"), Decimal("1e125"))
@example(Decimal("9.9e125"), Decimal("-9.9e125"))
def test_a_balance_is_out_of_range_exactly_when_dynamodb_could_not_hold_it(balance: Decimal, amount: Decimal) -> None:
    account = replace(ALICE, balance=balance, overdraft_limit=Decimal("-9.99e125"))
    decision = moved(account, normalized(amount))
    assert (decision.reason is RejectionReason.BALANCE_OUT_OF_RANGE) == (
        not fits_dynamodb(Fraction(balance) + Fraction(amount))
    )
