"""The minor units of currencies: the list is ISO 4217's, and the rules hold for every currency that it has."""

from collections.abc import Iterator
from decimal import Decimal

import iso4217
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core.accounts import Account
from ledger.core.currencies import MINOR_UNITS, no_minor_units
from ledger.core.interest import MILLISECONDS_PER_YEAR, Interest
from ledger.core.journal import Outcome
from ledger.core.reason_codes import InvalidMessage
from ledger.core.rules import Status
from ledger.core.transaction_types import TRANSACTION_TYPES
from ledger.core.transaction_types.base import Context, NumberRange, TransactionMessage
from ledger.core.values import decimal_places
from tests.support import samples
from tests.support.samples import ALICE, BOB, NOW, changed, hold, importing, limits, payment, posting, transfer

PLENTY = Decimal(10**15)
codes = st.sampled_from(sorted(MINOR_UNITS))
units = st.integers(1, 10**9)
a_last_digit = st.integers(1, 9)
in_few_examples = settings(max_examples=4)
"""Each of them for every currency."""


def test_the_list_is_that_of_iso_4217() -> None:
    listed = {each.code: each.exponent for each in iso4217.Currency if each.exponent is not None}
    assert listed == MINOR_UNITS


def an_account(currency: str, places: int | None, account: Account = ALICE) -> Account:
    """With a balance of plenty, and a hold of as much."""
    limits = {"balance": 3 * PLENTY, "overdraft_limit": -PLENTY}
    return changed(account, currency=currency, decimal_places=places, holds={"hold-1": PLENTY}, **limits)


OUTCOME = Outcome(str(Status.POSTED), None, PLENTY, 3 * PLENTY, 2, NOW, "EUR")
CREDIT = samples.entry_of(payment(PLENTY, transaction_id="credit"), OUTCOME)
AROUND = Context({CREDIT.entry_id: CREDIT}.get)


def messages_with(number: Decimal, currency: str) -> Iterator[tuple[TransactionMessage, str]]:
    """Messages of each type that may have the number, and the field that has it."""
    yield samples.opening(-number, currency), "overdraft_limit"
    yield importing(-number, currency=currency), "balance"
    yield importing(0, currency=currency, holds={"h": {"amount": number}}), "holds: h: amount"
    yield payment(number), "amount"
    yield payment(-number), "amount"
    yield transfer(number), "amount"
    yield samples.limit(-number), "overdraft_limit"
    yield hold(number), "amount"
    yield posting(number, hold_id="hold-1"), "amount"
    yield posting(number, hold_id="hold-1", to_account_id="bob", final=False), "amount"
    yield samples.reversing("credit", number), "amount"


def after(message: TransactionMessage, currency: str, places: int | None, context: Context = AROUND) -> list[Account]:
    """The message's accounts afterwards. It is posted."""
    known = {name: an_account(currency, places, account) for name, account in (("alice", ALICE), ("bob", BOB))}
    ids = message.all_account_ids(context)
    before = [None if message.opened_account(None) else known[name] for name in ids]
    decided = message.outcomes_on(before, context)
    assert all(outcome.reason is None for _, outcome in decided)
    return [account for account, _ in decided]


def test_each_type_with_an_amount_or_a_limit_is_tried() -> None:
    others = {NumberRange.RATE, NumberRange.SHARDS}
    numbered = {kind for kind in TRANSACTION_TYPES.values() if {each for _, each in kind.numbers} - others}
    assert {type(message) for message, _ in messages_with(Decimal(1), "EUR")} == numbered


@given(units)
@in_few_examples
def test_an_amount_with_the_currencys_decimals_is_posted_and_leaves_no_finer_one(whole: int) -> None:
    for currency, places in MINOR_UNITS.items():
        number = Decimal(whole).scaleb(-places)
        for message, _ in messages_with(number, currency):
            for account in after(message, currency, places):
                assert account.decimal_places == places
                for amount in (account.balance, account.held, account.overdraft_limit):
                    assert decimal_places(amount) <= places


