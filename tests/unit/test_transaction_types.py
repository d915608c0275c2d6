"""The rules of each transaction type: every decision and its reason, and properties of any sequence of messages."""

import itertools
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes import EXACT
from ledger.core.accounts import Account, AccountStatus
from ledger.core.money import normalized
from ledger.core.reason_codes import UnknownAccount
from ledger.core.rules import RejectionReason, Status
from ledger.core.transaction_types import ChargeInterest, Transaction, Transfer
from ledger.core.transaction_types.base import TransactionMessage
from tests.support.rules import Decided, decide, fits_dynamodb
from tests.support.samples import ALICE, BOB, CLOSED, closing, interest, limit, opening, payment, transfer
from tests.support.strategies import exact_numbers, exact_rates, messages_of

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
def test_what_is_posted_changes_the_account(message: TransactionMessage, before: Account, after: Account) -> None:
    [decision] = decide(message, before)
    assert (decision.status, decision.reason) == (Status.POSTED, None)
    assert decision.account == replace(after, version=before.version + 1)
    assert decision.amount == after.balance - before.balance


REJECTED = {
    "a debit below the limit": (payment("-150.01"), ALICE, RejectionReason.OVERDRAFT_LIMIT),
    "a limit above the balance": (limit(-19), replace(ALICE, balance=Decimal(-20)), RejectionReason.OVERDRAFT_LIMIT),
    "an amount in another currency": (payment(1, "CHF"), ALICE, RejectionReason.CURRENCY_MISMATCH),
    "a debit in another currency, below the limit": (payment(-999, "CHF"), ALICE, RejectionReason.CURRENCY_MISMATCH),
    "a credit of a closed account": (payment(1), CLOSED, RejectionReason.ACCOUNT_CLOSED),
    "another currency on a closed account": (payment(1, "CHF"), CLOSED, RejectionReason.ACCOUNT_CLOSED),
    "a limit of a closed account": (limit(-1), CLOSED, RejectionReason.ACCOUNT_CLOSED),
    "a closing of a closed account": (closing(), CLOSED, RejectionReason.ACCOUNT_CLOSED),
    "a second opening": (opening(), ALICE, RejectionReason.ACCOUNT_EXISTS),
    "an opening of a closed account": (opening(), CLOSED, RejectionReason.ACCOUNT_EXISTS),
    "a closing with money left": (closing(), ALICE, RejectionReason.BALANCE_NOT_ZERO),
    "a closing with a debt": (closing(), replace(ALICE, balance=Decimal("-0.01")), RejectionReason.BALANCE_NOT_ZERO),
    "a balance of 39 digits": (payment("1e-36"), ALICE, RejectionReason.BALANCE_OUT_OF_RANGE),
    "a balance beyond DynamoDB's": (
        payment("9e125"),
        replace(ALICE, balance=Decimal("9e125")),
        RejectionReason.BALANCE_OUT_OF_RANGE,
    ),
    "a debit below the limit whose balance would have 39 digits": (
        payment("-1000"),
        replace(ALICE, balance=Decimal("0.0000000000000000000000000000000000000001")),
        RejectionReason.BALANCE_OUT_OF_RANGE,
    ),
}


@pytest.mark.parametrize(("message", "account", "reason"), REJECTED.values(), ids=REJECTED)
def test_what_is_rejected_changes_nothing_but_the_version(
    message: TransactionMessage, account: Account, reason: RejectionReason
) -> None:
    [decision] = decide(message, account)
    assert (decision.status, decision.reason, decision.amount) == (Status.REJECTED, reason, 0)
    assert decision.account == replace(account, version=account.version + 1)


EXACT_BALANCE = Decimal(38 * "9")
TRANSFERS_POSTED = {
    "within the balance": (transfer(25), ALICE, BOB, "75", "30"),
    "down to the payer's limit": (transfer(150), ALICE, BOB, "-50", "155"),
    "to one in debt": (
        transfer(25),
        ALICE,
        replace(BOB, balance=Decimal(-90), overdraft_limit=Decimal(-90)),
        "75",
        "-65",
    ),
    "of 38 digits": (
        transfer(38 * "9"),
        replace(ALICE, balance=EXACT_BALANCE),
        replace(BOB, balance=Decimal(0)),
        "0",
        38 * "9",
    ),
}


