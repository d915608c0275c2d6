"""A transaction decided for its accounts, and each account as it is afterwards; and what DynamoDB's numbers hold."""

from decimal import Context as DecimalContext
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from ledger.core.accounts import Account
from ledger.core.decisions import Status
from ledger.core.money import EXACT
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


def fits_dynamodb(number: Fraction) -> bool:
    """Whether 38 digits hold it, up to 9.9E+125."""
    wide = DecimalContext(prec=1000)
    exact = wide.normalize(wide.divide(Decimal(number.numerator), Decimal(number.denominator)))
    return len(exact.as_tuple().digits) <= EXACT.prec and (not exact or exact.adjusted() <= EXACT.Emax)
