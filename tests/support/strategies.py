"""Messages as Hypothesis makes them: valid ones, of few accounts and ids, so that they meet."""

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from conditional_writes import EXACT
from ledger.core.profile_messages import MAXIMUM_NAMES, ProfileUpdate
from ledger.core.transaction_types import (
    ChargeInterest,
    CloseAccount,
    OpenAccount,
    SetOverdraftLimit,
    Transaction,
    Transfer,
)
from ledger.core.transaction_types.base import TransactionMessage

ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=128)
times = st.datetimes(
    min_value=datetime(1900, 1, 1),  # noqa: DTZ001 (Hypothesis adds the zone)
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.builds(timezone, st.integers(-14 * 60, 14 * 60).map(lambda minutes: timedelta(minutes=minutes))),
)
optional_fields = st.fixed_dictionaries(
    {},
    optional={
        "occurred_at": times,
        "description": st.text(st.characters(codec="utf-8"), max_size=500),
        "metadata": st.dictionaries(
            st.text(st.characters(codec="utf-8"), min_size=1, max_size=64),
            st.text(st.characters(codec="utf-8"), max_size=256),
            max_size=20,
        ),
    },
)


@st.composite
def exact_numbers(draw: st.DrawFn) -> Decimal:
    """Any number that DynamoDB can hold, zero left out, in any spelling: also 1.000 and 10E+2."""
    digits = draw(st.integers(1, EXACT.prec))
    coefficient = draw(st.integers(1, 10**digits - 1))
    exponent = draw(st.integers(EXACT.Emin, EXACT.Emax - len(str(coefficient)) + 1))
    return Decimal((draw(st.integers(0, 1)), tuple(map(int, str(coefficient))), exponent))


everyday_amounts = st.decimals(-1000, 1000, places=2).filter(bool)
everyday_limits = st.integers(-5, 0).map(lambda hundreds: Decimal(100 * hundreds))
everyday_rates = st.decimals("0.001", 1, places=3)


@st.composite
def exact_rates(draw: st.DrawFn) -> Decimal:
    """Any above 0 and at most 1 that DynamoDB can hold."""
    digits = draw(st.integers(1, EXACT.prec))
    coefficient = draw(st.integers(1, 10**digits - 1))
    exponent = draw(st.integers(EXACT.Emin, -len(str(coefficient))))
    return Decimal((0, tuple(map(int, str(coefficient))), exponent))


@st.composite
def transfers(
    draw: st.DrawFn,
    account_ids: st.SearchStrategy[str],
    transaction_ids: st.SearchStrategy[str],
    amounts: st.SearchStrategy[Decimal],
) -> Transfer:
    payer, payee = draw(st.lists(account_ids, min_size=2, max_size=2, unique=True))
    return Transfer(
        transaction_id=draw(transaction_ids),
        from_account_id=payer,
        to_account_id=payee,
        amount=draw(amounts).copy_abs(),
    )


def messages_of(
    account_ids: st.SearchStrategy[str],
    transaction_ids: st.SearchStrategy[str],
    amounts: st.SearchStrategy[Decimal] = everyday_amounts,
    limits: st.SearchStrategy[Decimal] = everyday_limits,
    rates: st.SearchStrategy[Decimal] = everyday_rates,
) -> st.SearchStrategy[TransactionMessage]:
    """Those that move money most of all; few closings, or the rest of a sequence is about a closed account."""
    currencies = st.sampled_from(["EUR", "EUR", "CHF"])
    whose = {"account_id": account_ids, "transaction_id": transaction_ids}
    payments = st.builds(Transaction, **whose, amount=amounts, currency=st.none() | currencies)
    between = transfers(account_ids, transaction_ids, amounts)
    openings = st.builds(OpenAccount, **whose, currency=currencies, overdraft_limit=limits)
    limit_changes = st.builds(SetOverdraftLimit, **whose, overdraft_limit=limits)
    charges = st.builds(ChargeInterest, **whose, annual_rate=rates)
    closings = st.builds(CloseAccount, **whose)
    kinds = [payments] * 4 + [between] * 4 + [limit_changes] * 2 + [charges] * 2 + [openings, closings]
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


@st.composite
def any_message(draw: st.DrawFn) -> TransactionMessage:
    """With all that a message may have."""
    limits = exact_numbers().map(lambda number: -abs(number)) | st.just(Decimal(0))
    message = draw(messages_of(ids, ids, exact_numbers(), limits, exact_rates() | st.just(Decimal(1))))
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return type(message)(**fields | draw(optional_fields))


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=255)
OF_THE_TABLE = ("account_id", "cw:")
attributes = names.filter(lambda name: not name.startswith(OF_THE_TABLE))
"""Hypothesis tries the strings that it finds in the code, too."""
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | exact_numbers() | st.just(Decimal(0)) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=5),
    max_leaves=12,
)


@st.composite
def profile_updates(draw: st.DrawFn) -> ProfileUpdate:
    entries = draw(st.dictionaries(names, json_values, max_size=MAXIMUM_NAMES))
    removed = draw(st.lists(names.filter(lambda name: name not in entries), max_size=MAXIMUM_NAMES - len(entries)))
    return ProfileUpdate(
        account_id=draw(ids),
        path=(draw(attributes), *draw(st.lists(names, max_size=9))),
        entries=entries if entries or removed else {"theme": draw(json_values)},
        removed=tuple(removed),
        as_of=draw(st.none() | times),
    )
