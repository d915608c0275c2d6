"""The rules of each transaction type: every decision and its reason.

`tests/checkers/test_oracle.py` has days of messages of all types, decided by the rules and by the oracle.
"""

import contextlib
import json
import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes import EXACT
from ledger.core.accounts import Account, AccountStatus, Frozen
from ledger.core.holds import MOST_OPEN_HOLDS, OpenHold
from ledger.core.interest import MILLISECONDS_PER_YEAR, Interest
from ledger.core.journal import EntryId, JournalEntry, Outcome
from ledger.core.reason_codes import InvalidMessage, NotYet, UnknownAccount, UnknownHold, UnknownTransaction
from ledger.core.reversals import Reversal, Reversed
from ledger.core.transaction_types import ExpireHold, PostHold, Reverse, Transfer, decode
from ledger.core.transaction_types.base import Context, TransactionMessage
from ledger.core.values import normalized
from tests.checkers.books import Books
from tests.checkers.small_books import post_messages
from tests.support import samples
from tests.support.numbers import exact_numbers
from tests.support.rules import Decided, decide
from tests.support.samples import (
    ALICE,
    BOB,
    CLOSED,
    IMPORTED,
    NOW,
    alice,
    bob,
    changed,
    closing,
    compound,
    expiring,
    freeze,
    hold,
    importing,
    interest,
    legs_of,
    limit,
    opening,
    payment,
    posting,
    rate,
    reversing,
    transfer,
    voiding,
)
from tests.support.strategies import exact_rates, messages_of, numbered, that_refer

EXPIRY = "2026-03-01T11:00:00+00:00"
REST = {"h-2": 10}
HELD = alice(holds={"h-1": OpenHold(Decimal(60), EXPIRY), **REST})
"""100 with a limit of -50, of which 70 are held: 80 are available."""
FULL = alice(holds={f"h-{number}": 1 for number in range(MOST_OPEN_HOLDS)})
ICED, NO_DEBITS, NO_CREDITS = (alice(frozen=Frozen(*each)) for each in ((True, True), (True, False), (False, True)))
LEFT, OVER = {"h-1": OpenHold(Decimal("59.5"), EXPIRY)}, OpenHold(Decimal(60), NOW)
FOR_DEBITS = Frozen(debits=True)
IN_DEBT = changed(HELD, balance=-100)
RATE = Decimal("0.12")
whose = (st.sampled_from(["alice", "bob"]), st.integers(0, 40).map(lambda number: f"t-{number}"))
extreme_limits = exact_numbers().map(lambda number: -abs(number))
messages = messages_of(*whose) | messages_of(*whose, exact_numbers(), extreme_limits, exact_rates())


def charged(accrued: str) -> dict[str, Any]:
    return {"interest": Interest(RATE, accrued=Decimal(accrued) * MILLISECONDS_PER_YEAR)}


def due(amount: str, accrued: str = "0", balance: object = 0, **fields: Any) -> Account:
    """Alice, with interest that is due, and another amount that has accrued since."""
    interest = Interest(RATE, Decimal(amount), Decimal(accrued) * MILLISECONDS_PER_YEAR)
    return alice(balance=balance, interest=interest, **fields)


