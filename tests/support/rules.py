"""Decides transactions by the product's rules, and checks whether DynamoDB can store a number."""

from decimal import Context as DecimalContext
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.limits import Exceeded
from ledger.core.reversals import Reversal
from ledger.core.rules import Status
from ledger.core.transaction_types.base import Context, TransactionMessage
from ledger.core.values import EXACT
from tests.support.samples import NOW


class Decided(NamedTuple):
    """The effect on one account: the account afterwards, the amount, and the rejection reason or None."""

    account: Account
    amount: Decimal
    reason: str | None = None
    reversal: Reversal | None = None
    rejecting_account_id: str | None = None
    exceeded: Exceeded | None = None

    @property
    def status(self) -> Status:
        return Status.REJECTED if self.reason else Status.POSTED


def decide(
    message: TransactionMessage, *accounts: Account | None, context: Context | None = None
) -> tuple[Decided, ...]:
    """Decides a transaction for its accounts. Raises NotYet, as the product's decision does."""
    known, decided = context or Context(posted_at=NOW), []
    for before, decision in zip(accounts, message.decide(accounts, known), strict=True):
        after = message.next_account(before, decision, known)
        assert after is not None
        after = replace(after, posted_at=None)
        by = decision.rejecting_account_id
        decided.append(Decided(after, decision.amount, decision.reason, decision.reversal, by, decision.exceeded))
    return tuple(decided)


def fits_dynamodb(number: Fraction) -> bool:
    """Whether the number has at most 38 digits and is at most 9.9E+125."""
    wide = DecimalContext(prec=1000)
    exact = wide.normalize(wide.divide(Decimal(number.numerator), Decimal(number.denominator)))
    return len(exact.as_tuple().digits) <= EXACT.prec and (not exact or exact.adjusted() <= EXACT.Emax)