@given(units, a_last_digit)
@in_few_examples
def test_one_decimal_more_is_an_invalid_message_that_says_how_many_the_currency_has(whole: int, digit: int) -> None:
    for currency, places in MINOR_UNITS.items():
        number = Decimal(10 * whole + digit).scaleb(-places - 1)
        for message, field in messages_with(number, currency):
            with pytest.raises(InvalidMessage) as caught:
                after(message, currency, places)
            expected = f"{field}: {places + 1} decimals, expected at most {places}, as many as {currency} has"
            assert str(caught.value) == expected


@given(units, st.integers(0, 9))
def test_zeros_at_the_end_are_no_decimals(whole: int, zeros: int) -> None:
    spelled = Decimal(f"{whole}.{'0' * zeros}") if zeros else Decimal(whole)
    for message, _ in messages_with(spelled, "JPY"):
        assert after(message, "JPY", 0)


@given(units, st.integers(1, 12))
@in_few_examples
def test_an_account_without_the_rule_takes_any_decimals(whole: int, finer: int) -> None:
    """So it is if it was opened before the rule came, or while the rule was off, or in a currency of one's own."""
    number = Decimal(10 * whole + 1).scaleb(-finer)
    for message, _ in messages_with(number, "PTS"):
        assert [account.decimal_places for account in after(message, "PTS", None)] == [None] * len(message.account_ids)
    for currency in MINOR_UNITS:
        off = AROUND._replace(minor_units=no_minor_units)
        for message, _ in messages_with(number, currency):
            assert all(account.decimal_places is None for account in after(message, currency, None, off))


@given(codes, st.booleans())
def test_the_rule_is_recorded_when_the_account_is_opened(currency: str, is_on: bool) -> None:
    message = samples.opening("0", currency)
    context = Context(minor_units=MINOR_UNITS.get if is_on else no_minor_units, posted_at=NOW)
    [(account, outcome)] = message.outcomes_on([None], context)
    places = MINOR_UNITS[currency] if is_on else None
    assert account.decimal_places == outcome.decimal_places == places


def test_a_transfer_has_no_more_decimals_than_either_of_its_accounts_may_have() -> None:
    """One was opened under the rule, and one before."""
    ruled, free = an_account("EUR", 2), an_account("EUR", None, BOB)
    assert [each.reason for each in transfer("0.01").decide([ruled, free], AROUND)] == [None, None]
    for accounts in ([ruled, free], [free, ruled]):
        with pytest.raises(InvalidMessage, match="amount: 3 decimals, expected at most 2, as many as EUR has"):
            transfer("0.001").decide(accounts, AROUND)


def test_the_decimals_are_looked_at_before_whether_the_account_or_the_hold_is_open() -> None:
    with pytest.raises(InvalidMessage):
        payment("0.001").decide([changed(samples.CLOSED, decimal_places=2)], Context())
    with pytest.raises(InvalidMessage):
        posting("0.1", hold_id="none", to_account_id="bob").decide([ALICE, changed(BOB, decimal_places=0)], Context())


def test_a_limit_and_the_account_that_an_import_is_taken_from_have_the_decimals_of_their_accounts() -> None:
    too_fine = limits([{"name": "day", "of": "debits", "per": "transaction", "amount": "0.001"}])
    with pytest.raises(InvalidMessage, match=r"^limits\[0\]\.amount: 3 decimals, expected at most 2"):
        too_fine.decide([an_account("EUR", 2)], Context())
    off = Context(minor_units=no_minor_units)
    with pytest.raises(InvalidMessage, match=r"^balance: 2 decimals, expected at most 1"):
        importing("0.01", from_account_id="bob").decide([None, an_account("EUR", 1, BOB)], off)


@given(st.integers(1, 10**12))
@in_few_examples
def test_interest_becomes_due_in_the_currencys_units(debt: int) -> None:
    for currency, places in MINOR_UNITS.items():
        unit = Decimal(1).scaleb(-places)
        a_unit = unit * MILLISECONDS_PER_YEAR
        after = Interest(Decimal(1), accrued=debt * a_unit + a_unit - 1).made_due(places)
        assert after == Interest(Decimal(1), debt * unit, a_unit - 1), currency
