"""Strategies for holds and reversals that meet: they are of few ids, so that most refer to what is there."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.core.transaction_types import ExpireHold, Hold, PostHold, Reverse, VoidHold
from ledger.core.transaction_types.base import TransactionMessage

EXPIRES_AT = datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC)
LATER = datetime(2026, 3, 2, tzinfo=UTC)
hold_ids = st.integers(1, 9).map("hold-{}".format)
expiries = st.sampled_from([None, EXPIRES_AT, EXPIRES_AT, LATER, datetime(2099, 1, 1, tzinfo=UTC)])
times = st.sampled_from([EXPIRES_AT, LATER, LATER, datetime(2026, 3, 1, 12, tzinfo=UTC)])
types = st.sampled_from([*[Hold] * 4, *[PostHold] * 3, VoidHold, ExpireHold, *[Reverse] * 3])


@st.composite
def holds_and_reversals(
    draw: st.DrawFn,
    account_ids: st.SearchStrategy[str],
    transaction_ids: st.SearchStrategy[str],
    amounts: st.SearchStrategy[Decimal],
) -> TransactionMessage:
    """Holds, what resolves them, and reversals of transactions with these ids, of holds' postings, and of reversals."""
    amounts = amounts.map(Decimal.copy_abs)
    message_type, account_id = draw(types), draw(account_ids)
    if message_type is Hold:
        return Hold(
            transaction_id=draw(hold_ids), account_id=account_id, amount=draw(amounts), expires_at=draw(expiries)
        )
    transaction_id = draw(transaction_ids)
    if message_type is Reverse:
        reversed_id = draw(transaction_ids | transaction_ids | hold_ids)
        amount = draw(st.none() | amounts)
        return Reverse(
            transaction_id=transaction_id, account_id=account_id, of_transaction_id=reversed_id, amount=amount
        )
    hold_id = draw(st.one_of([hold_ids] * 9 + [transaction_ids]))
    if message_type is VoidHold:
        return VoidHold(transaction_id=transaction_id, account_id=account_id, hold_id=hold_id)
    if message_type is ExpireHold:
        return ExpireHold(transaction_id=transaction_id, account_id=account_id, hold_id=hold_id, as_of=draw(times))
    payee = draw(st.none() | account_ids)
    return PostHold(
        transaction_id=transaction_id,
        account_id=account_id,
        hold_id=hold_id,
        amount=draw(st.none() | amounts),
        final=draw(st.booleans()),
        to_account_id=None if payee == account_id else payee,
    )


@st.composite
def meeting(draw: st.DrawFn, messages: Sequence[TransactionMessage]) -> list[TransactionMessage]:
    """These messages, most of whose references are to an earlier one of them."""
    met: list[TransactionMessage] = []
    for message in messages:
        holds = [each for each in met if isinstance(each, Hold)]
        if draw(st.integers(0, 9)) == 0 or not met:
            met.append(message)
        elif isinstance(message, Reverse):
            earlier = draw(st.sampled_from(met))
            account_id = draw(st.sampled_from(earlier.account_ids))
            met.append(replace(message, account_id=account_id, of_transaction_id=earlier.transaction_id))
        elif isinstance(message, PostHold | VoidHold | ExpireHold) and holds:
            hold = draw(st.sampled_from(holds))
            is_own = isinstance(message, PostHold) and message.to_account_id == hold.account_id
            changes = {"to_account_id": None} if is_own else {}
            resolution = replace(message, account_id=hold.account_id, hold_id=hold.transaction_id, **changes)
            met.append(resolution)
        else:
            met.append(message)
    return met
