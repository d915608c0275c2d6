"""Tests of the oracle: it agrees with the product's rules, and finds wrong rules even in consistent books.

Each wrong rule makes books whose accounts and journals agree, so that a replay by that rule finds nothing.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from ledger.core.accounts import Account
from ledger.core.holds import OpenHold
from ledger.core.reason_codes import InvalidMessage, NotYet
from ledger.core.reversals import Reversed
from ledger.core.rules import Decision
from ledger.core.transaction_types import TRANSACTION_TYPES, CloseAccount, ExpireHold, Transaction, Transfer, decode
from ledger.core.transaction_types.base import Context, TransactionMessage
from tests.checkers import oracle
from tests.checkers.books import Books, state_of, violations
from tests.checkers.few_ids import hold_ids, holds_and_reversals, times
from tests.checkers.small_books import BACK, OPEN_A, OPEN_B, PAY, SPEND, TRANSFER, Rules, next_time, post, post_messages
from tests.support.numbers import exact_numbers
from tests.support.rules import decide
from tests.support.samples import ALICE, BOB, compound, hold, legs_of, life_of, opening, payment, posting, reversing
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
AT_ANY_TIME = Context(posted_at=oracle.LONG_AGO)
in_fewer_examples = settings(max_examples=settings().max_examples // 3)
"""Each is a day of many messages."""
ACCOUNTS = {f"{currency}-{number}": currency for currency in ("EUR", "JPY", "KWD") for number in range(8)}


@st.composite
def days(
    draw: st.DrawFn, messages: st.SearchStrategy[TransactionMessage], limit: str, currency: str
) -> list[TransactionMessage]:
    """From nothing, or of open accounts, in debt or not: else most messages would wait for their accounts.

    A day of open accounts ends with the whole life of another one, and a compound of two more, so that each type is
    posted in any sample.
    """
    day = draw(that_refer(st.lists(messages, min_size=15, max_size=40)))
    if draw(st.integers(0, 3)) == 0:
        return day
    openings: list[TransactionMessage] = [opening(limit, currency, account_id=name) for name in "abcd"]
    debts = st.sampled_from([limit, "-0.01"]) | exact_numbers().map(lambda number: str(number.copy_abs().copy_negate()))
    first = [payment(draw(debts), transaction_id=IN_DEBT, account_id=name) for name in "abc" if draw(st.booleans())]
    sale = compound(("a", -3), ("b", 2), ("c", 1), transaction_id="sale")
    back = st.builds(reversing, st.just("sale"), st.none() | st.just(1), many_ids, few_ids, st.just("a"))
    day += draw(st.lists(back, max_size=3))
    last = CloseAccount(transaction_id="close", account_id="d")  # It hardly has a balance.
    day += draw(
        st.lists(st.builds(ExpireHold.at, few_ids, hold_ids, times), max_size=5)
    )  # as of the hold's time or not
    moves = [opening(limit, currency, account_id=name) for name in "fg"]
    moves.append(Transfer(transaction_id="move", from_account_id="f", to_account_id="g", amount=Decimal(1)))
    moves.append(compound(("f", -1), ("g", 1)))
    return [*openings, sale, *first, *day, last, *moves, *(decode(json.dumps(step)) for step in life_of("e"))]


@pytest.mark.parametrize(
    ("messages", "limit", "currency"),
    [(everyday, "-500", "EUR"), (of_many_digits, "-9.9e125", WITHOUT_A_RULE)],
    ids=["everyday", "of many digits"],
)
def test_the_oracle_and_the_rules_agree(
    messages: st.SearchStrategy[TransactionMessage], limit: str, currency: str
) -> None:
    seen: set[tuple[str, str]] = set()

    @in_fewer_examples
    @given(days(messages, limit, currency))
    def agree(messages: Sequence[TransactionMessage]) -> None:
        for _ in agreed(messages, seen):
            pass

    agree()
    missing = TRANSACTION_TYPES.keys() - {name for name, result in seen if result == "POSTED"}
    assert not missing, "never posted: a type with one account has its step in life_of, tests/support/samples.py"


def agreed(messages: Sequence[TransactionMessage], seen: set[tuple[str, str]]) -> Iterator[Books]:
    """The books after each message, on which the two agree. `seen` gets its type and its outcome."""
    books, journal = Books({}, {}), oracle.Journal()
    for message in messages:
        request = message.canonical_payload()
        account_ids = oracle.account_ids(request, journal)
        if any(map(journal.has, oracle.entry_ids(request, journal))):
            continue  # It has another payload, or is a repetition: no rule decides it.
        states = [state_of(account) if account else None for account in map(books.accounts.get, account_ids)]
        expected = _effects(request, states, journal, next_time(books.accounts.values()))
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
            by, exceeded = outcome.rejecting_account_id, outcome.exceeded and astuple(outcome.exceeded)
            found = (outcome.reason, outcome.amount, state_of(books.accounts[account_id]), reversal, by, exceeded)
            assert found == effect
            journal.add(account_id, request, effect.amount)
        seen.add((f"{request['type']} of {len(account_ids)}", expected[0].reason or "POSTED"))
        seen.add((request["type"], expected[0].reason or "POSTED"))
        yield books
    assert violations(books) == []


@st.composite
def sales(draw: st.DrawFn) -> list[TransactionMessage]:
    """Compounds of up to 20 legs in three currencies, holds that are posted with legs, and reversals of all of them.

    Accounts with a number below 2 are poor.
    """
    names, amounts = st.sampled_from(list(ACCOUNTS)), st.integers(-9, 9).filter(bool)
    moves = list[TransactionMessage]()
    for number in range(draw(st.integers(1, 12))):
        account_id, amount, name = draw(names), draw(amounts), f"t-{number}"
        same = [each for each in ACCOUNTS if ACCOUNTS[each] == ACCOUNTS[account_id] and each != account_id]
        payees = draw(st.lists(st.sampled_from(same), min_size=1, unique=True))
        kind = draw(st.sampled_from(["compound", "compound", "post", "back", "back"]))
        with contextlib.suppress(ValueError):  # an amount is 0
            match kind:
                case "compound":
                    others = draw(st.lists(st.sampled_from(list(set(ACCOUNTS) - {account_id, *same})), unique=True))
                    pairs = zip(others[::2], others[1::2], strict=False)
                    legs = [(account_id, -amount * len(payees)), *((payee, amount) for payee in payees)]
                    legs += [leg for one, other in pairs for leg in ((one, amount), (other, -amount))]
                    moves.append(compound(*draw(st.permutations(legs)), transaction_id=name))
                case "post":
                    moves.append(hold(7, f"h-{number}", account_id=account_id))
                    ids = {"transaction_id": name, "account_id": account_id, "hold_id": f"h-{number}"}
                    legs_of_payees = legs_of(*((payee, 1) for payee in payees))
                    moves.append(posting(legs=legs_of_payees, final=draw(st.booleans()), **ids))
                case "back" if moves:
                    of = draw(st.sampled_from(moves))
                    ids = {"transaction_id": name, "account_id": draw(st.sampled_from(of.account_ids))}
                    whole = draw(st.sampled_from([None, None, None, 1]))
                    moves.append(reversing(of.transaction_id, whole, of_account_id=of.account_ids[0], **ids))
    limits = {name: -5 if name[-1] < "2" else -500 for name in ACCOUNTS}
    return [*(opening(limits[name], currency, account_id=name) for name, currency in ACCOUNTS.items()), *moves]


def test_whatever_is_moved_among_accounts_each_currency_sums_to_zero_at_every_moment() -> None:
    seen: set[tuple[str, str]] = set()

    @in_fewer_examples
    @given(sales())
    def agree(messages: Sequence[TransactionMessage]) -> None:
        for books in agreed(messages, seen):
            for currency in ("EUR", "JPY", "KWD"):
                assert sum(each.balance for each in books.accounts.values() if each.currency == currency) == 0

    agree()
    posted = {name for name, result in seen if result == "POSTED"}
    for kind in ("compound", "post_hold", "reverse"):
        assert any(f"{kind} of {number}" in posted for number in range(4, 21)), f"no {kind} of four accounts was posted"


new_messages = messages_of(st.sampled_from(["alice", "bob"]), st.sampled_from(["h-1", "t-1"])).filter(
    lambda message: message.transaction_id == "t-1"
)


@given(st.integers(-900, 0), new_messages)
def test_they_agree_below_the_limit_too_and_never_make_it_worse(balance: int, message: TransactionMessage) -> None:
    hold = OpenHold(Decimal(300), "2026-01-31T00:00:00+00:00")
    below = replace(ALICE, balance=Decimal(balance), held=hold.remaining, holds={"h-1": hold})
    accounts = [below if name == "alice" else BOB for name in message.account_ids]
    effects = oracle.effects(message.canonical_payload(), [*map(state_of, accounts)], oracle.Journal())
    if effects is None:
        return  # It waits for a hold or a transaction.
    for before, effect, decided in zip(accounts, effects, decide(message, *accounts, context=AT_ANY_TIME), strict=True):
        by = decided.rejecting_account_id
        assert (decided.reason, decided.amount, state_of(decided.account), None, by, None) == effect
        assert decided.account.available >= min(before.available, 0) or getattr(message, "forced", False)


def _effects(
    request: Mapping[str, Any], states: Sequence[oracle.State | None], journal: oracle.Journal, posted_at: str
) -> list[oracle.Effect] | type[InvalidMessage | NotYet]:
    try:
        return oracle.effects(request, states, journal, posted_at=posted_at) or NotYet
    except oracle.Invalid:
        return InvalidMessage


def wrong_for(kind: type[TransactionMessage], amounts_of: Callable[[Any], Sequence[Decimal]]) -> Rules:
    """The product's rules, but of messages of one type these amounts are posted."""

    def rules(message: TransactionMessage, accounts: Sequence[Any], context: Context) -> Sequence[Decision]:
        if not isinstance(message, kind):
            return message.decide(accounts, context)
        amounts = zip(accounts, amounts_of(message), strict=True)
        return [Decision(amount, account.balance + amount) for account, amount in amounts]

    return rules