POSTED: dict[str, tuple[TransactionMessage, Account, dict[str, Any]]] = {
    "a credit": (payment(25), ALICE, {"balance": 125}),
    "a debit": (payment(-25), ALICE, {"balance": 75}),
    "a debit down to the limit": (payment(-150), ALICE, {"balance": -50}),
    "a cent's credit below the limit": (payment("0.01"), alice(balance=-100), {"balance": "-99.99"}),
    "an amount in the account's currency": (payment(1, "EUR"), ALICE, {"balance": 101}),
    "a lower limit": (limit(-80), ALICE, {"overdraft_limit": -80}),
    "a higher limit": (limit(0), ALICE, {"overdraft_limit": 0}),
    "a lower limit that is still above the balance": (limit(-80), alice(balance=-100), {"overdraft_limit": -80}),
    "a limit at the balance": (limit(-20), alice(balance=-20), {"overdraft_limit": -20}),
    "a freeze": (freeze(credits=False), ALICE, {"frozen": Frozen(debits=True)}),
    "the end of a freeze": (freeze(debits=False, credits=False), ICED, {"frozen": Frozen()}),
    "interest on a frozen account": (interest(), due("3", frozen=ICED.frozen), {"balance": -3, **charged("0")}),
    "a void on a frozen account": (voiding(), changed(ICED, holds={"h-1": 60}), {"holds": {}}),
    "an expiry on a frozen account": (expiring(), changed(ICED, holds={"h-1": OVER}), {"holds": {}}),
    "a limit of a frozen account": (limit(-80), ICED, {"overdraft_limit": -80}),
    "a credit of an account that is frozen for debits": (payment(1), NO_DEBITS, {"balance": 101}),
    "a debit of an account that is frozen for credits": (payment(-1), NO_CREDITS, {"balance": 99}),
    "a hold on an account that is frozen for credits": (hold(1), NO_CREDITS, {"holds": {"h-1": 1}}),
    "a closing of a frozen account": (closing(), changed(ICED, balance=0), {"status": AccountStatus.CLOSED}),
    "a forced debit below the limit": (payment("-150.01", forced=True), ALICE, {"balance": "-50.01"}),
    "a forced debit of a frozen account": (payment(-1, forced=True), ICED, {"balance": 99}),
    "a forced debit of held money": (payment("-80.01", forced=True), HELD, {"balance": "19.99"}),
    "a closing at zero": (closing(), alice(balance=0), {"status": AccountStatus.CLOSED}),
    "a closing with less than a cent": (closing(), due("0", "0.0099", overdraft_limit=0), {"status": "CLOSED"}),
    "a rate": (rate("0.12"), ALICE, {"interest": Interest(RATE)}),
    "another rate: what has accrued is due": (
        rate("0.05"),
        due("3", "1.2345"),
        {"interest": Interest(Decimal("0.05"), Decimal("4.23"), Decimal("0.0045") * MILLISECONDS_PER_YEAR)},
    ),
    "interest below the limit": (interest(), due("3.21", "0.5", -50), {"balance": "-53.21", **charged("0.5")}),
    "interest of held money": (interest(), due("3", balance=0, holds={"h-1": 50}), {"balance": -3, **charged("0")}),
    "interest of nothing": (interest(), due("0", "0.5", -60), {}),
    "interest of an account that has none": (interest(), alice(balance=-60), {}),
    "a first hold": (hold(150), ALICE, {"holds": {"h-1": 150}}),
    "a further hold, with its expiry in UTC": (
        hold("79.5", "h-3", expires_at="2026-03-01T12:00:00+05:30"),
        HELD,
        {"holds": {**HELD.open_holds, "h-3": OpenHold(Decimal("79.5"), "2026-03-01T06:30:00+00:00")}},
    ),
    "the whole hold": (posting(), HELD, {"balance": 40, "holds": REST}),
    "the hold's amount, which isn't final": (posting(60, final=False), HELD, {"balance": 40, "holds": REST}),
    "a part, and the rest is released": (posting("0.5"), HELD, {"balance": "99.5", "holds": REST}),
    "a part, and the rest stays": (posting("0.5", final=False), HELD, {"balance": "99.5", "holds": {**LEFT, **REST}}),
    "a hold down to the limit": (posting(), changed(HELD, balance=20), {"balance": -40, "holds": REST}),
    "a hold of an account below its limit": (posting(), IN_DEBT, {"balance": -160, "holds": REST}),
    "a void": (voiding(), HELD, {"holds": REST}),
    "a void of the last one": (voiding(), alice(holds={"h-1": 60}), {"holds": {}}),
    "an expiry at the instant, in another offset": (expiring("2026-03-01T12:00:00+01:00"), HELD, {"holds": REST}),
    "a debit of what isn't held": (payment(-80), HELD, {"balance": 20}),
    "a credit of an account that has too much held": (payment(1), changed(HELD, balance=-1), {"balance": 0}),
}


@pytest.mark.parametrize(("message", "before", "changes"), POSTED.values(), ids=POSTED)
def test_what_is_posted_changes_accounts(message: TransactionMessage, before: Account, changes: dict[str, Any]) -> None:
    after = changed(before, **changes, version=before.version + 1)
    assert decide(message, before) == (Decided(after, after.balance - before.balance),)


def entry_of(amount: str, request: TransactionMessage | None = None, account_id: str = "alice") -> JournalEntry:
    message = request or payment(1)
    outcome = Outcome("POSTED", None, Decimal(amount), Decimal(0), 1, NOW, "EUR")
    return samples.entry_of(message, outcome, account_id)