@pytest.mark.parametrize(
    ("message", "payer", "payee", "payers", "payees"), TRANSFERS_POSTED.values(), ids=TRANSFERS_POSTED
)
def test_a_transfer_takes_from_one_account_and_gives_to_another(
    message: Transfer, payer: Account, payee: Account, payers: str, payees: str
) -> None:
    debit, credit = decide(message, payer, payee)
    assert debit == Decided(replace(payer, balance=Decimal(payers), version=8), message.amount.copy_negate())
    assert credit == Decided(replace(payee, balance=Decimal(payees), version=4), message.amount)


FRANCS = replace(BOB, currency="CHF")
CLOSED_BOB = replace(BOB, balance=Decimal(0), status=AccountStatus.CLOSED)
TRANSFERS_REJECTED = {
    "below the payer's limit": (transfer("150.01"), ALICE, BOB, RejectionReason.OVERDRAFT_LIMIT),
    "from a closed account": (transfer(), CLOSED, BOB, RejectionReason.ACCOUNT_CLOSED),
    "to a closed account": (transfer(), ALICE, CLOSED_BOB, RejectionReason.ACCOUNT_CLOSED),
    "to a closed account, below the payer's limit": (transfer(999), ALICE, CLOSED_BOB, RejectionReason.ACCOUNT_CLOSED),
    "to a closed account in another currency": (
        transfer(),
        ALICE,
        replace(CLOSED_BOB, currency="CHF"),
        RejectionReason.ACCOUNT_CLOSED,
    ),
    "into another currency": (transfer(), ALICE, FRANCS, RejectionReason.CURRENCY_MISMATCH),
    "into another currency, below the payer's limit": (transfer(999), ALICE, FRANCS, RejectionReason.CURRENCY_MISMATCH),
    "leaving a balance of 39 digits": (transfer("1e-37"), ALICE, BOB, RejectionReason.BALANCE_OUT_OF_RANGE),
    "making a balance of 39 digits": (
        transfer("0.1"),
        ALICE,
        replace(BOB, balance=EXACT_BALANCE),
        RejectionReason.BALANCE_OUT_OF_RANGE,
    ),
    "making a balance beyond DynamoDB's": (
        transfer("9e125"),
        replace(ALICE, balance=Decimal("9e125")),
        replace(BOB, balance=Decimal("9e125")),
        RejectionReason.BALANCE_OUT_OF_RANGE,
    ),
    "below the payer's limit, making a balance of 39 digits": (
        transfer("150.1"),
        ALICE,
        replace(BOB, balance=EXACT_BALANCE),
        RejectionReason.OVERDRAFT_LIMIT,
    ),
}


@pytest.mark.parametrize(("message", "payer", "payee", "reason"), TRANSFERS_REJECTED.values(), ids=TRANSFERS_REJECTED)
def test_a_rejected_transfer_changes_nothing_but_both_versions_for_one_reason(
    message: Transfer, payer: Account, payee: Account, reason: RejectionReason
) -> None:
    assert decide(message, payer, payee) == (
        Decided(replace(payer, version=8), Decimal(0), reason),
        Decided(replace(payee, version=4), Decimal(0), reason),
    )


@pytest.mark.parametrize(
    ("payer", "payee", "named"),
    [
        (None, BOB, "from_account_id: no account 'alice'"),
        (ALICE, None, "to_account_id: no account 'bob'"),
        (CLOSED, None, "to_account_id: no account 'bob'"),
        (None, None, "from_account_id: no account 'alice'"),
    ],
    ids=["payer", "payee", "payee, the payer being closed", "both"],
)
def test_a_transfer_is_not_decided_before_both_its_accounts_are_open(
    payer: Account | None, payee: Account | None, named: str
) -> None:
    with pytest.raises(UnknownAccount, match=f"^{named} has been opened$"):
        decide(transfer(999), payer, payee)


def test_an_account_opens_empty_at_version_1() -> None:
    [decision] = decide(opening("-50", currency="CHF"), None)
    assert decision.status is Status.POSTED
    assert decision.account == Account("alice", Decimal(0), Decimal(-50), "CHF", AccountStatus.OPEN, 1)


@pytest.mark.parametrize(
    "message",
    [payment(), limit(0), closing(), interest()],
    ids=["transaction", "limit", "closing", "interest"],
)
def test_nothing_is_decided_about_an_account_that_is_not_open_yet(message: TransactionMessage) -> None:
    with pytest.raises(UnknownAccount, match=r"^account_id: no account 'alice' has been opened$"):
        decide(message, None)


