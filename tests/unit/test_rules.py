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
from ledger.messages import Message, Transaction, Transfer
from ledger.rules import Decision, Reason, Status, UnknownAccount, decide
from tests.unit.samples import ALICE, BOB, CLOSED, closing, limit, opening, payment, transfer
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
    [decision] = decide(message, before)
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
    assert debit == Decision(replace(payer, balance=Decimal(payers), version=8), message.amount.copy_negate())
    assert credit == Decision(replace(payee, balance=Decimal(payees), version=4), message.amount)


FRANCS = replace(BOB, currency="CHF")
CLOSED_BOB = replace(BOB, balance=Decimal(0), status=AccountStatus.CLOSED)
TRANSFERS_REJECTED = {
    "below the payer's limit": (transfer("150.01"), ALICE, BOB, Reason.OVERDRAFT_LIMIT),
    "from a closed account": (transfer(), CLOSED, BOB, Reason.ACCOUNT_CLOSED),
    "to a closed account": (transfer(), ALICE, CLOSED_BOB, Reason.ACCOUNT_CLOSED),
    "to a closed account, below the payer's limit": (transfer(999), ALICE, CLOSED_BOB, Reason.ACCOUNT_CLOSED),
    "to a closed account in another currency": (
        transfer(),
        ALICE,
        replace(CLOSED_BOB, currency="CHF"),
        Reason.ACCOUNT_CLOSED,
    ),
    "into another currency": (transfer(), ALICE, FRANCS, Reason.CURRENCY_MISMATCH),
    "into another currency, below the payer's limit": (transfer(999), ALICE, FRANCS, Reason.CURRENCY_MISMATCH),
    "leaving a balance of 39 digits": (transfer("1e-37"), ALICE, BOB, Reason.BALANCE_OUT_OF_RANGE),
    "making a balance of 39 digits": (
        transfer("0.1"),
        ALICE,
        replace(BOB, balance=EXACT_BALANCE),
        Reason.BALANCE_OUT_OF_RANGE,
    ),
    "making a balance beyond DynamoDB's": (
        transfer("9e125"),
        replace(ALICE, balance=Decimal("9e125")),
        replace(BOB, balance=Decimal("9e125")),
        Reason.BALANCE_OUT_OF_RANGE,
    ),
    "below the payer's limit, making a balance of 39 digits": (
        transfer("150.1"),
        ALICE,
        replace(BOB, balance=EXACT_BALANCE),
        Reason.OVERDRAFT_LIMIT,
    ),
}


@pytest.mark.parametrize(("message", "payer", "payee", "reason"), TRANSFERS_REJECTED.values(), ids=TRANSFERS_REJECTED)
def test_a_rejected_transfer_changes_nothing_but_both_versions_for_one_reason(
    message: Transfer, payer: Account, payee: Account, reason: Reason
) -> None:
    assert decide(message, payer, payee) == (
        Decision(replace(payer, version=8), Decimal(0), reason),
        Decision(replace(payee, version=4), Decimal(0), reason),
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


@pytest.mark.parametrize("message", [payment(), limit(0), closing()], ids=["transaction", "limit", "closing"])
def test_nothing_is_decided_about_an_account_that_is_not_open_yet(message: Message) -> None:
    with pytest.raises(UnknownAccount, match=r"^account_id: no account 'alice' has been opened$"):
        decide(message, None)


@pytest.mark.parametrize("account", [ALICE, CLOSED], ids=["open", "closed"])
def test_an_item_gives_its_account_back(account: Account) -> None:
    assert account_from_item(account_item(account)) == account


def decisions(messages: Sequence[Message]) -> list[tuple[Decision, ...]]:
    """For each message, in order, from the accounts' openings on."""
    accounts: dict[str, Account] = {}
    made = []
    for message in messages:
        made.append(decide(message, *map(accounts.get, message.account_ids)))
        accounts |= {decision.account.account_id: decision.account for decision in made[-1]}
    return made


def stories(messages: Sequence[Message]) -> list[list[Decision]]:
    """Each account's decisions, in order."""
    stories: dict[str, list[Decision]] = {}
    for decision in itertools.chain.from_iterable(decisions(messages)):
        stories.setdefault(decision.account.account_id, []).append(decision)
    return list(stories.values())


def days(messages: st.SearchStrategy[Message], limit: str) -> st.SearchStrategy[list[Message]]:
    openings: list[Message] = [opening(limit, account_id=name) for name in ("alice", "bob")]
    return st.lists(messages, max_size=40).map(lambda day: openings + day)


whose = (st.sampled_from(["alice", "bob"]), st.just("t-1"))
extreme_limits = exact_numbers().map(lambda number: -abs(number))
any_day = days(messages_of(*whose), "-200") | days(messages_of(*whose, exact_numbers(), extreme_limits), "-9.9e125")


@given(any_day)
def test_versions_are_1_to_n_without_gaps(messages: list[Message]) -> None:
    for story in stories(messages):
        assert [decision.account.version for decision in story] == list(range(1, len(story) + 1))


@given(any_day)
def test_there_is_a_decision_for_each_of_a_messages_accounts(messages: list[Message]) -> None:
    for message, made in zip(messages, decisions(messages), strict=True):
        assert tuple(decision.account.account_id for decision in made) == message.account_ids
        assert len({decision.reason for decision in made}) == 1


@given(any_day)
def test_no_version_is_below_its_limit(messages: list[Message]) -> None:
    for decision in itertools.chain.from_iterable(decisions(messages)):
        assert decision.account.balance >= decision.account.overdraft_limit


@given(any_day)
def test_the_balance_is_exactly_the_sum_of_the_amounts(messages: list[Message]) -> None:
    for story in stories(messages):
        total = Fraction(0)
        for decision in story:
            total += Fraction(decision.amount)
            assert Fraction(decision.account.balance) == total


@given(any_day)
def test_only_what_is_posted_moves_money_and_a_transfer_moves_it_from_one_account_to_the_other(
    messages: list[Message],
) -> None:
    for message, made in zip(messages, decisions(messages), strict=True):
        amounts = [decision.amount for decision in made]
        match message:
            case Transaction(amount=amount) if made[0].status is Status.POSTED:
                assert amounts == [amount]
            case Transfer(amount=amount) if made[0].status is Status.POSTED:
                assert amounts == [amount.copy_negate(), amount]
            case _:
                assert not any(amounts)


@given(any_day)
def test_money_comes_and_goes_by_transactions_alone(messages: list[Message]) -> None:
    balances = sum(Fraction(story[-1].account.balance) for story in stories(messages))
    posted = zip(messages, decisions(messages), strict=True)
    assert balances == sum(Fraction(made[0].amount) for message, made in posted if isinstance(message, Transaction))


@given(any_day)
def test_a_rejection_changes_nothing_but_the_version_whatever_was_before(messages: list[Message]) -> None:
    for story in stories(messages):
        for before, after in itertools.pairwise(story):
            if after.status is Status.REJECTED:
                assert after.account == replace(before.account, version=after.account.version)


@given(any_day)
def test_the_same_messages_get_the_same_decisions(messages: list[Message]) -> None:
    assert decisions(messages) == decisions(messages)


@given(any_day)
def test_a_closed_account_stays_as_it_is(messages: list[Message]) -> None:
    for story in stories(messages):
        closed = [decision.account for decision in story if decision.account.status is AccountStatus.CLOSED]
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
    [decision] = decide(payment(str(amount)), account)
    assert (decision.reason is Reason.BALANCE_OUT_OF_RANGE) == (not fits_dynamodb(Fraction(balance) + Fraction(amount)))
