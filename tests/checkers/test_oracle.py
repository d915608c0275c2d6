"""Tests of the oracle: it agrees with the product's rules, and finds wrong rules even in consistent books.

Each wrong rule makes books whose accounts and journals agree, so that a replay by that rule finds nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.holds import OpenHold
from ledger.core.reason_codes import InvalidMessage, NotYet
from ledger.core.reversals import Reversed
from ledger.core.rules import RejectionReason
from ledger.core.transaction_types import (
    TRANSACTION_TYPES,
    ChargeInterest,
    CloseAccount,
    ExpireHold,
    Hold,
    PostHold,
    Reverse,
    SetOverdraftLimit,
    Transaction,
    Transfer,
    decode,
)
from ledger.core.transaction_types.base import Context, TransactionMessage
from tests.checkers import oracle
from tests.checkers.books import Books, state_of, violations
from tests.checkers.few_ids import hold_ids, holds_and_reversals, times
from tests.checkers.small_books import (
    EXPIRE,
    HOLD,
    OPEN_A,
    OPEN_B,
    PAY,
    POST_IN_PART,
    REVERSE_TRANSFER,
    SPEND,
    TRANSFER,
    VOID,
    Rules,
    post,
    post_messages,
)
from tests.support.numbers import exact_numbers
from tests.support.rules import Decided, decide
from tests.support.samples import ALICE, BOB, life_of, opening, payment
from tests.support.strategies import everyday_amounts, exact_rates, messages_of, that_refer

few_ids, many_ids = st.sampled_from("abc"), st.integers().map(str)
large_limits = exact_numbers().map(lambda number: number.copy_abs().copy_negate()) | st.just(Decimal(0))
everyday = messages_of(few_ids, many_ids) | holds_and_reversals(few_ids, many_ids, everyday_amounts)
any_amounts = exact_numbers() | everyday_amounts
of_many_digits = messages_of(few_ids, many_ids, any_amounts, large_limits, exact_rates()) | holds_and_reversals(
    few_ids, many_ids, any_amounts
)
IN_DEBT = "in debt"
WITHOUT_A_RULE = "XTS"


@st.composite
def days(
    draw: st.DrawFn, messages: st.SearchStrategy[TransactionMessage], limit: str, currency: str
) -> list[TransactionMessage]:
    """From nothing, or of open accounts, in debt or not: else most messages would wait for their accounts.

    A day of open accounts ends with the whole life of another one, so that each type is posted in any sample.
    """
    day = draw(that_refer(st.lists(messages, min_size=15, max_size=40)))
    if draw(st.integers(0, 3)) == 0:
        return day
    openings: list[TransactionMessage] = [opening(limit, currency, account_id=name) for name in "abcd"]
    debts = st.sampled_from([limit, "-0.01"]) | exact_numbers().map(lambda number: str(number.copy_abs().copy_negate()))
    first = [payment(draw(debts), transaction_id=IN_DEBT, account_id=name) for name in "abc" if draw(st.booleans())]
    last = CloseAccount(transaction_id="close", account_id="d")  # It hardly has a balance.
    day += draw(
        st.lists(st.builds(ExpireHold.at, few_ids, hold_ids, times), max_size=5)
    )  # as of the hold's time or not
    return [*openings, *first, *day, last, *(decode(json.dumps(step)) for step in life_of("e"))]


@pytest.mark.parametrize(
    ("messages", "limit", "currency"),
    [(everyday, "-500", "EUR"), (of_many_digits, "-9.9e125", WITHOUT_A_RULE)],
    ids=["everyday", "of many digits"],
)
def test_the_oracle_and_the_rules_agree(
    messages: st.SearchStrategy[TransactionMessage], limit: str, currency: str
) -> None:
    seen: set[tuple[str, str]] = set()

    @given(days(messages, limit, currency))
    def agree(messages: Sequence[TransactionMessage]) -> None:
        books, journal = Books({}, {}), oracle.Journal()
        for message in messages:
            request = message.canonical_payload()
            account_ids = oracle.account_ids(request, journal)
            if any(journal.has(name, message.transaction_id) for name in account_ids):
                continue  # It has another payload, or is a repetition: no rule decides it.
            states = [state_of(account) if account else None for account in map(books.accounts.get, account_ids)]
            expected = _effects(request, states, journal)
            try:
                books = post_messages(books, [message])
            except (InvalidMessage, NotYet) as error:
                result: object = NotYet if isinstance(error, NotYet) else InvalidMessage
            else:
                result = list
            if isinstance(expected, type):
                assert result is expected
                continue
            assert result is list, f"{request} should be {expected}"
            for account_id, effect in zip(account_ids, expected, strict=True):
                outcome = books.journal[account_id][-1].outcome
                reversal = outcome.reversal and oracle.Reversal(*astuple(outcome.reversal))
                found = (outcome.reason, outcome.amount, state_of(books.accounts[account_id]), reversal)
                assert found == effect
                journal.add(account_id, request, effect.amount)
            seen.add((request["type"], expected[0].reason or "POSTED"))
        assert violations(books) == []

    agree()
    missing = TRANSACTION_TYPES.keys() - {name for name, result in seen if result == "POSTED"}
    assert not missing, "never posted: a type with one account has its step in life_of, tests/support/samples.py"


new_messages = messages_of(st.sampled_from(["alice", "bob"]), st.sampled_from(["h-1", "t-1"])).filter(
    lambda message: message.transaction_id == "t-1"
)


@given(st.integers(-900, 0), new_messages)
def test_the_oracle_and_the_rules_agree_below_the_limit_too_and_never_make_it_worse(
    balance: int, message: TransactionMessage
) -> None:
    hold = OpenHold(Decimal(300), "2026-01-31T00:00:00+00:00")
    below = replace(ALICE, balance=Decimal(balance), held=hold.remaining, holds={"h-1": hold})
    accounts = [below if name == "alice" else BOB for name in message.account_ids]
    effects = oracle.effects(message.canonical_payload(), [*map(state_of, accounts)], oracle.Journal())
    if effects is None:
        return  # It waits for a hold or a transaction.
    for before, effect, decided in zip(accounts, effects, decide(message, *accounts), strict=True):
        assert (decided.reason, decided.amount, state_of(decided.account), None) == effect
        assert decided.account.available >= min(before.available, 0)


def _effects(
    request: Mapping[str, Any], states: Sequence[oracle.State | None], journal: oracle.Journal
) -> list[oracle.Effect] | type[InvalidMessage | NotYet]:
    try:
        return oracle.effects(request, states, journal) or NotYet
    except oracle.Invalid:
        return InvalidMessage


def _posted(account: Account, amount: str | Decimal = "0", **changes: object) -> Decided:
    amount = Decimal(amount)
    after = replace(account, balance=account.balance + amount, version=account.version + 1)
    return Decided(replace(after, **changes), amount)


def _rejected(account: Account, reason: RejectionReason) -> Decided:
    return Decided(replace(account, version=account.version + 1), Decimal(0), reason)


def a_debit_down_to_the_limit_is_rejected(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    """The effect of comparing with <= instead of <."""
    decisions = decide(message, *accounts, context=context)
    if isinstance(message, Transaction) and decisions[0].account.balance == accounts[0].overdraft_limit:
        return [_rejected(accounts[0], RejectionReason.OVERDRAFT_LIMIT)]
    return decisions


def a_debit_just_below_the_limit_is_posted(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    if isinstance(message, Transaction):
        [account] = accounts
        if account.balance + message.amount == account.overdraft_limit - 1:
            return [_posted(account, message.amount)]
    return decide(message, *accounts, context=context)


def interest_is_rounded_up(message: TransactionMessage, *accounts: Account, context: Context) -> Sequence[Decided]:
    if isinstance(message, ChargeInterest) and accounts[0].balance < 0:
        with localcontext(rounding=ROUND_CEILING):
            interest = -accounts[0].balance * message.annual_rate / 365
            return [_posted(accounts[0], -interest.quantize(Decimal("0.01")))]
    return decide(message, *accounts, context=context)


def interest_is_of_360_days(message: TransactionMessage, *accounts: Account, context: Context) -> Sequence[Decided]:
    if isinstance(message, ChargeInterest):
        interest = -accounts[0].balance * message.annual_rate / 360
        return [_posted(accounts[0], -interest.quantize(Decimal("0.01")))]
    return decide(message, *accounts, context=context)


def a_closed_account_is_credited(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    if isinstance(message, Transaction) and accounts[0].status is AccountStatus.CLOSED and message.amount > 0:
        return [_posted(accounts[0], message.amount)]
    return decide(message, *accounts, context=context)


def an_account_with_a_balance_is_closed(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    if isinstance(message, CloseAccount):
        return [_posted(accounts[0], status=AccountStatus.CLOSED)]
    return decide(message, *accounts, context=context)


def another_currency_is_taken_at_par(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    if isinstance(message, Transaction):
        return decide(replace(message, currency=None), *accounts, context=context)
    return decide(message, *accounts, context=context)


def an_account_is_opened_twice(
    message: TransactionMessage, *accounts: Account | None, context: Context
) -> Sequence[Decided]:
    if accounts[0] and message.canonical_payload()["type"] == "open_account":
        return [_posted(accounts[0])]
    return decide(message, *accounts, context=context)


def a_limit_above_the_balance_is_set(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    if isinstance(message, SetOverdraftLimit):
        return [_posted(accounts[0], overdraft_limit=message.overdraft_limit)]
    return decide(message, *accounts, context=context)


def a_limit_is_set_and_forgotten(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    if isinstance(message, SetOverdraftLimit):
        return [_posted(accounts[0])]
    return decide(message, *accounts, context=context)


def a_payee_gets_what_the_payer_does_not_have(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    """Both sides agree and sum to zero. Only the payer's limit is ignored."""
    if isinstance(message, Transfer):
        payer, payee = accounts
        return [_posted(payer, -message.amount), _posted(payee, message.amount)]
    return decide(message, *accounts, context=context)