KNOWN = Context(lambda entry_id: entry_of("1") if entry_id == EntryId("alice", "h-9") else None)
"""The account has an entry with the id h-9, and no such hold."""
FINEST = "0.0000000000000000000000000000000000000001"
LARGE = alice(balance="9e125")
REJECTED = {
    "a debit below the limit": (payment("-150.01"), ALICE, "OVERDRAFT_LIMIT"),
    "a limit above the balance": (limit(-19), alice(balance=-20), "OVERDRAFT_LIMIT"),
    "a higher limit of an account below it": (limit(-49), alice(balance=-100), "OVERDRAFT_LIMIT"),
    "an amount in another currency": (payment(1, "CHF"), ALICE, "CURRENCY_MISMATCH"),
    "a debit in another currency, below the limit": (payment(-999, "CHF"), ALICE, "CURRENCY_MISMATCH"),
    "a credit of a closed account": (payment(1), CLOSED, "ACCOUNT_CLOSED"),
    "another currency on a closed account": (payment(1, "CHF"), CLOSED, "ACCOUNT_CLOSED"),
    "a freeze of a closed account": (freeze(), CLOSED, "ACCOUNT_CLOSED"),
    "a debit of a frozen account, below the limit": (payment(-999), NO_DEBITS, "ACCOUNT_FROZEN"),
    "a credit of a frozen account": (payment(1), NO_CREDITS, "ACCOUNT_FROZEN"),
    "a cent's credit of a frozen account": (payment("0.01"), NO_CREDITS, "ACCOUNT_FROZEN"),
    "a hold on a frozen account that has too many": (hold(1, "h"), changed(FULL, frozen=FOR_DEBITS), "ACCOUNT_FROZEN"),
    "a posting of a hold of a frozen account": (posting(), replace(HELD, frozen=FOR_DEBITS), "ACCOUNT_FROZEN"),
    "a limit of a closed account": (limit(-1), CLOSED, "ACCOUNT_CLOSED"),
    "a closing of a closed account": (closing(), CLOSED, "ACCOUNT_CLOSED"),
    "interest on a closed account": (interest(), CLOSED, "ACCOUNT_CLOSED"),
    "a rate of a closed account": (rate(), CLOSED, "ACCOUNT_CLOSED"),
    "a second opening": (opening(), ALICE, "ACCOUNT_EXISTS"),
    "an opening of a closed account": (opening(), CLOSED, "ACCOUNT_EXISTS"),
    "a closing with money left": (closing(), ALICE, "BALANCE_NOT_ZERO"),
    "a closing with a debt": (closing(), alice(balance="-0.01"), "BALANCE_NOT_ZERO"),
    "a balance of 39 digits": (payment("1e-36"), ALICE, "BALANCE_OUT_OF_RANGE"),
    "a balance beyond DynamoDB's": (payment("9e125"), LARGE, "BALANCE_OUT_OF_RANGE"),
    "a forced debit in another currency": (payment(-1, "CHF", forced=True), ALICE, "CURRENCY_MISMATCH"),
    "a forced debit to 39 digits": (payment(-1000, forced=True), alice(balance=FINEST), "BALANCE_OUT_OF_RANGE"),
    "a debit below the limit, to 39 digits": (payment(-1000), alice(balance=FINEST), "BALANCE_OUT_OF_RANGE"),
    "interest of 39 digits": (interest(), due("1" * 39), "BALANCE_OUT_OF_RANGE"),
    "interest to a balance of 39 digits": (interest(), due("0.01", balance="-1e37"), "BALANCE_OUT_OF_RANGE"),
    "a hold of more than is available": (hold("150.01"), ALICE, "OVERDRAFT_LIMIT"),
    "a hold of more than other holds leave": (hold("80.01", "h-3"), HELD, "OVERDRAFT_LIMIT"),
    "a hold on a closed account": (hold(), CLOSED, "ACCOUNT_CLOSED"),
    "an import of an account that is open": (importing(9, holds={"h": {"amount": 1}}), ALICE, "ACCOUNT_EXISTS"),
    "a hold under the id of an imported one": (hold(1, "h-2"), HELD, "HOLD_EXISTS"),
    "a 21st hold": (hold(999, "h-20"), FULL, "TOO_MANY_HOLDS"),
    "holds whose sum has 39 digits": (hold("1e-37", "h-3"), changed(HELD, balance="1e37"), "BALANCE_OUT_OF_RANGE"),
    "holds beyond DynamoDB's": (hold("9e125", "h-2"), changed(LARGE, holds={"h-1": "9e125"}), "BALANCE_OUT_OF_RANGE"),
    "a debit of held money": (payment("-80.01"), HELD, "OVERDRAFT_LIMIT"),
    "a limit above what isn't held": (limit("-0.01"), changed(HELD, balance=69), "OVERDRAFT_LIMIT"),
    "more than is held": (posting("60.01"), HELD, "HOLD_EXCEEDED"),
    "a rest of 39 digits": (posting("1e-37", final=False), HELD, "BALANCE_OUT_OF_RANGE"),
    "a posting of no open hold": (posting(hold_id="h-9"), HELD, "HOLD_NOT_OPEN"),
    "a posting on an account that never had a hold": (posting(hold_id="h-9"), ALICE, "HOLD_NOT_OPEN"),
    "a posting of no open hold, of too much": (posting(999, hold_id="h-9"), HELD, "HOLD_NOT_OPEN"),
    "a posting on a closed account": (posting(hold_id="h-9"), CLOSED, "ACCOUNT_CLOSED"),
    "a void of no open hold": (voiding(hold_id="h-9"), HELD, "HOLD_NOT_OPEN"),
    "an expiry of no open hold": (expiring(hold_id="h-9"), HELD, "HOLD_NOT_OPEN"),
    "an expiry before the time": (expiring("2026-03-01T10:59:59.999999+00:00"), HELD, "HOLD_NOT_EXPIRED"),
    "an expiry of a hold without": (expiring("9999-01-01T00:00:00Z", hold_id="h-2"), HELD, "HOLD_NOT_EXPIRED"),
    "a closing with a hold": (closing(), changed(HELD, balance=0), "HOLDS_OPEN"),
    "a closing with money and a hold": (closing(), HELD, "BALANCE_NOT_ZERO"),
    "a closing with interest that is due": (closing(), due("0.01"), "INTEREST_NOT_CHARGED"),
    "a closing with a cent of interest that has accrued": (closing(), due("0", "0.01"), "INTEREST_NOT_CHARGED"),
}


