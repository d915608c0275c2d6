"""A transaction decided for its accounts, and each account as it is afterwards."""

from decimal import Decimal
from typing import NamedTuple

from ledger.core.accounts import Account
from ledger.core.decisions import Status
from ledger.core.transaction_types.base import Context, TransactionMessage


class Decided(NamedTuple):
    """One side of a transaction: the account as it leaves it, the effect on the balance, and why it was rejected."""

    account: Account
    amount: Decimal
    reason: str | None = None

    @property
    def status(self) -> Status:
        return Status.REJECTED if self.reason else Status.POSTED


def decide(message: TransactionMessage, *accounts: Account | None) -> tuple[Decided, ...]:
    """Raises NotYet, as the product's decision does."""
    decided = []
    for before, decision in zip(accounts, message.decide(accounts, Context()), strict=True):
        after = message.next_account(before, decision)
        assert after is not None
        decided.append(Decided(after, decision.amount, decision.reason))
    return tuple(decided)