def a_rejected_transfer_has_the_other_reason(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    decisions = decide(message, *accounts, context=context)
    if isinstance(message, Transfer) and decisions[0].reason:
        return [_rejected(account, RejectionReason.CURRENCY_MISMATCH) for account in accounts]
    return decisions


def a_rejection_takes_no_version(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    decisions = decide(message, *accounts, context=context)
    return [
        decision._replace(account=account) if decision.reason else decision
        for decision, account in zip(decisions, accounts, strict=True)
    ]


def held_money_is_spent(message: TransactionMessage, *accounts: Account, context: Context) -> Sequence[Decided]:
    if isinstance(message, Transaction):
        return [_posted(accounts[0], message.amount)]
    return decide(message, *accounts, context=context)


def a_hold_is_placed_twice_on_the_same_money(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    """The open holds aren't counted."""
    if isinstance(message, Hold):
        [account] = accounts
        holds = {**account.open_holds, message.transaction_id: OpenHold(message.amount)}
        return [_posted(account, holds=holds, held=account.held + message.amount)]
    return decide(message, *accounts, context=context)


def a_hold_is_posted_in_part_and_stays_whole(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    decisions = decide(message, *accounts, context=context)
    if isinstance(message, PostHold):
        payer, *others = decisions
        account = replace(payer.account, holds=accounts[0].holds, held=accounts[0].held)
        return [payer._replace(account=account), *others]
    return decisions


def a_hold_expires_before_its_time(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    if isinstance(message, ExpireHold):
        return [_posted(accounts[0], holds={}, held=Decimal(0))]
    return decide(message, *accounts, context=context)


def an_account_with_a_hold_is_closed(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    if isinstance(message, CloseAccount):
        return decide(message, *(replace(account, holds={}) for account in accounts), context=context)
    return decide(message, *accounts, context=context)


def more_is_reversed_than_is_left(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    """What was reversed before isn't counted."""
    return decide(message, *accounts, context=context._replace(find_reversed=lambda entry_id: Reversed(*entry_id)))


def a_reversal_is_of_the_wrong_sign(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    decisions = decide(message, *accounts, context=context)
    if isinstance(message, Reverse):
        return [
            _posted(account, -decision.amount)._replace(reversal=decision.reversal)
            for account, decision in zip(accounts, decisions, strict=True)
        ]
    return decisions


def interest_has_two_decimals_in_every_currency(
    message: TransactionMessage, *accounts: Account, context: Context
) -> Sequence[Decided]:
    if isinstance(message, ChargeInterest):
        [decided] = decide(message, replace(accounts[0], decimal_places=2), context=context)
        return [decided._replace(account=replace(decided.account, decimal_places=accounts[0].decimal_places))]
    return decide(message, *accounts, context=context)


def an_amount_has_any_decimals(message: TransactionMessage, *accounts: Account, context: Context) -> Sequence[Decided]:
    if isinstance(message, Transaction):
        return [_posted(accounts[0], message.amount)]
    return decide(message, *accounts, context=context)


OVERDRAFT_A = OPEN_A.replace('"currency"', '"overdraft_limit": -30, "currency"')
TO_THE_LIMIT, BELOW_IT, A_LITTLE = (SPEND.replace("-80", amount) for amount in ("-30", "-31", "-10"))
INTEREST = '{"type": "charge_interest", "transaction_id": "5", "account_id": "a", "annual_rate": "0.365"}'
CLOSE = '{"type": "close_account", "transaction_id": "6", "account_id": "a"}'
LIMIT = '{"type": "set_overdraft_limit", "transaction_id": "7", "account_id": "a", "overdraft_limit": -5}'
IN_YEN = OVERDRAFT_A.replace("EUR", "JPY").replace("-30", "-9000")
HOLD_FOR_LONG = HOLD.replace("}", ', "expires_at": "2026-03-01T00:00:01Z"}')
ANOTHER_HOLD = HOLD.replace('_id": "hold"', '_id": "another"')
BACK_AGAIN = REVERSE_TRANSFER.replace('"back"', '"again"').replace("5}", "16}")
IN_FRANCS = PAY.replace('"amount"', '"currency": "CHF", "amount"')

BROKEN: dict[Rules, tuple[list[str], str]] = {
    a_debit_down_to_the_limit_is_rejected: ([OVERDRAFT_A, TO_THE_LIMIT], "a: version 2 should be ('POSTED', None,"),
    a_debit_just_below_the_limit_is_posted: (
        [OVERDRAFT_A, BELOW_IT],
        "a: version 2 should be ('REJECTED', 'OVERDRAFT_LIMIT',",
    ),
    interest_is_rounded_up: (
        [OVERDRAFT_A, SPEND.replace("-80", "-10.40"), INTEREST],
        "a: version 3 should be ('POSTED', None, Decimal('-0.01')",
    ),
    interest_is_of_360_days: (
        [OVERDRAFT_A.replace("-30", "-9000"), SPEND.replace("-80", "-1000"), INTEREST],
        "a: version 3 should be ('POSTED', None, Decimal('-1')",
    ),
    a_closed_account_is_credited: ([OPEN_A, CLOSE, PAY], "a: version 3 should be ('REJECTED', 'ACCOUNT_CLOSED',"),
    an_account_with_a_balance_is_closed: (
        [OPEN_A, PAY, CLOSE],
        "a: version 3 should be ('REJECTED', 'BALANCE_NOT_ZERO',",
    ),
    another_currency_is_taken_at_par: (
        [OPEN_A, IN_FRANCS],
        "a: version 2 should be ('REJECTED', 'CURRENCY_MISMATCH',",
    ),
    an_account_is_opened_twice: (
        [OPEN_A, OPEN_A.replace('"open"', '"again"')],
        "a: version 2 should be ('REJECTED', 'ACCOUNT_EXISTS',",
    ),
    a_limit_above_the_balance_is_set: (
        [OVERDRAFT_A, A_LITTLE, LIMIT],
        "a: version 3 should be ('REJECTED', 'OVERDRAFT_LIMIT',",
    ),
    a_limit_is_set_and_forgotten: ([OVERDRAFT_A, LIMIT], "a: its journal gives"),
    a_payee_gets_what_the_payer_does_not_have: (
        [OPEN_A, OPEN_B, TRANSFER],
        "a: version 2 should be ('REJECTED', 'OVERDRAFT_LIMIT',",
    ),
    a_rejected_transfer_has_the_other_reason: (
        [OPEN_A, OPEN_B, TRANSFER],
        "b: version 2 should be ('REJECTED', 'OVERDRAFT_LIMIT',",
    ),
    held_money_is_spent: (
        [OPEN_A, PAY, HOLD, SPEND.replace("-80", "-21")],
        "a: version 4 should be ('REJECTED', 'OVERDRAFT_LIMIT',",
    ),
    a_hold_is_placed_twice_on_the_same_money: (
        [OPEN_A, PAY, HOLD, ANOTHER_HOLD],
        "a: version 4 should be ('REJECTED', 'OVERDRAFT_LIMIT',",
    ),
    a_hold_is_posted_in_part_and_stays_whole: (
        [OPEN_A, OPEN_B, PAY, HOLD, POST_IN_PART],
        "a: version 4 should have 20 held",
    ),
    a_hold_expires_before_its_time: (
        [OPEN_A, PAY, HOLD_FOR_LONG, EXPIRE],
        "a: version 4 should be ('REJECTED', 'HOLD_NOT_EXPIRED',",
    ),
    an_account_with_a_hold_is_closed: (
        [OVERDRAFT_A, HOLD, CLOSE],
        "a: version 3 should be ('REJECTED', 'HOLDS_OPEN',",
    ),
    more_is_reversed_than_is_left: (
        [OPEN_A, OPEN_B, PAY, TRANSFER, REVERSE_TRANSFER, BACK_AGAIN],
        "b: version 4 should be ('REJECTED', 'REVERSAL_EXCEEDED',",
    ),
    a_reversal_is_of_the_wrong_sign: (
        [OPEN_A, OPEN_B, PAY, TRANSFER, REVERSE_TRANSFER],
        "a: version 4 should be ('POSTED', None, Decimal('5')",
    ),
    interest_has_two_decimals_in_every_currency: (
        [IN_YEN, SPEND.replace("-80", "-1499"), INTEREST],
        "a: version 3 should be ('POSTED', None, Decimal('-1')",
    ),
    a_rejection_takes_no_version: ([OPEN_A, SPEND], "a: at version 1, but its journal has [1, 1]"),
}


@pytest.mark.parametrize(("rules", "bodies", "sentence"), [(rules, *found) for rules, found in BROKEN.items()])
def test_a_rule_that_is_wrong_is_found_though_all_books_agree_with_it(
    rules: Rules, bodies: list[str], sentence: str
) -> None:
    assert violations(post(Books({}, {}), *bodies)) == []
    found = violations(post(Books({}, {}), *bodies, rules=rules))
    assert any(violation.startswith(sentence) for violation in found), found


def test_an_amount_with_a_decimal_too_many_can_not_be_replayed() -> None:
    too_fine = PAY.replace("50", "50.005")
    found = violations(post(Books({}, {}), OPEN_A, too_fine, rules=an_amount_has_any_decimals))
    assert any(violation.startswith("a: version 2 can't be replayed") for violation in found), found


def test_the_product_without_a_fault_has_sound_books() -> None:
    bodies = [OPEN_A, OPEN_B, PAY, SPEND, TRANSFER, HOLD, POST_IN_PART, VOID, REVERSE_TRANSFER, INTEREST, CLOSE, LIMIT]
    assert violations(post(Books({}, {}), *bodies)) == []


def _of_a_new_type(books: Books) -> None:
    entry = books.journal["a"][1]
    books.journal["a"][1] = replace(entry, request=entry.request | {"type": "lend"})


def _of_a_new_type_at_last(books: Books) -> None:
    entry = books.journal["a"][-1]
    books.journal["a"][-1] = replace(entry, request=entry.request | {"type": "lend"})


@pytest.mark.parametrize("plant", [_of_a_new_type, _of_a_new_type_at_last])
def test_a_type_that_the_oracle_does_not_know_is_a_violation_that_says_so(plant: Callable[[Books], None]) -> None:
    books = post(Books({}, {}), OPEN_A, PAY, SPEND)
    plant(books)
    assert any("the oracle doesn't know the type 'lend'" in violation for violation in violations(books))
