"""The rules: every decision and its reason, and what holds after any sequence of messages."""

import itertools
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes import EXACT
from ledger.accounts import Account, AccountStatus, account_from_item, account_item
from ledger.messages import Message, Transaction
from ledger.rules import Decision, Reason, Status, UnknownAccount, decide
from tests.unit.samples import ALICE, CLOSED, closing, limit, opening, payment
from tests.unit.strategies import exact_numbers, messages_of

POSTED = {
    "a credit": (payment(25), ALICE, replace(ALICE, balance=Decimal(125))),
    "a debit": (payment(-25), ALICE, replace(ALICE, balance=Decimal(75))),
    "a debit down to the limit": (payment(-150), ALICE, replace(ALICE, balance=Decimal(-50))),
    "an amount in the account's currency": (payment(1, "EUR"), ALICE, replace(ALICE, balance=Decimal(101))),
    "a lower limit": (limit(-80), ALICE, replace(ALICE, overdraft_limit=Decimal(-80))),
    "a higher limit": (limit(0), ALICE, replace(ALICE, overdraft_limit=Decimal(0))),
    "a limit at the balance": (
        limit(-20),
        replace(ALICE, balance=Decimal(-20)),
        replace(ALICE, balance=Decimal(-20), overdraft_limit=Decimal(-20)),
    ),
    "a closing at zero": (
        closing(),
        replace(ALICE, balance=Decimal(0)),
        replace(ALICE, balance=Decimal(0), status=AccountStatus.CLOSED),
    ),
}


@pytest.mark.parametrize(("message", "before", "after"), POSTED.values(), ids=POSTED)
def test_what_is_posted_changes_the_account(message: Message, before: Account, after: Account) -> None:
    decision = decide(message, before)
    assert (decision.status, decision.reason) == (Status.POSTED, None)
    assert decision.account == replace(after, version=before.version + 1)
    assert decision.amount == after.balance - before.balance


REJECTED = {
    "a debit below the limit": (payment("-150.01"), ALICE, Reason.OVERDRAFT_LIMIT),
    "a limit above the balance": (limit(-19), replace(ALICE, balance=Decimal(-20)), Reason.OVERDRAFT_LIMIT),
    "an amount in another currency": (payment(1, "CHF"), ALICE, Reason.CURRENCY_MISMATCH),
    "a debit in another currency, below the limit": (payment(-999, "CHF"), ALICE, Reason.CURRENCY_MISMATCH),
    "a credit of a closed account": (payment(1), CLOSED, Reason.ACCOUNT_CLOSED),
    "another currency on a closed account": (payment(1, "CHF"), CLOSED, Reason.ACCOUNT_CLOSED),
    "a limit of a closed account": (limit(-1), CLOSED, Reason.ACCOUNT_CLOSED),
    "a closing of a closed account": (closing(), CLOSED, Reason.ACCOUNT_CLOSED),
    "a second opening": (opening(), ALICE, Reason.ACCOUNT_EXISTS),
    "an opening of a closed account": (opening(), CLOSED, Reason.ACCOUNT_EXISTS),
    "a closing with money left": (closing(), ALICE, Reason.BALANCE_NOT_ZERO),
    "a closing with a debt": (closing(), replace(ALICE, balance=Decimal("-0.01")), Reason.BALANCE_NOT_ZERO),
    "a balance of 39 digits": (payment("1e-36"), ALICE, Reason.BALANCE_OUT_OF_RANGE),
    "a balance beyond DynamoDB's": (
        payment("9e125"),
        replace(ALICE, balance=Decimal("9e125")),
        Reason.BALANCE_OUT_OF_RANGE,
    ),
    "a debit below the limit whose balance would have 39 digits": (
        payment("-1000"),
        replace(ALICE, balance=Decimal("0.0000000000000000000000000000000000000001")),
        Reason.BALANCE_OUT_OF_RANGE,
    ),
}


@pytest.mark.parametrize(("message", "account", "reason"), REJECTED.values(), ids=REJECTED)
def test_what_is_rejected_changes_nothing_but_the_version(message: Message, account: Account, reason: Reason) -> None:
    decision = decide(message, account)
    assert (decision.status, decision.reason, decision.amount) == (Status.REJECTED, reason, 0)
    assert decision.account == replace(account, version=account.version + 1)


