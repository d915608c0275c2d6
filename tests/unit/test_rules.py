"""The building blocks of all types' rules: posted, rejected, moved."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.interest import Interest
from ledger.core.rules import Decision, RejectionReason, StandIn, forced, moved, moved_whatever_the_limit, too_much_for
from ledger.core.transaction_types.base import UnsoundDecision, check_effects
from ledger.core.values import normalized
from tests.support.numbers import exact_numbers
from tests.support.rules import fits_dynamodb
from tests.support.samples import ALICE, BOB, alice, bob


@given(exact_numbers(), exact_numbers())
@example(Decimal("1e37"), Decimal("0.1"))
@example(Decimal("1e36"), Decimal("0.1"))
@example(Decimal("9e125"), Decimal("1e125"))
@example(Decimal("9.9e125"), Decimal("-9.9e125"))
def test_a_balance_is_out_of_range_exactly_when_dynamodb_could_not_hold_it(balance: Decimal, amount: Decimal) -> None:
    account = replace(ALICE, balance=balance, overdraft_limit=Decimal("-9.99e125"))
    decision = moved(account, normalized(amount))
    fits = fits_dynamodb(Fraction(balance) + Fraction(amount))
    assert (decision.reason is RejectionReason.BALANCE_OUT_OF_RANGE) != fits


def checked(*effects: tuple[Account, str], is_forced: bool = False) -> None:
    """Of these amounts on these accounts. The first is that of a decision that may be forced."""
    after = [replace(one, balance=one.balance + Decimal(amount)) for one, amount in effects]
    decisions = [Decision(Decimal(amount), other.balance) for (_, amount), other in zip(effects, after, strict=True)]
    decisions[0] = replace(decisions[0], is_forced=is_forced)
    check_effects(decisions, [one for one, _ in effects], after)


def test_a_forced_debit_may_leave_its_account_below_the_limit_and_no_other_one() -> None:
    assert forced(ALICE, Decimal(-999)) == Decision(Decimal(-999), Decimal(-899), is_forced=True)
    checked((ALICE, "-999"), (BOB, "999"), is_forced=True)
    for effects in ([(ALICE, "-999"), (BOB, "999")], [(BOB, "999"), (ALICE, "-999")]):
        with pytest.raises(UnsoundDecision, match="'alice' would be below its limit"):
            checked(*effects, is_forced=effects[0][0] is BOB)


def test_the_amounts_of_each_currency_sum_to_zero() -> None:
    francs = bob(account_id="carol", currency="CHF")
    with pytest.raises(UnsoundDecision, match="sum to zero in each currency"):
        checked((ALICE, "-5"), (BOB, "5"), (francs, "1"))


def test_interest_that_was_due_may_be_charged_below_the_limit_and_not_a_cent_more() -> None:
    before = alice(balance=-50, interest=Interest(Decimal("0.12")), posted_at="2026-03-01T00:00:00.000+00:00")
    then = before.at("2026-04-01T00:00:00.000+00:00")
    due = then.interest.due
    assert 0 < due < 1
    after = replace(then, balance=before.balance - due, interest=replace(then.interest, due=Decimal(0)))
    check_effects([Decision(-due, after.balance)], [before], [after])
    more = replace(after, balance=after.balance - Decimal("0.01"))
    with pytest.raises(UnsoundDecision, match="below its limit"):
        check_effects([Decision(-due - Decimal("0.01"), more.balance)], [before], [more])
    new = alice(balance=-99)  # it is imported below its limit
    check_effects([Decision(Decimal(-99), new.balance)], [None], [new])


def test_a_stand_in_has_what_never_changes_and_takes_every_amount_unless_it_rejects() -> None:
    account = alice(decimal_places=0)
    stand_in, closed, frozen = (StandIn.of(account, each) for each in (None, "ACCOUNT_CLOSED", "ACCOUNT_FROZEN"))
    assert (stand_in.balance, stand_in.version, stand_in.decimal_places) == (0, 0, 0)
    assert [each.status for each in (stand_in, closed, frozen)] == ["OPEN", "CLOSED", "OPEN"]
    assert moved_whatever_the_limit(stand_in, Decimal(-5)).amount == -5
    assert moved_whatever_the_limit(frozen, Decimal(-5)).reason == "ACCOUNT_FROZEN"


def test_an_amount_is_too_much_for_any_balance() -> None:
    for balance, expected in (("5", "1E+125"), ("1E+100", "1")):
        assert too_much_for(Decimal(balance)) == Decimal(expected)
