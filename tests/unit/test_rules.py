"""The building blocks of all types' rules: posted, rejected, moved."""

from decimal import Decimal
from fractions import Fraction

from hypothesis import example, given
from msgspec.structs import replace

from ledger.core.money import normalized
from ledger.core.rules import RejectionReason, moved
from tests.support.numbers import exact_numbers
from tests.support.rules import fits_dynamodb
from tests.support.samples import ALICE


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