@pytest.mark.parametrize(("message", "account", "reason"), REJECTED.values(), ids=REJECTED)
def test_what_is_rejected_changes_the_version_only(message: TransactionMessage, account: Account, reason: str) -> None:
    expected = Decided(replace(account, version=account.version + 1), Decimal(0), reason)
    assert decide(message, account, context=KNOWN) == (expected,)


MOST = 38 * "9"
FRANCS = bob(currency="CHF")
CLOSED_BOB = bob(balance=0, status=AccountStatus.CLOSED)
CLOSED_FRANCS = changed(CLOSED_BOB, currency="CHF")
TRANSFERS = {
    "within the balance": (transfer(25), ALICE, BOB, None),
    "that is forced": (transfer(999, forced=True), NO_DEBITS, bob(frozen=Frozen(credits=True)), None),
    "of a frozen payer": (transfer(1), NO_DEBITS, BOB, "ACCOUNT_FROZEN by alice"),
    "to a frozen payee": (transfer(1), ALICE, bob(frozen=Frozen(credits=True)), "ACCOUNT_FROZEN by bob"),
    "to a payee frozen for debits": (transfer(25), NO_CREDITS, bob(frozen=Frozen(debits=True)), None),
    "down to the payer's limit": (transfer(150), ALICE, BOB, None),
    "to one in debt": (transfer(25), ALICE, bob(balance=-90, overdraft_limit=-90), None),
    "of 38 digits": (transfer(MOST), alice(balance=MOST), bob(balance=0), None),
    "below the payer's limit": (transfer("150.01"), ALICE, BOB, "OVERDRAFT_LIMIT by alice"),
    "from a closed account": (transfer(), CLOSED, BOB, "ACCOUNT_CLOSED by alice"),
    "to a closed account": (transfer(), ALICE, CLOSED_BOB, "ACCOUNT_CLOSED by bob"),
    "to a closed account, below the payer's limit": (transfer(999), ALICE, CLOSED_BOB, "ACCOUNT_CLOSED by bob"),
    "to a closed account in another currency": (transfer(), ALICE, CLOSED_FRANCS, "ACCOUNT_CLOSED by bob"),
    "into another currency": (transfer(), ALICE, FRANCS, "CURRENCY_MISMATCH"),
    "into another currency, below the payer's limit": (transfer(999), ALICE, FRANCS, "CURRENCY_MISMATCH"),
    "leaving a balance of 39 digits": (transfer("1e-37"), ALICE, BOB, "BALANCE_OUT_OF_RANGE by alice"),
    "making a balance of 39 digits": (transfer("0.1"), ALICE, bob(balance=MOST), "BALANCE_OUT_OF_RANGE by bob"),
    "to a balance beyond DynamoDB's": (transfer("9e125"), LARGE, bob(balance="9e125"), "BALANCE_OUT_OF_RANGE by bob"),
    "below the payer's limit, to 39 digits": (transfer("150.1"), ALICE, bob(balance=MOST), "OVERDRAFT_LIMIT by alice"),
}


