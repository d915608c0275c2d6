"""The rules of each transaction type: every decision and its reason, and properties of any sequence of messages."""

import contextlib
import itertools
import json
from collections.abc import Sequence
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from decimal import Context as DecimalContext
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes import EXACT
from ledger.core.accounts import Account, AccountStatus
from ledger.core.currencies import no_minor_units
from ledger.core.holds import MOST_OPEN_HOLDS, OpenHold
from ledger.core.journal import EntryId, JournalEntry, Outcome
from ledger.core.money import normalized
from ledger.core.reason_codes import InvalidMessage, NotYet, UnknownAccount, UnknownHold, UnknownTransaction
from ledger.core.reversals import Reversal, Reversed
from ledger.core.rules import RejectionReason, Status
from ledger.core.transaction_types import (
    TRANSACTION_TYPES,
    ChargeInterest,
    ExpireHold,
    Hold,
    PostHold,
    Reverse,
    Transaction,
    Transfer,
    VoidHold,
    decode,
)
from ledger.core.transaction_types.base import Context, TransactionMessage
from tests.support.numbers import exact_numbers
from tests.support.rules import Decided, Ledger, decide, fits_dynamodb
from tests.support.samples import (
    ALICE,
    BOB,
    CLOSED,
    NOW,
    closing,
    expiring,
    hold,
    interest,
    life_of,
    limit,
    opening,
    payment,
    posting,
    reversing,
    transfer,
    voiding,
)
from tests.support.strategies import exact_rates, messages_of, numbered, that_refer