def test_an_account_opens_empty_at_version_1() -> None:
    decision = decide(opening("-50", currency="CHF"), None)
    assert decision.status is Status.POSTED
    assert decision.account == Account("alice", Decimal(0), Decimal(-50), "CHF", AccountStatus.OPEN, 1)


@pytest.mark.parametrize("message", [payment(), limit(0), closing()], ids=["transaction", "limit", "closing"])
def test_nothing_is_decided_about_an_account_that_is_not_open_yet(message: Message) -> None:
    with pytest.raises(UnknownAccount, match="account_id: no account 'alice' has been opened"):
        decide(message, None)


@pytest.mark.parametrize("account", [ALICE, CLOSED], ids=["open", "closed"])
def test_an_item_gives_its_account_back(account: Account) -> None:
    assert account_from_item(account_item(account)) == account


def decisions(messages: Sequence[Message]) -> list[Decision]:
    """Of one account, in order, from its opening on."""
    made: list[Decision] = []
    for message in messages:
        made.append(decide(message, made[-1].account if made else None))
    return made


alices = messages_of(st.just("alice"), st.just("t-1"))
any_day = st.lists(alices, max_size=40).map(lambda messages: [opening("-200"), *messages])
extreme_limits = exact_numbers().map(lambda number: -abs(number))
extreme_day = st.lists(messages_of(st.just("alice"), st.just("t-1"), exact_numbers(), extreme_limits), max_size=20).map(
    lambda messages: [opening("-9.9e125"), *messages]
)
days = any_day | extreme_day


@given(days)
def test_versions_are_1_to_n_without_gaps(messages: list[Message]) -> None:
    made = decisions(messages)
    assert [decision.account.version for decision in made] == list(range(1, len(messages) + 1))


@given(days)
def test_no_version_is_below_its_limit(messages: list[Message]) -> None:
    assert all(decision.account.balance >= decision.account.overdraft_limit for decision in decisions(messages))


@given(days)
def test_the_balance_is_exactly_the_sum_of_the_amounts(messages: list[Message]) -> None:
    total = Fraction(0)
    for decision in decisions(messages):
        total += Fraction(decision.amount)
        assert Fraction(decision.account.balance) == total


@given(days)
def test_only_a_posted_transaction_moves_money(messages: list[Message]) -> None:
    for message, decision in zip(messages, decisions(messages), strict=True):
        moves = isinstance(message, Transaction) and decision.status is Status.POSTED
        assert decision.amount == (message.amount if moves else 0)


@given(days)
def test_a_rejection_changes_nothing_but_the_version_whatever_was_before(messages: list[Message]) -> None:
    made = decisions(messages)
    for before, after in itertools.pairwise(made):
        if after.status is Status.REJECTED:
            assert after.account == replace(before.account, version=after.account.version)


@given(days)
def test_the_same_messages_get_the_same_decisions(messages: list[Message]) -> None:
    assert decisions(messages) == decisions(messages)


@given(days)
def test_a_closed_account_stays_as_it_is(messages: list[Message]) -> None:
    closed = [made.account for made in decisions(messages) if made.account.status is AccountStatus.CLOSED]
    assert len({replace(account, version=0) for account in closed}) <= 1


def fits_dynamodb(number: Fraction) -> bool:
    """Whether 38 digits hold it, up to 9.9E+125."""
    wide = Context(prec=1000)
    exact = wide.normalize(wide.divide(Decimal(number.numerator), Decimal(number.denominator)))
    return len(exact.as_tuple().digits) <= EXACT.prec and (not exact or exact.adjusted() <= EXACT.Emax)


@given(exact_numbers(), exact_numbers())
@example(Decimal("1e37"), Decimal("0.1"))
@example(Decimal("1e36"), Decimal("0.1"))
@example(Decimal("9e125"), Decimal("1e125"))
@example(Decimal("9.9e125"), Decimal("-9.9e125"))
def test_a_balance_is_out_of_range_exactly_when_dynamodb_could_not_hold_it(balance: Decimal, amount: Decimal) -> None:
    account = replace(ALICE, balance=balance, overdraft_limit=Decimal("-9.99e125"))
    decision = decide(payment(str(amount)), account)
    assert (decision.reason is Reason.BALANCE_OUT_OF_RANGE) == (not fits_dynamodb(Fraction(balance) + Fraction(amount)))