def reason_and_account(rejection: str | None) -> tuple[str | None, str | None]:
    reason, _, account_id = (rejection or "").partition(" by ")
    return reason or None, account_id or None


def decided_on(account: Account, moved: Decimal, rejection: str | None) -> Decided:
    """The account's next version, after so much was moved, or nothing if it is rejected."""
    reason, by = reason_and_account(rejection)
    amount = Decimal(0) if reason else moved
    after = replace(account, balance=EXACT.add(account.balance, amount), version=account.version + 1)
    return Decided(after, amount, reason, rejecting_account_id=by)


@pytest.mark.parametrize(("message", "payer", "payee", "rejection"), TRANSFERS.values(), ids=TRANSFERS)
def test_a_transfer_takes_from_one_account_and_gives_to_another_or_is_rejected_on_both_for_one_reason(
    message: Transfer, payer: Account, payee: Account, rejection: str | None
) -> None:
    paid = decided_on(payer, message.amount.copy_negate(), rejection)
    assert decide(message, payer, payee) == (paid, decided_on(payee, message.amount, rejection))


CAROL = replace(BOB, account_id="carol", version=1)
FEE = (-30, 29, 1)
DOLLARS = [replace(BOB, account_id=name, currency="USD", balance=Decimal(9)) for name in ("dan", "eve")]
COMPOUNDS = {
    "a payment with its fee": (FEE, (ALICE, BOB, CAROL), None),
    "of a poor third": ((10, -3, -7), (ALICE, BOB, CAROL), "OVERDRAFT_LIMIT by carol"),
    "in two currencies": ((-30, 30, -8, 8), (ALICE, BOB, *DOLLARS), None),
    "across currencies": ((-30, 30), (ALICE, DOLLARS[0]), "CURRENCY_MISMATCH"),
    "across currencies, poor": ((-300, 300), (ALICE, DOLLARS[0]), "CURRENCY_MISMATCH"),
    "of a poor home": ((-300, 299, 1), (ALICE, BOB, CAROL), "OVERDRAFT_LIMIT by alice"),
    "of two that are poor": ((300, -6, -294), (ALICE, BOB, CAROL), "OVERDRAFT_LIMIT by bob"),
    "to a closed account, poor": ((-300, 299, 1), (ALICE, CLOSED_BOB, CAROL), "ACCOUNT_CLOSED by bob"),
    "to a frozen account": (FEE, (ALICE, BOB, replace(CAROL, frozen=Frozen(credits=True))), "ACCOUNT_FROZEN by carol"),
}


@pytest.mark.parametrize(("amounts", "accounts", "rejection"), COMPOUNDS.values(), ids=COMPOUNDS)
def test_all_legs_of_a_compound_are_posted_or_none(
    amounts: Sequence[int], accounts: Sequence[Account], rejection: str | None
) -> None:
    message = compound(*zip([account.account_id for account in accounts], amounts, strict=True))
    sides = zip(accounts, map(Decimal, amounts), strict=True)
    assert decide(message, *accounts) == tuple(decided_on(*side, rejection) for side in sides)


COMPOUND = {"type": "compound", "transaction_id": "t-1"}
POSTING = {"type": "post_hold", "transaction_id": "p-1", "account_id": "alice", "hold_id": "h-1"}


@pytest.mark.parametrize(
    ("body", "legs", "sentence"),
    [
        (COMPOUND, [("alice", -5), ("bob", 4)], "legs: the amounts sum to -1, expected 0"),
        (
            COMPOUND,
            [("alice", "-1e100"), ("bob", "1e100"), ("carol", "1e-100")],
            f"legs: the amounts sum to 0.{'0' * 99}1",
        ),
        (
            COMPOUND,
            [("alice", -5), ("bob", 3), ("alice", 2)],
            "legs: expected each account once, got 2 legs of 'alice'",
        ),
        (COMPOUND, [("alice", 0), ("bob", 0)], "legs[0].amount: expected a number other than zero"),
        (COMPOUND, [("alice", -1)], "legs: expected `array` of length >= 2"),
        (COMPOUND, [(f"a-{number}", (-1) ** number) for number in range(22)], "legs: expected `array` of length <= 20"),
        (COMPOUND, [("alice", -1), ("bob\u200b", 1)], "legs[1].account_id: U+200B at character 4 can't be seen"),
        (COMPOUND, [("alice", -1), ("bob", "+1")], 'legs[1].amount: expected a decimal number, such as "12.50"'),
        (POSTING | {"amount": 4}, [("bob", 5)], "amount: expected 5, the sum of the legs, or none"),
        (POSTING | {"to_account_id": "carol"}, [("bob", 5)], "to_account_id: expected none beside legs"),
        (POSTING, [("bob", 5), ("alice", 1)], "legs: expected other accounts than account_id"),
        (POSTING, [("bob", 5), ("carol", -1)], "legs[1].amount: expected a number greater than zero"),
        (POSTING, [("bob", 5), ("bob", 1)], "legs: expected each account once, got 2 legs of 'bob'"),
        (POSTING, [("bob", "1e100"), ("carol", 1)], "legs: their sum: 101 digits, expected at most 38"),
        (POSTING, [], "legs: expected `array` of length >= 1"),
        (POSTING, [("bob", "+1")], 'legs[0].amount: expected a decimal number, such as "12.50"'),
    ],
)
def test_legs_that_no_accounts_make_valid_are_refused_with_a_sentence(
    body: dict[str, Any], legs: Sequence[tuple[str, object]], sentence: str
) -> None:
    named = {"legs": [{"account_id": name, "amount": amount} for name, amount in legs]}
    with pytest.raises(InvalidMessage, match=f"^{re.escape(sentence)}"):
        decode(json.dumps(body | named))