POSTED = {
    "a credit": (payment(25), ALICE, replace(ALICE, balance=Decimal(125))),
    "a debit": (payment(-25), ALICE, replace(ALICE, balance=Decimal(75))),
    "a debit down to the limit": (payment(-150), ALICE, replace(ALICE, balance=Decimal(-50))),
    "an amount in the account's currency": (payment(1, "EUR"), ALICE, replace(ALICE, balance=Decimal(101))),
    "a lower limit": (limit(-80), ALICE, replace(ALICE, overdraft_limit=Decimal(-80))),
    "a higher limit": (limit(0), ALICE, replace(ALICE, overdraft_limit=Decimal(0))),
    "a lower limit that is still above the balance": (
        limit(-80),
        replace(ALICE, balance=Decimal(-100)),
        replace(ALICE, balance=Decimal(-100), overdraft_limit=Decimal(-80)),
    ),
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
    "a higher limit of an account below it": (
        limit(-49),
        replace(ALICE, balance=Decimal(-100)),
        RejectionReason.OVERDRAFT_LIMIT,
    ),
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
    assert decision.account == Account(
        "alice", Decimal(0), Decimal(-50), "CHF", AccountStatus.OPEN, 1, decimal_places=2
    )


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
    wide = DecimalContext(prec=1000, rounding=ROUND_HALF_EVEN)
    balance = number.copy_abs().copy_negate()
    exactly = wide.divide(wide.multiply(balance, rate), Decimal(365))
    amount = wide.quantize(exactly, Decimal("0.01"))
    [decision] = decide(interest(str(rate)), replace(ALICE, balance=balance, overdraft_limit=LOWEST))
    if fits_dynamodb(Fraction(amount)) and fits_dynamodb(Fraction(balance) + Fraction(amount)):
        assert (decision.reason, decision.amount) == (None, amount)
        assert Fraction(decision.account.balance) == Fraction(balance) + Fraction(amount)
    else:
        assert (decision.reason, decision.amount) == (RejectionReason.BALANCE_OUT_OF_RANGE, 0)


HELD = replace(
    ALICE,
    held=Decimal(70),
    holds={"h-1": OpenHold(Decimal(60), "2026-03-01T11:00:00+00:00"), "h-2": OpenHold(Decimal(10))},
)
"""100 with a limit of -50, of which 70 are held: 80 are available."""
OTHER_HOLD = {"h-2": OpenHold(Decimal(10))}
EMPTY = replace(ALICE, balance=Decimal(0), overdraft_limit=Decimal(0))
FULL = replace(
    ALICE, held=Decimal(20), holds={f"h-{number}": OpenHold(Decimal(1)) for number in range(MOST_OPEN_HOLDS)}
)
HOLDS_POSTED = {
    "a first hold": (hold(150), ALICE, replace(ALICE, held=Decimal(150), holds={"h-1": OpenHold(Decimal(150))})),
    "a further hold, with its expiry in UTC": (
        hold("79.5", "h-3", expires_at="2026-03-01T12:00:00+05:30"),
        HELD,
        replace(
            HELD,
            held=Decimal("149.5"),
            holds={**HELD.open_holds, "h-3": OpenHold(Decimal("79.5"), "2026-03-01T06:30:00+00:00")},
        ),
    ),
    "the whole hold": (posting(), HELD, replace(HELD, balance=Decimal(40), held=Decimal(10), holds=OTHER_HOLD)),
    "the hold's amount, which isn't final": (
        posting(60, final=False),
        HELD,
        replace(HELD, balance=Decimal(40), held=Decimal(10), holds=OTHER_HOLD),
    ),
    "a part, and the rest is released": (
        posting("0.5"),
        HELD,
        replace(HELD, balance=Decimal("99.5"), held=Decimal(10), holds=OTHER_HOLD),
    ),
    "a part, and the rest stays": (
        posting("0.5", final=False),
        HELD,
        replace(
            HELD,
            balance=Decimal("99.5"),
            held=Decimal("69.5"),
            holds={"h-1": OpenHold(Decimal("59.5"), "2026-03-01T11:00:00+00:00"), **OTHER_HOLD},
        ),
    ),
    "a hold down to the limit": (
        posting(),
        replace(HELD, balance=Decimal(20)),
        replace(HELD, balance=Decimal(-40), held=Decimal(10), holds=OTHER_HOLD),
    ),
    "a hold of an account below its limit": (
        posting(),
        replace(HELD, balance=Decimal(-100)),
        replace(HELD, balance=Decimal(-160), held=Decimal(10), holds=OTHER_HOLD),
    ),
    "a void": (voiding(), HELD, replace(HELD, held=Decimal(10), holds=OTHER_HOLD)),
    "a void of the last one": (
        voiding(),
        replace(HELD, held=Decimal(60), holds={"h-1": OpenHold(Decimal(60))}),
        replace(HELD, held=Decimal(0), holds={}),
    ),
    "an expiry at the instant, in another offset": (
        expiring("2026-03-01T12:00:00+01:00"),
        HELD,
        replace(HELD, held=Decimal(10), holds=OTHER_HOLD),
    ),
    "a debit of what isn't held": (payment(-80), HELD, replace(HELD, balance=Decimal(20))),
    "a credit of an account that has too much held": (
        payment(1),
        replace(HELD, balance=Decimal(-1)),
        replace(HELD, balance=Decimal(0)),
    ),
}


@pytest.mark.parametrize(("message", "before", "after"), HOLDS_POSTED.values(), ids=HOLDS_POSTED)
def test_what_is_posted_changes_the_holds(message: TransactionMessage, before: Account, after: Account) -> None:
    assert decide(message, before) == (
        Decided(replace(after, version=before.version + 1), EXACT.subtract(after.balance, before.balance)),
    )


KNOWN = Context(lambda entry_id: entry_of("1") if entry_id == EntryId("alice", "h-9") else None)
"""The account has an entry with the id h-9, and no such hold."""
HOLDS_REJECTED = {
    "a hold of more than is available": (hold("150.01"), ALICE, RejectionReason.OVERDRAFT_LIMIT),
    "a hold of more than other holds leave": (hold("80.01", "h-3"), HELD, RejectionReason.OVERDRAFT_LIMIT),
    "a hold on a closed account": (hold(), CLOSED, RejectionReason.ACCOUNT_CLOSED),
    "a 21st hold": (hold(999, "h-20"), FULL, RejectionReason.TOO_MANY_HOLDS),
    "holds whose sum has 39 digits": (
        hold("1e-37", "h-3"),
        replace(HELD, balance=Decimal("1e37"), overdraft_limit=Decimal(0)),
        RejectionReason.BALANCE_OUT_OF_RANGE,
    ),
    "holds beyond DynamoDB's": (
        hold("9e125", "h-2"),
        replace(ALICE, balance=Decimal("9e125"), held=Decimal("9e125"), holds={"h-1": OpenHold(Decimal("9e125"))}),
        RejectionReason.BALANCE_OUT_OF_RANGE,
    ),
    "a debit of held money": (payment("-80.01"), HELD, RejectionReason.OVERDRAFT_LIMIT),
    "interest on held money": (
        interest("1"),
        replace(HELD, balance=Decimal(-20), held=Decimal(30), holds={"h-1": OpenHold(Decimal(30))}),
        RejectionReason.OVERDRAFT_LIMIT,
    ),
    "a limit above what isn't held": (
        limit("-0.01"),
        replace(HELD, balance=Decimal(69)),
        RejectionReason.OVERDRAFT_LIMIT,
    ),
    "more than is held": (posting("60.01"), HELD, RejectionReason.HOLD_EXCEEDED),
    "a rest of 39 digits": (
        posting("1e-37", final=False),
        HELD,
        RejectionReason.BALANCE_OUT_OF_RANGE,
    ),
    "a posting of no open hold": (posting(hold_id="h-9"), HELD, RejectionReason.HOLD_NOT_OPEN),
    "a posting on an account that never had a hold": (posting(hold_id="h-9"), ALICE, RejectionReason.HOLD_NOT_OPEN),
    "a posting of no open hold, of too much": (posting(999, hold_id="h-9"), HELD, RejectionReason.HOLD_NOT_OPEN),
    "a posting on a closed account": (posting(hold_id="h-9"), CLOSED, RejectionReason.ACCOUNT_CLOSED),
    "a void of no open hold": (voiding(hold_id="h-9"), HELD, RejectionReason.HOLD_NOT_OPEN),
    "an expiry of no open hold": (expiring(hold_id="h-9"), HELD, RejectionReason.HOLD_NOT_OPEN),
    "an expiry before the time": (
        expiring("2026-03-01T10:59:59.999999+00:00"),
        HELD,
        RejectionReason.HOLD_NOT_EXPIRED,
    ),
    "an expiry of a hold that has none": (
        expiring("9999-01-01T00:00:00Z", hold_id="h-2"),
        HELD,
        RejectionReason.HOLD_NOT_EXPIRED,
    ),
    "a closing with a hold": (closing(), replace(HELD, balance=Decimal(0)), RejectionReason.HOLDS_OPEN),
    "a closing with money and a hold": (closing(), HELD, RejectionReason.BALANCE_NOT_ZERO),
}


@pytest.mark.parametrize(("message", "account", "reason"), HOLDS_REJECTED.values(), ids=HOLDS_REJECTED)
def test_what_is_rejected_changes_no_hold(
    message: TransactionMessage, account: Account, reason: RejectionReason
) -> None:
    expected = Decided(replace(account, version=account.version + 1), Decimal(0), reason)
    assert decide(message, account, context=KNOWN) == (expected,)


@pytest.mark.parametrize("as_of", ["2026-03-01T10:00:00+00:00", "2026-03-01T12:00:00+00:00"])
@pytest.mark.parametrize("hold_id", ["h-1", "h-2"])
def test_under_the_jobs_id_nothing_is_recorded_as_of_another_time_than_the_holds_own(as_of: str, hold_id: str) -> None:
    """A rejection under that id would keep the job's message out, and the hold would never expire."""
    message = ExpireHold.at("alice", hold_id, datetime.fromisoformat(as_of))
    with pytest.raises(InvalidMessage, match=r"^as_of: expected the hold's own expires_at"):
        decide(message, HELD)


@pytest.mark.parametrize("message", [posting(), voiding(), expiring(), posting(to_account_id="bob")])
def test_a_resolution_waits_until_its_account_has_a_transaction_with_the_holds_id(message: TransactionMessage) -> None:
    with pytest.raises(UnknownHold, match=r"^hold_id: account 'alice' has no transaction 'h-1'$"):
        decide(message, *(ALICE, BOB)[: len(message.account_ids)])


POSTED_TO_BOB = {
    "all": (posting(to_account_id="bob"), BOB, "60", None),
    "a part": (posting(1, to_account_id="bob"), BOB, "1", None),
    "more than is held": (posting(61, to_account_id="bob"), BOB, "0", RejectionReason.HOLD_EXCEEDED),
    "another currency": (posting(to_account_id="bob"), FRANCS, "0", RejectionReason.CURRENCY_MISMATCH),
    "more than is held, another currency": (
        posting(61, to_account_id="bob"),
        FRANCS,
        "0",
        RejectionReason.HOLD_EXCEEDED,
    ),
    "a closed account": (posting(to_account_id="bob"), CLOSED_BOB, "0", RejectionReason.ACCOUNT_CLOSED),
    "a balance of 39 digits": (
        posting("0.1", to_account_id="bob"),
        replace(BOB, balance=EXACT_BALANCE),
        "0",
        RejectionReason.BALANCE_OUT_OF_RANGE,
    ),
}


@pytest.mark.parametrize(("message", "payee", "amount", "reason"), POSTED_TO_BOB.values(), ids=POSTED_TO_BOB)
def test_a_hold_is_posted_to_another_account_on_both_sides_or_neither(
    message: PostHold, payee: Account, amount: str, reason: RejectionReason | None
) -> None:
    moved = Decimal(amount)
    holds = HELD if reason else replace(HELD, held=Decimal(10), holds=OTHER_HOLD)
    assert decide(message, HELD, payee) == (
        Decided(replace(holds, balance=HELD.balance - moved, version=8), moved.copy_negate(), reason),
        Decided(replace(payee, balance=EXACT.add(payee.balance, moved), version=4), moved, reason),
    )


def entry_of(amount: str, request: TransactionMessage | None = None, account_id: str = "alice") -> JournalEntry:
    message = request or payment(1)
    outcome = Outcome("POSTED", None, Decimal(amount), Decimal(0), 1, NOW, "EUR")
    return JournalEntry(account_id, message.transaction_id, message.canonical_payload(), "hash", outcome)


def reversal_context(entry: JournalEntry, already: str = "0", number: int = 0) -> Context:
    """`already` of the entry's amount was reversed."""
    before = Reversed(*entry.first_entry_id, Decimal(already), number)
    return Context({entry.entry_id: entry}.get, {entry.first_entry_id: before}.__getitem__)


REVERSALS = {
    "a debit": (reversing(), "-30", "0", "30", None),
    "a credit": (reversing(), "30", "0", "-30", None),
    "a part": (reversing(amount="0.5"), "30", "0", "-0.5", None),
    "what is left": (reversing(), "30", "29.5", "-0.5", None),
    "exactly what is left": (reversing(amount="0.5"), "30", "29.5", "-0.5", None),
    "a credit down to the limit": (reversing(), "150", "0", "-150", None),
    "38 digits": (reversing(), f"-{'7' * 36}", "0", "7" * 36, None),
    "more than is left": (reversing(amount="0.51"), "30", "29.5", "0", RejectionReason.REVERSAL_EXCEEDED),
    "nothing left": (reversing(), "30", "30", "0", RejectionReason.ALREADY_REVERSED),
    "nothing left, of a part": (reversing(amount=1), "-30", "30", "0", RejectionReason.ALREADY_REVERSED),
    "nothing moved": (reversing(amount=1), "0", "0", "0", RejectionReason.NOT_REVERSIBLE),
    "below the limit": (reversing(), "150.01", "0", "0", RejectionReason.OVERDRAFT_LIMIT),
    "a rest of 39 digits": (
        reversing(amount="1e-37"),
        "-30",
        "0",
        "0",
        RejectionReason.BALANCE_OUT_OF_RANGE,
    ),
}


@pytest.mark.parametrize(("message", "amount", "already", "effect", "reason"), REVERSALS.values(), ids=REVERSALS)
def test_a_reversal_is_the_opposite_of_what_is_left_or_of_a_part_of_it(
    message: Reverse, amount: str, already: str, effect: str, reason: RejectionReason | None
) -> None:
    context = reversal_context(entry_of(amount), already, number=4)
    [decision] = message.decide([ALICE], context)
    assert (str(decision.amount), decision.reason) == (str(normalized(Decimal(effect))), reason)
    after = EXACT.add(Decimal(already), Decimal(effect).copy_abs())
    assert decision.reversal == Reversal(4 if reason else 5, after)


@pytest.mark.parametrize("amount", ["-30", "0"])
def test_a_transaction_of_which_more_was_reversed_than_its_amount_is_damaged_and_nothing_is_decided(
    amount: str,
) -> None:
    with pytest.raises(ValueError, match=r"'t-1'\): more was reversed of it than its amount$"):
        reversing().decide([ALICE], reversal_context(entry_of(amount), "30.5", number=4))


def test_a_reversal_waits_for_its_transaction() -> None:
    with pytest.raises(UnknownTransaction, match=r"^of_transaction_id: account 'alice' has no transaction 't-1'$"):
        decide(reversing(), ALICE)


SIDES = {
    "the payer's side": ("alice", "-30", (ALICE, BOB), RejectionReason.OVERDRAFT_LIMIT),
    "the payee's side": ("bob", "30", (BOB, ALICE), RejectionReason.OVERDRAFT_LIMIT),
    "a closed payer": ("bob", "30", (BOB, CLOSED), RejectionReason.ACCOUNT_CLOSED),
    "a closed payee": ("alice", "-30", (ALICE, CLOSED_BOB), RejectionReason.ACCOUNT_CLOSED),
    "a payer out of range, and a payee below its limit": (
        "alice",
        "-30",
        (replace(ALICE, balance=Decimal("1e38")), replace(BOB, balance=Decimal(28))),
        RejectionReason.OVERDRAFT_LIMIT,
    ),
}


@pytest.mark.parametrize(("account_id", "amount", "accounts", "reason"), SIDES.values(), ids=SIDES)
def test_both_accounts_of_a_rejected_reversal_have_one_reason(
    account_id: str, amount: str, accounts: tuple[Account, Account], reason: RejectionReason
) -> None:
    """Bob, who has 5, would be debited by 30."""
    context = reversal_context(entry_of(amount, transfer(30), account_id), "1", number=1)
    decisions = reversing(account_id=account_id).decide(accounts, context)
    others = [account.account_id for account in reversed(accounts)]
    assert [decision.reason for decision in decisions] == [reason, reason]
    assert [decision.reversal for decision in decisions] == [Reversal(1, Decimal(1), other) for other in others]


DECIMALS = {
    "an amount": (payment("0.001"), "amount: 3 decimals, expected at most 2, as many as EUR has"),
    "a hold": (hold("0.001"), "amount: 3 decimals, expected at most 2, as many as EUR has"),
    "a posting": (posting("0.001"), "amount: 3 decimals, expected at most 2, as many as EUR has"),
    "a limit": (limit("-0.001"), "overdraft_limit: 3 decimals, expected at most 2, as many as EUR has"),
    "a transfer": (transfer("0.125"), "amount: 3 decimals, expected at most 2, as many as EUR has"),
}


@pytest.mark.parametrize(("message", "sentence"), DECIMALS.values(), ids=DECIMALS)
@pytest.mark.parametrize("status", AccountStatus)
def test_an_amount_with_more_decimals_than_its_account_is_invalid_whatever_else_is_wrong(
    message: TransactionMessage, sentence: str, status: AccountStatus
) -> None:
    accounts = [replace(each, decimal_places=2, status=status) for each in (ALICE, BOB)][: len(message.account_ids)]
    with pytest.raises(InvalidMessage, match=f"^{sentence}$"):
        decide(message, *accounts)


def test_the_payee_may_be_the_one_with_fewer_decimals() -> None:
    with pytest.raises(InvalidMessage, match="at most 0, as many as EUR has"):
        decide(transfer("0.5"), ALICE, replace(BOB, decimal_places=0))


@pytest.mark.parametrize("final", [True, False])
def test_what_remains_of_a_hold_may_be_too_fine_for_the_payee(final: bool) -> None:
    """The payer was opened without the rule, the payee under it. A posting that names an amount is posted."""
    payer = replace(ALICE, held=Decimal("1.125"), holds={"h-1": OpenHold(Decimal("1.125"))})
    payee = replace(BOB, decimal_places=2)
    with pytest.raises(InvalidMessage, match=r"^amount: 3 decimals, expected at most 2, as many as EUR has$"):
        decide(posting(to_account_id="bob", final=final), payer, payee)
    decisions = decide(posting("1.12", to_account_id="bob", final=final), payer, payee)
    assert [decision.amount for decision in decisions] == [Decimal("-1.12"), Decimal("1.12")]
    [decision] = decide(posting(final=final), payer)
    assert decision.amount == Decimal("-1.125")


def test_zeros_at_the_end_are_no_decimals_and_a_rate_may_have_any_number_of_them() -> None:
    account = replace(ALICE, balance=Decimal(-10), decimal_places=0)
    [decision] = decide(payment("1.000"), account)
    assert decision.amount == 1
    [decision] = decide(interest("0.123456"), account)
    assert decision.status is Status.POSTED


@pytest.mark.parametrize(("places", "charged"), [(None, "0.33"), (0, "0"), (2, "0.33"), (3, "0.329"), (4, "0.3288")])
def test_interest_is_rounded_to_the_accounts_decimals(places: int | None, charged: str) -> None:
    account = replace(ALICE, balance=Decimal(-1000), overdraft_limit=Decimal(-2000), decimal_places=places)
    [decision] = decide(interest("0.12"), account)
    assert decision.amount == -Decimal(charged)


OPENED = {"EUR": 2, "JPY": 0, "BHD": 3, "CLF": 4, "XAU": None, "PTS": None}


@pytest.mark.parametrize(("currency", "places"), OPENED.items())
def test_an_account_is_opened_with_its_currencys_decimals(currency: str, places: int | None) -> None:
    message = opening(currency=currency)
    [decision] = message.decide([None], Context())
    assert decision.decimal_places == places
    [decided] = decide(message, None)
    assert decided.account.decimal_places == places
    [decided] = decide(message, None, context=Context(minor_units=no_minor_units))
    assert decided.account.decimal_places is None


def test_an_opening_whose_limit_has_too_many_decimals_is_invalid_only_under_the_rule() -> None:
    message = opening("-0.5", currency="JPY")
    with pytest.raises(InvalidMessage, match=r"^overdraft_limit: 1 decimals, expected at most 0, as many as JPY has$"):
        decide(message, None)
    [decided] = decide(message, None, context=Context(minor_units=no_minor_units))
    assert decided.status is Status.POSTED


class Step(NamedTuple):
    """A decided message, its outcomes, and its accounts afterwards."""

    message: TransactionMessage
    outcomes: tuple[Outcome, ...]
    accounts: tuple[Account, ...]


def steps(day: Sequence[TransactionMessage]) -> list[Step]:
    """The messages of the day in order, each under an id of its own, without those that wait or are invalid."""
    ledger, decided = Ledger(minor_units=False), []
    for message in day:
        with contextlib.suppress(NotYet):
            outcomes = ledger.decide(message)
            ids = message.all_account_ids(Context(ledger.entries.get))
            decided.append(Step(message, outcomes, tuple(ledger.accounts[account_id] for account_id in ids)))
    return decided


def stories(day: Sequence[TransactionMessage]) -> list[list[tuple[Account, Outcome]]]:
    """Each account's states and outcomes, in order."""
    stories: dict[str, list[tuple[Account, Outcome]]] = {}
    for step in steps(day):
        for account, outcome in zip(step.accounts, step.outcomes, strict=True):
            stories.setdefault(account.account_id, []).append((account, outcome))
    return list(stories.values())


AFTER_ITS_END = {"type": "charge_interest", "account_id": "e", "transaction_id": "late", "annual_rate": "0.12"}
LIFE = [decode(json.dumps(step)) for step in (*life_of("e"), AFTER_ITS_END)]


def days(messages: st.SearchStrategy[TransactionMessage], limit: str) -> st.SearchStrategy[list[TransactionMessage]]:
    """Forty messages after the openings. Each has an id of its own, and most of those that refer to one find it."""
    openings: list[TransactionMessage] = [opening(limit, account_id=name) for name in ("alice", "bob")]
    return that_refer(st.lists(messages, max_size=40).map(numbered)).map(lambda day: openings + day + LIFE)


whose = (st.sampled_from(["alice", "bob"]), st.integers(0, 40).map(lambda number: f"t-{number}"))
extreme_limits = exact_numbers().map(lambda number: -abs(number))
any_day = days(messages_of(*whose), "-1000") | days(
    messages_of(*whose, exact_numbers(), extreme_limits, exact_rates()), "-9.9e125"
)


@given(any_day)
def test_a_decisions_numbers_are_spelled_as_dynamodb_would_give_them_back(day: list[TransactionMessage]) -> None:
    """So an outcome is spelled the same, whether its account was in memory or read from the table."""
    for account, outcome in itertools.chain.from_iterable(stories(day)):
        numbers = [outcome.amount, account.balance, account.held]
        numbers += [each.remaining for each in account.open_holds.values()]
        numbers += [outcome.reversal.reversed_after] if outcome.reversal else []
        assert [str(number) for number in numbers] == [str(normalized(number)) for number in numbers]


@given(any_day)
def test_versions_are_1_to_n_without_gaps(day: list[TransactionMessage]) -> None:
    for story in stories(day):
        assert [account.version for account, _ in story] == list(range(1, len(story) + 1))


@given(any_day)
def test_there_is_a_decision_for_each_of_a_messages_accounts(day: list[TransactionMessage]) -> None:
    for step in steps(day):
        assert tuple(account.account_id for account in step.accounts)[: len(step.message.account_ids)] == (
            step.message.account_ids
        )
        assert len(step.outcomes) == len(step.accounts)
        assert len({outcome.reason for outcome in step.outcomes}) == 1


@given(any_day)
def test_no_version_is_below_its_limit_with_all_its_holds_counted(day: list[TransactionMessage]) -> None:
    for account, _ in itertools.chain.from_iterable(stories(day)):
        assert Fraction(account.balance) - Fraction(account.held) >= Fraction(account.overdraft_limit)


@given(any_day)
def test_what_is_held_is_the_sum_of_the_open_holds_and_each_has_something_left(day: list[TransactionMessage]) -> None:
    for account, outcome in itertools.chain.from_iterable(stories(day)):
        assert Fraction(account.held) == sum(Fraction(each.remaining) for each in account.open_holds.values())
        assert outcome.held_after == account.held
        assert all(each.remaining > 0 for each in account.open_holds.values())
        assert len(account.open_holds) <= MOST_OPEN_HOLDS


@given(any_day)
def test_a_hold_is_placed_once_and_gives_no_more_than_its_amount_and_nothing_after_its_end(
    day: list[TransactionMessage],
) -> None:
    left: dict[str, Fraction] = {}
    for step in steps(day):
        if step.outcomes[0].status != Status.POSTED:
            continue
        match step.message:
            case Hold(transaction_id=hold_id, amount=amount):
                assert hold_id not in left
                left[hold_id] = Fraction(amount)
            case PostHold(hold_id=hold_id, final=final):
                taken = -Fraction(step.outcomes[0].amount)
                assert 0 < taken <= left[hold_id]
                left[hold_id] = Fraction(0) if final else left[hold_id] - taken
            case VoidHold(hold_id=hold_id) | ExpireHold(hold_id=hold_id):
                assert left[hold_id] > 0
                left[hold_id] = Fraction(0)
        for name, each in itertools.chain.from_iterable(account.open_holds.items() for account in step.accounts):
            assert Fraction(each.remaining) == left[name]


@given(any_day)
def test_a_transaction_is_never_reversed_by_more_than_its_amount(day: list[TransactionMessage]) -> None:
    amounts: dict[tuple[str, str], Fraction] = {}
    reversed_amounts: dict[tuple[str, str], Fraction] = {}
    numbers: dict[tuple[str, str], int] = {}
    for step in steps(day):
        for account, outcome in zip(step.accounts, step.outcomes, strict=True):
            amounts[account.account_id, step.message.transaction_id] = Fraction(outcome.amount)
            if not isinstance(step.message, Reverse):
                assert outcome.reversal is None
                continue
            entry = (account.account_id, step.message.of_transaction_id)
            effect, so_far = Fraction(outcome.amount), reversed_amounts.get(entry, Fraction(0))
            if outcome.status == Status.POSTED:
                assert effect * amounts[entry] < 0
                numbers[entry] = numbers.get(entry, 0) + 1
            reversed_amounts[entry] = so_far + abs(effect)
            assert reversed_amounts[entry] <= abs(amounts[entry])
            assert outcome.reversal
            assert Fraction(outcome.reversal.reversed_after) == reversed_amounts[entry]
            assert outcome.reversal.number == numbers.get(entry, 0)
            others = [each.account_id for each in step.accounts if each is not account]
            assert outcome.reversal.other_account_id == (others[0] if others else None)


@given(any_day)
def test_the_balance_is_exactly_the_sum_of_the_amounts(day: list[TransactionMessage]) -> None:
    for story in stories(day):
        total = Fraction(0)
        for account, outcome in story:
            total += Fraction(outcome.amount)
            assert Fraction(account.balance) == total


def moves_between_two(step: Step) -> bool:
    return len(step.accounts) == 2


@given(any_day)
def test_only_what_is_posted_moves_money_and_between_two_accounts_it_moves_from_one_to_the_other(
    day: list[TransactionMessage],
) -> None:
    for step in steps(day):
        amounts = [outcome.amount for outcome in step.outcomes]
        if step.outcomes[0].status != Status.POSTED:
            assert not any(amounts)
            continue
        match step.message:
            case Transaction(amount=amount):
                assert amounts == [amount]
            case ChargeInterest():
                assert amounts[0] <= 0
            case Transfer(amount=amount):
                assert amounts == [amount.copy_negate(), amount]
            case PostHold(amount=amount):
                assert amounts[0] < 0
                assert amount in (None, amounts[0].copy_negate())
                assert amounts[1:] == [amounts[0].copy_negate()] * len(amounts[1:])
            case Reverse(amount=amount):
                assert amounts[0] != 0
                assert amount in (None, amounts[0].copy_abs())
                assert amounts[1:] == [amounts[0].copy_negate()] * len(amounts[1:])
            case _:
                assert not any(amounts)


@given(any_day)
def test_money_comes_and_goes_by_what_has_one_account_alone(day: list[TransactionMessage]) -> None:
    balances = sum(Fraction(story[-1][0].balance) for story in stories(day))
    of_one = [step.outcomes[0].amount for step in steps(day) if not moves_between_two(step)]
    assert balances == sum(map(Fraction, of_one))


@given(any_day)
def test_a_rejection_changes_nothing_but_the_version_whatever_was_before(day: list[TransactionMessage]) -> None:
    for story in stories(day):
        for (before, _), (after, outcome) in itertools.pairwise(story):
            if outcome.status == Status.REJECTED:
                assert after == replace(before, version=after.version)


@given(any_day)
def test_the_same_messages_get_the_same_decisions(day: list[TransactionMessage]) -> None:
    assert steps(day) == steps(day)


@given(any_day)
def test_a_closed_account_stays_as_it_is(day: list[TransactionMessage]) -> None:
    for story in stories(day):
        closed = [account for account, _ in story if account.status is AccountStatus.CLOSED]
        assert len({repr(replace(account, version=0)) for account in closed}) <= 1


def test_the_days_have_posted_and_rejected_transactions_of_all_types() -> None:
    """So that the properties say something of each of them."""
    seen: set[tuple[str, str]] = set()

    @settings(max_examples=600, phases=[Phase.generate], database=None, derandomize=True)
    @given(any_day)
    def collect(day: list[TransactionMessage]) -> None:
        seen.update((type(step.message).__name__, step.outcomes[0].status) for step in steps(day))

    collect()
    missing = {(each.__name__, status) for each in TRANSACTION_TYPES.values() for status in Status} - seen
    assert not missing, "a type with one account has its step in life_of, tests/support/samples.py"
