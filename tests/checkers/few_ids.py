"""Strategies for holds and reversals that meet: they are of few ids, so that most refer to what is there."""

import contextlib
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import strategies as st

from ledger.core.transaction_types import ExpireHold, Hold, PostHold, Reverse, VoidHold
from ledger.core.transaction_types.base import TransactionMessage
from ledger.core.transaction_types.legs import Leg

FIRST, SECOND = datetime(2026, 3, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, 13, tzinfo=UTC)
hold_ids = st.integers(1, 9).map("hold-{}".format)
expiries = st.sampled_from([None, FIRST, SECOND, datetime(2099, 1, 1, tzinfo=UTC)])
times = st.sampled_from([FIRST, SECOND, SECOND, datetime(2026, 2, 1, tzinfo=UTC)])
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
        ids = {"transaction_id": draw(hold_ids), "account_id": account_id}
        return Hold(**ids, amount=draw(amounts), expires_at=draw(expiries))
    transaction_id = draw(transaction_ids)
    other_ids = transaction_ids.filter(lambda other: other != transaction_id)
    if message_type is Reverse:
        reversed_id = draw(other_ids | other_ids | hold_ids)
        amount = draw(st.none() | amounts)
        ids = {"transaction_id": transaction_id, "account_id": account_id}
        return Reverse(**ids, of_transaction_id=reversed_id, amount=amount)
    hold_id = draw(st.one_of([hold_ids] * 9 + [other_ids]))
    if message_type is VoidHold:
        return VoidHold(transaction_id=transaction_id, account_id=account_id, hold_id=hold_id)
    if message_type is ExpireHold:
        return ExpireHold(transaction_id=transaction_id, account_id=account_id, hold_id=hold_id, as_of=draw(times))
    payees = draw(st.lists(account_ids.filter(lambda other: other != account_id), max_size=2, unique=True))
    legs = tuple(Leg(payee, draw(amounts)) for payee in payees if len(payees) > 1)
    ids = {"transaction_id": transaction_id, "account_id": account_id, "hold_id": hold_id}
    with contextlib.suppress(ValueError):  # the legs' sum would need more than 38 digits
        if legs:
            return PostHold(**ids, final=draw(st.booleans()), legs=legs)
    amount, to_account_id = draw(st.none() | amounts), payees[0] if payees else None
    return PostHold(**ids, amount=amount, final=draw(st.booleans()), to_account_id=to_account_id)