def test_each_leg_keeps_to_the_decimals_of_its_own_account() -> None:
    yen = [replace(each, currency="JPY", decimal_places=0) for each in (ALICE, BOB)]
    euros = [replace(each, decimal_places=2) for each in (CAROL, replace(CAROL, account_id="dave"))]
    legs = [("alice", -5), ("bob", 5), ("dave", "0.25"), ("carol", "-0.25")]
    assert {each.reason for each in decide(compound(*legs), *yen, *reversed(euros))} == {None}
    with pytest.raises(InvalidMessage, match=r"^legs\[2\]\.amount: 2 decimals, expected at most 0, as many as JPY"):
        decide(compound(*legs), *euros, *yen)
    finer = posting(legs=legs_of(("bob", "0.25"), ("carol", "0.25")))
    accounts = [replace(HELD, decimal_places=1), replace(BOB, decimal_places=1), replace(CAROL, decimal_places=2)]
    with pytest.raises(InvalidMessage, match=r"^legs\[0\]\.amount: 2 decimals, expected at most 1, as many as EUR"):
        decide(finer, *accounts)
    others = (replace(BOB, decimal_places=2), accounts[2])
    assert {each.reason for each in decide(finer, accounts[0], *others)} == {None}
    with pytest.raises(InvalidMessage, match=r"^amount: 1 decimals, expected at most 0"):
        decide(finer, replace(accounts[0], decimal_places=0), *others)
    finer_in_sum = posting(legs=legs_of(("bob", 1), ("carol", "0.25")))
    payers = replace(HELD, decimal_places=2)
    assert {each.reason for each in decide(finer_in_sum, payers, replace(BOB, decimal_places=0), others[1])} == {None}


SOURCES = {
    "another currency": ({"currency": "CHF"}, "its currency is CHF"),
    "a closed account": ({"status": AccountStatus.CLOSED}, "it is closed"),
    "to 39 digits": ({"balance": MOST, "decimal_places": None}, "its balance would need more than 38 digits"),
}


@pytest.mark.parametrize(("source", "why"), SOURCES.values(), ids=SOURCES)
def test_an_import_whose_balance_another_account_cannot_give_is_invalid(source: dict[str, object], why: str) -> None:
    message = importing("-0.5", account_id="carol", from_account_id="bob")
    with pytest.raises(InvalidMessage, match=f"^from_account_id: 'bob' can't give the balance: {why}$"):
        decide(message, None, changed(BOB, **source))


def test_the_leg_of_an_account_that_has_not_been_opened_is_named() -> None:
    with pytest.raises(UnknownAccount, match=r"^legs\[1\]\.account_id: no account 'bob' has been opened$"):
        decide(compound(("alice", -1), ("bob", 1)), ALICE, None)


def test_a_balance_comes_from_another_account_whatever_its_limit_or_both_reject_it() -> None:
    message = importing(30, account_id="carol", from_account_id="bob")
    with pytest.raises(UnknownAccount, match=r"^from_account_id: no account 'bob' has been opened$"):
        decide(message, None, None)
    assert [(each.amount, each.account.balance) for each in decide(message, None, BOB)] == [(30, 30), (-30, -25)]
    rejected = {(each.amount, each.reason, each.rejecting_account_id) for each in decide(message, CAROL, BOB)}
    assert rejected == {(0, "ACCOUNT_EXISTS", "carol")}


