"""Limits in random histories, of some zones: the oracle agrees on each decision."""

import contextlib
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core.accounts import timestamp
from ledger.core.limits import Limit, Of, Per
from ledger.core.reason_codes import InvalidMessage, NotYet
from ledger.core.transaction_types import Compound, Hold, PostHold, Reverse, SetLimits, Transaction, Transfer, VoidHold
from ledger.core.transaction_types.base import TransactionMessage
from ledger.core.transaction_types.historic_transaction import HistoricTransaction
from ledger.core.transaction_types.legs import Leg
from ledger.core.values import sum_of
from tests.checkers.books import Books, violations
from tests.checkers.small_books import post_messages
from tests.checkers.test_oracle import days, everyday
from tests.support.samples import hold, opening, payment, reversing, voiding
from tests.support.samples import limits as limits_of
from tests.support.strategies import ZONES

BEGIN = datetime(2026, 3, 27, tzinfo=UTC)
"""Clocks go forward on the 29th in Paris. A month ends on the 31st, on another day in each zone."""
amounts = st.integers(1, 60).map(Decimal)
KINDS = ["pay", "pay", "transfer", "compound", "hold", "post", "void", "reverse", "reverse", "set"]
in_fewer_examples = settings(max_examples=settings().max_examples // 2)
"""Each is a history of many messages."""
type History = list[tuple[TransactionMessage, datetime]]


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    of, per = draw(st.sampled_from([Of.DEBITS, Of.DEBITS, Of.CREDITS])), draw(st.sampled_from([Per.DAY, Per.MONTH]))
    name, zone = draw(st.sampled_from("xyz")), draw(st.sampled_from(ZONES))
    is_number = draw(st.integers(0, 4)) == 0
    value = {"number": Decimal(draw(st.integers(0, 9)))} if is_number else {"amount": draw(amounts) * 3}
    return Limit(name=name, of=of, per=per, time_zone=zone, **value)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[TransactionMessage, datetime]]:
    """Most reversals are of what an account paid or got before, and most resolutions of a hold that it had."""
    time, found, moved, held = BEGIN, list[tuple[TransactionMessage, datetime]](), ["t-0"], ["t-0"]
    for number in range(1, draw(st.integers(20, 50))):
        time += timedelta(minutes=draw(st.sampled_from([0, 1, 50, 300, 800])))
        account, payee = draw(st.sampled_from(["ab", "ab", "ba"]))
        ids = {"transaction_id": f"t-{number}", "account_id": account}
        message: TransactionMessage
        match draw(st.sampled_from(KINDS)):
            case "pay":
                message = Transaction(**ids, amount=draw(amounts) * draw(st.sampled_from([-1, -1, 1])))
                moved.append(f"t-{number}")
            case "transfer":
                del ids["account_id"]
                message = Transfer(**ids, from_account_id=account, to_account_id=payee, amount=draw(amounts))
                moved.append(f"t-{number}")
            case "compound":
                del ids["account_id"]
                paid, fee = draw(amounts), draw(amounts)
                shares = {account: -paid - fee, payee: paid, "c": fee}
                message = Compound(**ids, legs=tuple(Leg(account_id=of, amount=share) for of, share in shares.items()))
                moved.append(f"t-{number}")
            case "hold":
                message = Hold(**ids, amount=draw(amounts))
                held.append(f"t-{number}")
            case "post":
                amount, final = draw(st.none() | amounts), draw(st.booleans())
                message = PostHold(**ids, hold_id=draw(st.sampled_from(held[-3:])), amount=amount, final=final)
                moved.append(f"t-{number}")
            case "void":
                message = VoidHold(**ids, hold_id=draw(st.sampled_from(held[-3:])))
            case "reverse":
                amount, of = draw(st.none() | st.none() | amounts), draw(st.sampled_from(moved[-4:]))
                message = Reverse(**ids, of_transaction_id=of, amount=amount)
                moved.append(f"t-{number}")
            case _:
                rules = draw(st.lists(limits(), max_size=3, unique_by=lambda limit: limit.name))
                message = SetLimits(**ids, limits=tuple(rules))
        found.append((message, time))
    return found