LOWEST = Decimal("-9.99e125")
INTEREST = {
    "rounded down": ("-100", "0.12", "0.03"),  # 0.0328…
    "rounded up": ("-118", "0.12", "0.04"),  # 0.0387…
    "exact": ("-365", "0.12", "0.12"),
    "half, to the even below": ("-36.50", "0.05", "0"),  # 0.005
    "half, to the even above": ("-109.50", "0.05", "0.02"),  # 0.015
    "half, to the even below again": ("-182.50", "0.05", "0.02"),  # 0.025
    "a hair more than half": ("-36.5000000000000000000000000000000001", "0.05", "0.01"),
    "a hair less than half": ("-109.4999999999999999999999999999999999", "0.05", "0.01"),
    "the whole debt a year": ("-365", "1", "1"),
    "too little for a cent": ("-0.01", "1", "0"),
    "none at zero": ("0", "0.12", "0"),
    "none above zero": ("1000", "0.12", "0"),
    "none on the largest balance": ("9.9e125", "1", "0"),
    "a debt of 36 digits": (f"-{34 * '9'}.99", "0.365", "1e31"),  # 9…9.99999
    "the smallest debt": ("-1e-130", "1", "0"),
    "the smallest rate": ("-1e36", "1e-130", "0"),
    "the smallest rate on the largest debt": ("-3.65e125", "1e-127", "0"),
    "a debt of 39 digits, most of them zero": ("-365e36", "0.1", "1e35"),
    "a debt of many zeros": ("-3.65e100", "1e-2", "1e96"),
}


@pytest.mark.parametrize(("balance", "rate", "charged"), INTEREST.values(), ids=INTEREST)
def test_interest_is_a_days_share_of_the_debt_rounded_half_to_even(balance: str, rate: str, charged: str) -> None:
    account = replace(ALICE, balance=Decimal(balance), overdraft_limit=LOWEST)
    [decision] = decide(interest(rate), account)
    amount = Decimal(charged).copy_negate()
    assert (decision.status, decision.amount) == (Status.POSTED, amount)
    after = EXACT.add(account.balance, amount)
    assert decision.account == replace(account, balance=after, version=8)


INTEREST_REJECTED = {
    "below the limit": ("-49.99", "-50", "0.365", RejectionReason.OVERDRAFT_LIMIT),
    "of an account at its limit": ("-50", "-50", "0.365", RejectionReason.OVERDRAFT_LIMIT),
    "of 39 digits": ("-" + 38 * "7" + "e3", "-9e125", "1", RejectionReason.BALANCE_OUT_OF_RANGE),
    "making a balance of 39 digits": ("-1e37", "-9e125", "0.01", RejectionReason.BALANCE_OUT_OF_RANGE),
}


@pytest.mark.parametrize(("balance", "lowest", "rate", "reason"), INTEREST_REJECTED.values(), ids=INTEREST_REJECTED)
def test_interest_is_rejected_as_another_debit_is(
    balance: str, lowest: str, rate: str, reason: RejectionReason
) -> None:
    account = replace(ALICE, balance=Decimal(balance), overdraft_limit=Decimal(lowest))
    assert decide(interest(rate), account) == (Decided(replace(account, version=8), Decimal(0), reason),)


def test_interest_down_to_the_limit_is_posted() -> None:
    account = replace(ALICE, balance=Decimal("-49.95"))
    [decision] = decide(interest("0.365"), account)
    assert (decision.status, decision.account.balance) == (Status.POSTED, Decimal(-50))


def test_a_closed_account_is_charged_nothing() -> None:
    [decision] = decide(interest(), CLOSED)
    assert (decision.reason, decision.amount) == (RejectionReason.ACCOUNT_CLOSED, 0)


@given(exact_numbers(), exact_rates())
def test_any_debts_interest_is_what_a_thousand_digits_make_of_it(number: Decimal, rate: Decimal) -> None:
    wide = Context(prec=1000, rounding=ROUND_HALF_EVEN)
    balance = number.copy_abs().copy_negate()
    exactly = wide.divide(wide.multiply(balance, rate), Decimal(365))
    amount = wide.quantize(exactly, Decimal("0.01"))
    [decision] = decide(interest(str(rate)), replace(ALICE, balance=balance, overdraft_limit=LOWEST))
    if fits_dynamodb(Fraction(amount)) and fits_dynamodb(Fraction(balance) + Fraction(amount)):
        assert (decision.reason, decision.amount) == (None, amount)
        assert Fraction(decision.account.balance) == Fraction(balance) + Fraction(amount)
    else:
        assert (decision.reason, decision.amount) == (RejectionReason.BALANCE_OUT_OF_RANGE, 0)