TOO_EARLY = "0001-01-01T00:00:00+01:00"
HOLDS = {
    "an id that can't be seen": ({"a\u200b": {"amount": 1}}, "holds: U+200B at character 2 can't be seen"),
    "nothing held": ({"h": {"amount": 0}}, "holds: h: amount: expected a number greater than zero"),
    "39 digits": ({"h": {"amount": "1" * 39}}, "holds: h: amount: 39 digits, expected at most 38"),
    "a sum of 39 digits": ({"a": {"amount": 1}, "b": {"amount": "1e-38"}}, "holds: their sum would need"),
    "another spelling": ({"h": {"amount": "1_0"}}, "holds: h: amount: expected a decimal number"),
    "no time in UTC": ({"h": {"amount": 1, "expires_at": TOO_EARLY}}, "holds: h: expires_at: expected a time between"),
    "21 holds": ({str(number): {"amount": 1} for number in range(21)}, "holds: expected `object` of length <= 20"),
    "a field that a hold doesn't have": ({"h": {"amount": 1, "final": True}}, "holds"),
}


@pytest.mark.parametrize(("holds", "sentence"), HOLDS.values(), ids=HOLDS)
def test_the_holds_of_an_import_are_checked_as_a_message_is(holds: dict[str, Any], sentence: str) -> None:
    body = {"type": "import_account", "transaction_id": "i", "account_id": "a"} | IMPORTED | {"holds": holds}
    with pytest.raises(InvalidMessage, match="^" + re.escape(sentence)):
        decode(json.dumps(body))


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
    "all": (posting(to_account_id="bob"), BOB, 60, None),
    "a part": (posting(1, to_account_id="bob"), BOB, 1, None),
    "more than is held": (posting(61, to_account_id="bob"), BOB, 0, "HOLD_EXCEEDED by alice"),
    "another currency": (posting(to_account_id="bob"), FRANCS, 0, "CURRENCY_MISMATCH"),
    "more than is held, another currency": (posting(61, to_account_id="bob"), FRANCS, 0, "HOLD_EXCEEDED by alice"),
    "a closed account": (posting(to_account_id="bob"), CLOSED_BOB, 0, "ACCOUNT_CLOSED by bob"),
    "a frozen account": (posting(to_account_id="bob"), bob(frozen=Frozen(credits=True)), 0, "ACCOUNT_FROZEN by bob"),
    "to 39 digits": (posting("0.1", to_account_id="bob"), bob(balance=MOST), 0, "BALANCE_OUT_OF_RANGE by bob"),
}


@pytest.mark.parametrize(("message", "payee", "amount", "rejection"), POSTED_TO_BOB.values(), ids=POSTED_TO_BOB)
def test_a_hold_is_posted_to_another_account_on_both_sides_or_neither(
    message: PostHold, payee: Account, amount: int, rejection: str | None
) -> None:
    payer = HELD if rejection else changed(HELD, holds=REST)
    paid, received = decided_on(payer, Decimal(-amount), rejection), decided_on(payee, Decimal(amount), rejection)
    assert decide(message, HELD, payee) == (paid, received)


SHARED = {
    "a part": ({"bob": 7, "carol": 3}, {}, None),
    "all": ({"bob": 59, "carol": 1}, {}, None),
    "more than is held": ({"bob": 60, "carol": 1}, {}, "HOLD_EXCEEDED by alice"),
    "to a frozen account": ({"bob": 7, "carol": 3}, {"frozen": Frozen(credits=True)}, "ACCOUNT_FROZEN by carol"),
    "in two currencies": ({"bob": 7, "carol": 3}, {"currency": "CHF"}, "CURRENCY_MISMATCH"),
}


@pytest.mark.parametrize(("legs", "carols", "rejection"), SHARED.values(), ids=SHARED)
def test_a_hold_is_posted_to_several_accounts_or_to_none(
    legs: dict[str, int], carols: dict[str, object], rejection: str | None
) -> None:
    reason, by = reason_and_account(rejection)
    message = posting(legs=legs_of(*legs.items()), final=False)
    assert message.canonical_payload()["amount"] == str(sum(legs.values()))
    decided = decide(message, HELD, BOB, changed(CAROL, **carols))
    assert {(each.reason, each.rejecting_account_id) for each in decided} == {(reason, by)}
    received = [0, 0] if reason else list(legs.values())
    assert [each.amount for each in decided] == [-sum(received), *received]
    assert decided[0].account.held == HELD.held - sum(received)


def reversal_context(entry: JournalEntry, already: str = "0", number: int = 0) -> Context:
    """`already` of the entry's amount was reversed."""
    before = Reversed(*entry.home_entry_id, Decimal(already), number)
    return Context({entry.entry_id: entry}.get, {entry.home_entry_id: before}.__getitem__)