def _what_was_reversed_forgotten(
    message: TransactionMessage, accounts: Sequence[Account | None], context: Context
) -> Sequence[Decision]:
    return message.decide(accounts, context._replace(find_reversed=lambda entry_id: Reversed(*entry_id)))


BROKEN: dict[str, tuple[Rules, list[str], str]] = {
    "a limit is ignored": (
        wrong_for(Transaction, lambda message: [message.amount]),
        [OPEN_A, SPEND],
        "a: version 2 should be ('REJECTED', 'OVERDRAFT_LIMIT',",
    ),
    "a payee gets what the payer doesn't have, and both sides sum to zero": (
        wrong_for(Transfer, lambda message: [-message.amount, message.amount]),
        [OPEN_A, OPEN_B, TRANSFER],
        "a: version 2 should be ('REJECTED', 'OVERDRAFT_LIMIT',",
    ),
    "more is reversed than is left": (
        _what_was_reversed_forgotten,
        [OPEN_A, OPEN_B, PAY, TRANSFER, BACK, BACK.replace('"back"', '"again"').replace("5}", "16}")],
        "b: version 4 should be ('REJECTED', 'REVERSAL_EXCEEDED',",
    ),
}


@pytest.mark.parametrize(("rules", "bodies", "sentence"), BROKEN.values(), ids=BROKEN)
def test_a_wrong_rule_is_found_though_all_books_agree_with_it(rules: Rules, bodies: list[str], sentence: str) -> None:
    assert violations(post(Books({}, {}), *bodies)) == []
    found = violations(post(Books({}, {}), *bodies, rules=rules))
    assert any(violation.startswith(sentence) for violation in found), found


@pytest.mark.parametrize("place", [1, -1])
def test_a_type_that_the_oracle_does_not_know_is_a_violation_that_says_so(place: int) -> None:
    books = post(Books({}, {}), OPEN_A, PAY, SPEND)
    entry = books.journal["a"][place]
    books.journal["a"][place] = replace(entry, request=entry.request | {"type": "lend"})
    assert any("the oracle doesn't know the type 'lend'" in violation for violation in violations(books))