def decisions(messages: Sequence[TransactionMessage]) -> list[tuple[Decided, ...]]:
    """The decisions of each message, in order, after the accounts' openings."""
    accounts: dict[str, Account] = {}
    made = []
    for message in messages:
        made.append(decide(message, *map(accounts.get, message.account_ids)))
        accounts |= {decision.account.account_id: decision.account for decision in made[-1]}
    return made


def stories(messages: Sequence[TransactionMessage]) -> list[list[Decided]]:
    """The decisions of each account, in order."""
    stories: dict[str, list[Decided]] = {}
    for decision in itertools.chain.from_iterable(decisions(messages)):
        stories.setdefault(decision.account.account_id, []).append(decision)
    return list(stories.values())


def days(messages: st.SearchStrategy[TransactionMessage], limit: str) -> st.SearchStrategy[list[TransactionMessage]]:
    openings: list[TransactionMessage] = [opening(limit, account_id=name) for name in ("alice", "bob")]
    return st.lists(messages, max_size=40).map(lambda day: openings + day)


whose = (st.sampled_from(["alice", "bob"]), st.just("t-1"))
extreme_limits = exact_numbers().map(lambda number: -abs(number))
any_day = days(messages_of(*whose), "-200") | days(
    messages_of(*whose, exact_numbers(), extreme_limits, exact_rates()), "-9.9e125"
)


@given(any_day)
def test_a_decisions_numbers_are_spelled_as_dynamodb_would_give_them_back(day: list[TransactionMessage]) -> None:
    """So an outcome is spelled the same, whether its account was in memory or read from the table."""
    for decision in itertools.chain.from_iterable(decisions(day)):
        numbers = (decision.amount, decision.account.balance)
        assert [str(number) for number in numbers] == [str(normalized(number)) for number in numbers]


@given(any_day)
def test_versions_are_1_to_n_without_gaps(messages: list[TransactionMessage]) -> None:
    for story in stories(messages):
        assert [decision.account.version for decision in story] == list(range(1, len(story) + 1))


@given(any_day)
def test_there_is_a_decision_for_each_of_a_messages_accounts(messages: list[TransactionMessage]) -> None:
    for message, made in zip(messages, decisions(messages), strict=True):
        assert tuple(decision.account.account_id for decision in made) == message.account_ids
        assert len({decision.reason for decision in made}) == 1


@given(any_day)
def test_no_version_is_below_its_limit(messages: list[TransactionMessage]) -> None:
    for decision in itertools.chain.from_iterable(decisions(messages)):
        assert decision.account.balance >= decision.account.overdraft_limit


@given(any_day)
def test_the_balance_is_exactly_the_sum_of_the_amounts(messages: list[TransactionMessage]) -> None:
    for story in stories(messages):
        total = Fraction(0)
        for decision in story:
            total += Fraction(decision.amount)
            assert Fraction(decision.account.balance) == total


@given(any_day)
def test_only_what_is_posted_moves_money_and_a_transfer_moves_it_from_one_account_to_the_other(
    messages: list[TransactionMessage],
) -> None:
    for message, made in zip(messages, decisions(messages), strict=True):
        amounts = [decision.amount for decision in made]
        match message:
            case Transaction(amount=amount) if made[0].status is Status.POSTED:
                assert amounts == [amount]
            case ChargeInterest() if made[0].status is Status.POSTED:
                assert amounts[0] <= 0
            case Transfer(amount=amount) if made[0].status is Status.POSTED:
                assert amounts == [amount.copy_negate(), amount]
            case _:
                assert not any(amounts)


@given(any_day)
def test_money_comes_and_goes_by_transactions_and_interest_alone(messages: list[TransactionMessage]) -> None:
    balances = sum(Fraction(story[-1].account.balance) for story in stories(messages))
    posted = zip(messages, decisions(messages), strict=True)
    by_these = (Transaction, ChargeInterest)
    assert balances == sum(Fraction(made[0].amount) for message, made in posted if isinstance(message, by_these))


@given(any_day)
def test_a_rejection_changes_nothing_but_the_version_whatever_was_before(messages: list[TransactionMessage]) -> None:
    for story in stories(messages):
        for before, after in itertools.pairwise(story):
            if after.status is Status.REJECTED:
                assert after.account == replace(before.account, version=after.account.version)


@given(any_day)
def test_the_same_messages_get_the_same_decisions(messages: list[TransactionMessage]) -> None:
    assert decisions(messages) == decisions(messages)


@given(any_day)
def test_a_closed_account_stays_as_it_is(messages: list[TransactionMessage]) -> None:
    for story in stories(messages):
        closed = [decision.account for decision in story if decision.account.status is AccountStatus.CLOSED]
        assert len({replace(account, version=0) for account in closed}) <= 1