REVERSALS = {
    "a debit": (reversing(), "-30", "0", "30", None),
    "a credit": (reversing(), "30", "0", "-30", None),
    "a part": (reversing(amount="0.5"), "30", "0", "-0.5", None),
    "what is left": (reversing(), "30", "29.5", "-0.5", None),
    "exactly what is left": (reversing(amount="0.5"), "30", "29.5", "-0.5", None),
    "a credit down to the limit": (reversing(), "150", "0", "-150", None),
    "38 digits": (reversing(), f"-{'7' * 36}", "0", "7" * 36, None),
    "more than is left": (reversing(amount="0.51"), "30", "29.5", "0", "REVERSAL_EXCEEDED"),
    "nothing left": (reversing(), "30", "30", "0", "ALREADY_REVERSED"),
    "nothing left, of a part": (reversing(amount=1), "-30", "30", "0", "ALREADY_REVERSED"),
    "nothing moved": (reversing(amount=1), "0", "0", "0", "NOT_REVERSIBLE"),
    "below the limit": (reversing(), "150.01", "0", "0", "OVERDRAFT_LIMIT"),
    "a rest of 39 digits": (reversing(amount="1e-37"), "-30", "0", "0", "BALANCE_OUT_OF_RANGE"),
}


@pytest.mark.parametrize(("message", "amount", "already", "effect", "reason"), REVERSALS.values(), ids=REVERSALS)
def test_a_reversal_is_the_opposite_of_what_is_left_or_of_a_part_of_it(
    message: Reverse, amount: str, already: str, effect: str, reason: str | None
) -> None:
    [decision] = message.decide([ALICE], reversal_context(entry_of(amount), already, number=4))
    assert (str(decision.amount), decision.reason) == (str(normalized(Decimal(effect))), reason)
    after = EXACT.add(Decimal(already), Decimal(effect).copy_abs())
    assert decision.reversal == Reversal(4 if reason else 5, after)


@pytest.mark.parametrize("amount", ["-30", "0"])
def test_a_transaction_of_which_more_was_reversed_than_its_amount_is_damaged_and_not_decided_on(amount: str) -> None:
    with pytest.raises(ValueError, match=r"'t-1'\): more was reversed of it than its amount$"):
        reversing().decide([ALICE], reversal_context(entry_of(amount), "30.5", number=4))


def test_a_reversal_waits_for_its_transaction() -> None:
    with pytest.raises(UnknownTransaction, match=r"^of_transaction_id: account 'alice' has no transaction 't-1'$"):
        decide(reversing(), ALICE)


@pytest.mark.parametrize("final", [True, False])
def test_what_remains_of_a_hold_may_be_too_fine_for_the_payee(final: bool) -> None:
    """The payer was opened without the rule, the payee under it. A posting that names an amount is posted."""
    payer, payee = alice(holds={"h-1": "1.125"}), bob(decimal_places=2)
    with pytest.raises(InvalidMessage, match=r"^amount: 3 decimals, expected at most 2, as many as EUR has$"):
        decide(posting(to_account_id="bob", final=final), payer, payee)
    decisions = decide(posting("1.12", to_account_id="bob", final=final), payer, payee)
    assert [decision.amount for decision in decisions] == [Decimal("-1.12"), Decimal("1.12")]
    [decision] = decide(posting(final=final), payer)
    assert decision.amount == Decimal("-1.125")


@given(that_refer(st.lists(messages, max_size=40).map(numbered)), st.sampled_from(["-1000", "-9.9e125"]))
def test_a_decisions_numbers_are_spelled_as_dynamodb_gives_them(day: list[TransactionMessage], lowest: str) -> None:
    """So an outcome is spelled the same, whether its account was in memory or read from the table."""
    books = post_messages(Books({}, {}), [opening(lowest, "XTS", account_id=name) for name in ("alice", "bob")])
    for message in day:
        with contextlib.suppress(NotYet, InvalidMessage):
            books = post_messages(books, [message])
    numbers = [hold.remaining for account in books.accounts.values() for hold in account.open_holds.values()]
    for outcome in (entry.outcome for entry in books.entries):
        numbers += [outcome.amount, outcome.balance_after, outcome.held_after]
        numbers += [outcome.reversal.reversed_after] if outcome.reversal else []
    wrong = [str(number) for number in numbers if str(number) != str(normalized(number))]
    assert not wrong, "a rule's computed amounts go through normalized, in ledger/core/values.py"
