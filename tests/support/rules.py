"""Decides transactions by the product's rules, and checks whether DynamoDB can store a number."""

from decimal import Context as DecimalContext
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.currencies import MINOR_UNITS, no_minor_units
from ledger.core.journal import EntryId, JournalEntry, Outcome
from ledger.core.limits import Exceeded
from ledger.core.reversals import Reversal, Reversed
from ledger.core.rules import Status
from ledger.core.transaction_types.base import Context, TransactionMessage
from ledger.core.values import EXACT
from tests.support.samples import NOW, entry_of


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


class Ledger:
    """Accounts, journal entries and what was reversed of them, in memory. Transaction ids aren't repeated.

    `states` has each account by its versions, from that of its first transaction here on.
    """

    def __init__(self, *accounts: Account, minor_units: bool = True) -> None:
        self.minor_units = MINOR_UNITS.get if minor_units else no_minor_units
        self.accounts = {account.account_id: account for account in accounts}
        self.entries: dict[EntryId, JournalEntry] = {}
        self.reversed: dict[EntryId, Reversed] = {}
        self.states: dict[str, list[Account]] = {}

    def decide(self, message: TransactionMessage, posted_at: str = NOW) -> tuple[Outcome, ...]:
        """Posts or rejects the transaction. The outcome on each of its accounts. Raises NotYet and InvalidMessage."""
        context = Context(self.entries.get, self.reversed_of, self.minor_units, posted_at)
        account_ids = message.all_account_ids(context)
        before = [self.accounts.get(account_id) for account_id in account_ids]
        decided = message.outcomes_on(before, context)
        assert len({(outcome.reason, outcome.rejecting_account_id) for _, outcome in decided}) == 1
        outcomes = []
        for account_id, (after, outcome) in zip(account_ids, decided, strict=True):
            assert after.account_id == account_id
            outcomes.append(outcome)
            entry = entry_of(message, outcome, account_id, after.seal)
            self.accounts[account_id] = replace(after, seal=entry.seal)
            self.states.setdefault(account_id, []).append(self.accounts[account_id])
            self.entries[entry.entry_id] = entry
        self._count(message, outcomes[0])
        return tuple(outcomes)

    def reversed_of(self, entry_id: EntryId) -> Reversed:
        return self.reversed.get(entry_id, Reversed(*entry_id))

    def _count(self, message: TransactionMessage, outcome: Outcome) -> None:
        if outcome.reversal and outcome.status == Status.POSTED:
            [first] = message.reversed_ids
            at_home = self.entries[EntryId.on(first.account_id, *message.home_entry_id)].outcome
            before, version = self.reversed_of(first), at_home.account_version
            self.reversed[first] = before.after(at_home.reversal, message.transaction_id, version)


def fits_dynamodb(number: Fraction) -> bool:
    """Whether the number has at most 38 digits and is at most 9.9E+125."""
    wide = DecimalContext(prec=1000)
    exact = wide.normalize(wide.divide(Decimal(number.numerator), Decimal(number.denominator)))
    return len(exact.as_tuple().digits) <= EXACT.prec and (not exact or exact.adjusted() <= EXACT.Emax)
