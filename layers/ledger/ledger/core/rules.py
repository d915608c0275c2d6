"""A decision: what the rules make of a transaction for one account. Posted or rejected, and the balance afterwards."""

from collections.abc import Sequence
from decimal import Decimal, Inexact, Overflow
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.limits import Exceeded, first_exceeded
from ledger.core.reversals import Reversal
from ledger.core.values import EXACT

RULES = 1
"""The number of the rule set that decides now. Each journal entry has that of the one that decided it."""


class Status(StrEnum):
    POSTED = "POSTED"
    REJECTED = "REJECTED"


class RejectionReason(StrEnum):
    """Why a transaction was rejected. A rejection is recorded, and never decided again:
    docs/decisions/a-rejection-is-recorded.md."""

    ACCOUNT_CLOSED = "ACCOUNT_CLOSED"
    ACCOUNT_EXISTS = "ACCOUNT_EXISTS"
    ACCOUNT_FROZEN = "ACCOUNT_FROZEN"
    ALREADY_REVERSED = "ALREADY_REVERSED"
    BALANCE_NOT_ZERO = "BALANCE_NOT_ZERO"
    BALANCE_OUT_OF_RANGE = "BALANCE_OUT_OF_RANGE"  # the balance, or the sum of the holds, would need over 38 digits
    CURRENCY_MISMATCH = "CURRENCY_MISMATCH"
    HOLDS_OPEN = "HOLDS_OPEN"
    HOLD_EXISTS = "HOLD_EXISTS"
    HOLD_EXCEEDED = "HOLD_EXCEEDED"
    HOLD_NOT_EXPIRED = "HOLD_NOT_EXPIRED"
    HOLD_NOT_OPEN = "HOLD_NOT_OPEN"
    INTEREST_NOT_CHARGED = "INTEREST_NOT_CHARGED"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    NOT_REVERSIBLE = "NOT_REVERSIBLE"
    OVERDRAFT_LIMIT = "OVERDRAFT_LIMIT"
    REVERSAL_EXCEEDED = "REVERSAL_EXCEEDED"
    TOO_MANY_HOLDS = "TOO_MANY_HOLDS"


class Decision(Struct, frozen=True):
    """`amount` is the effect on the balance (0 if rejected), `balance` the account's balance afterwards.

    `reason` is a RejectionReason, or None if the transaction is posted. If one of several accounts gave the reason, it
    is `rejecting_account_id`. `decimal_places` are those of the account that the transaction opens. `reversal` is that
    of a `reverse`, posted or rejected. `exceeded` is the account's limit for which it rejects. One that `is_forced` may
    leave the account below its overdraft limit.
    """

    amount: Decimal
    balance: Decimal
    reason: str | None = None
    decimal_places: int | None = None
    reversal: Reversal | None = None
    rejecting_account_id: str | None = None
    exceeded: Exceeded | None = None
    is_forced: bool = False

    @property
    def status(self) -> Status:
        return Status.REJECTED if self.reason else Status.POSTED


def posted(account: Account) -> Decision:
    """Posted, with no effect on the balance."""
    return Decision(Decimal(0), account.balance)


def rejected(account: Account, reason: str) -> Decision:
    """Rejected with a RejectionReason, with no effect on the balance."""
    return Decision(Decimal(0), account.balance, reason)


def all_rejected(accounts: Sequence[Account], reason: str, by: Account | None = None) -> tuple[Decision, ...]:
    """Rejected on each of the accounts, `by` the one whose state gives the reason. None: that follows from the request,
    from earlier entries, or from what never changes of the accounts.
    """
    rejecting_account_id = by.account_id if by and len(accounts) > 1 else None
    return tuple(replace(rejected(each, reason), rejecting_account_id=rejecting_account_id) for each in accounts)


def all_or_none(accounts: Sequence[Account], decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """The accounts' own decisions. If any rejects, all are rejected by the first one that does."""
    for account, decision in zip(accounts, decisions, strict=True):
        if decision.reason:
            rejections = all_rejected(accounts, decision.reason, account)
            return tuple(
                replace(each, exceeded=decision.exceeded) if one is account else each
                for one, each in zip(accounts, rejections, strict=True)
            )
    return tuple(decisions)


def moved(account: Account, amount: Decimal, *, is_counted: bool = True) -> Decision:
    """A debit (`amount` < 0) or a credit.

    One for which the account is frozen is rejected, and one that exceeds a limit of it. So is a debit below the
    overdraft limit, or of held money, and a balance that DynamoDB can't hold exactly. A credit is posted below the
    overdraft limit, too. What isn't counted (`is_counted`) keeps to ceilings alone.
    """
    if account.frozen.debits if amount < 0 else account.frozen.credits:
        return rejected(account, RejectionReason.ACCOUNT_FROZEN)
    decision = moved_whatever_the_limit(account, amount)
    if decision.reason:
        return decision
    if amount < 0 and account.available < amount.copy_negate():
        return rejected(account, RejectionReason.OVERDRAFT_LIMIT)
    return limited(account, amount, is_counted=is_counted) or decision


def limited(account: Account, effect: Decimal, *, is_counted: bool = True) -> Decision | None:
    """The rejection of a debit or hold (`effect` < 0) or of a credit that exceeds a limit of the account."""
    if not account.limits:
        return None
    exceeded = first_exceeded(account.limits, effect, account.balance, account.held, is_counted=is_counted)
    return replace(rejected(account, RejectionReason.LIMIT_EXCEEDED), exceeded=exceeded) if exceeded else None


def moved_whatever_the_limit(account: Account, amount: Decimal) -> Decision:
    """As `moved`, of money that was held, when the limit was kept, and of interest."""
    if isinstance(account, StandIn) and account.rejects:
        return rejected(account, account.rejects)
    try:
        return Decision(amount, EXACT.normalize(EXACT.add(account.balance, amount)))
    except (Inexact, Overflow):
        return rejected(account, RejectionReason.BALANCE_OUT_OF_RANGE)


class StandIn(Account, frozen=True):
    """Stands for an account that is elsewhere, in the replay of another one's journal.

    It has what never changes of its account. It takes every amount, unless it `rejects` the transaction for a reason.
    """

    rejects: str | None = None

    @classmethod
    def of(cls, account: Account, rejects: str | None) -> "StandIn":
        status = AccountStatus.CLOSED if rejects == RejectionReason.ACCOUNT_CLOSED else AccountStatus.OPEN
        zero, places = Decimal(0), account.decimal_places
        return cls(
            account.account_id, zero, NO_LIMIT, account.currency, status, 0, decimal_places=places, rejects=rejects
        )


NO_LIMIT = Decimal(f"-1E+{EXACT.Emax + 1}")
"""Below the overdraft limit of any account."""


def forced(account: Account, amount: Decimal) -> Decision:
    """A debit or a credit that neither a limit nor a freeze stops, because the administration says so."""
    return replace(moved_whatever_the_limit(account, amount), is_forced=True)


def too_much_for(balance: Decimal) -> Decimal:
    """An amount by which the balance can't rise, if there is one. It has no decimals."""
    try:
        EXACT.add(balance, _LARGE)
    except (Inexact, Overflow):
        return _LARGE
    return Decimal(1)  # the balance has no digit below 1E+88


_LARGE = Decimal("1E+125")