def books_after(history: History, *first: TransactionMessage) -> Books:
    """After the openings of three accounts and these first messages."""
    openings: list[TransactionMessage] = [opening("-200", account_id=name) for name in "abc"]
    books = post_messages(Books({}, {}), [*openings, *first], posted_at=timestamp(BEGIN))
    for message, time in history:
        with contextlib.suppress(NotYet, InvalidMessage):  # a compound is reversed whole, or not at all
            books = post_messages(books, [message], posted_at=timestamp(time))
    return books


@in_fewer_examples
@given(histories())
def test_the_oracle_agrees_on_each_decision_of_a_history_with_limits(history: History) -> None:
    books = books_after(history, *(payment("1000", transaction_id="first", account_id=name) for name in "ab"))
    assert violations(books) == []


@in_fewer_examples
@given(histories())
def test_what_is_available_under_the_limits_is_the_largest_debit_that_is_posted(history: History) -> None:
    books = books_after(history)
    now = timestamp(history[-1][1] + timedelta(minutes=300))
    for name in "ab":
        available = books.accounts[name].at(now).available_under_limits
        for amount, is_posted in ((available, True), (max(available, Decimal(0)) + 1, False)):
            if amount > 0:
                debit = payment(-amount, transaction_id="last", account_id=name)
                after = post_messages(books, [debit], posted_at=now)
                assert (not after.journal[name][-1].outcome.reason) == is_posted, (name, amount)


def used(books: Books, account_id: str) -> Decimal:
    """The sum of what was used of the account's limits."""
    account = books.accounts.get(account_id)
    return sum_of(each.used for each in account.limits) if account else Decimal(0)


def test_a_reversal_gives_back_what_limits_counted_whatever_the_type() -> None:
    """Each account gets limits with its opening. The reversal of a reversal gives nothing back: it counts again."""
    ofs = ("debits", "credits")
    rules = [{"name": of, "of": of, "per": "month", "time_zone": "UTC", "amount": 10**9} for of in ofs]
    counted, given_back = set[str](), set[str]()

    @settings(max_examples=4)
    @given(days(everyday, "-500", "EUR"))
    def gives_back(day: list[TransactionMessage]) -> None:
        books = Books({}, {})
        for number, message in enumerate(day):
            before, now, later = books, *(timestamp(BEGIN + timedelta(milliseconds=number + more)) for more in (0, 1))
            with contextlib.suppress(NotYet, InvalidMessage):  # a pool takes no limits
                books = post_messages(before, [message], posted_at=now)
                opened = books.accounts.keys() - before.accounts.keys()
                books = post_messages(books, [limits_of(rules, "limits", name) for name in opened], posted_at=now)
            kind, home_id = str(message.__struct_config__.tag), message.home_entry_id.account_id
            for name in books.accounts if kind != "reverse" else ():
                if used(books, name) > used(before, name):
                    counted.add(kind)
                    back = reversing(message.transaction_id, None, "back", name, home_id)
                    after = post_messages(books, [back], posted_at=later)
                    if after.journal[name][-1].outcome.reason is None:
                        given_back.add(kind)
                        assert used(after, name) == used(before, name), kind

    gives_back()
    assert given_back == counted - {"hold"}  # nothing reverses a hold, which a limit of a number may count
    assert {"transaction", "transfer", "compound", "post_hold"} <= counted


def test_limits_count_nothing_of_a_history() -> None:
    """It was posted before any limit was set, so its reversals give nothing back."""
    history = HistoricTransaction(transaction_id="t-1", account_id="a", amount=Decimal(-1), currency="EUR")
    assert not history.is_counted


def test_a_limit_of_a_number_does_not_count_the_end_of_a_hold() -> None:
    """It moves nothing."""
    rule = {"name": "few", "of": "credits", "per": "month", "time_zone": "UTC", "number": 9}
    placed = [opening(-9), limits_of([rule], "limits", "alice"), hold(5), voiding()]
    assert used(post_messages(Books({}, {}), placed, posted_at=timestamp(BEGIN)), "alice") == 0
