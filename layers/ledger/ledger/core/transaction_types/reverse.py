"""Reverses a posted transaction, whole or in part: the opposite amount on each of its accounts, in one commit."""

from collections.abc import Sequence
from decimal import Decimal, Inexact

from msgspec.structs import force_setattr, replace

from ledger.core.accounts import Account
from ledger.core.decoding import Id
from ledger.core.journal import EntryId, JournalEntry
from ledger.core.money import EXACT, WIDE, normalized
from ledger.core.reason_codes import InvalidMessage, UnknownTransaction
from ledger.core.reversals import Reversal, Reversed
from ledger.core.rules import Decision, RejectionReason, all_or_none, all_rejected, moved
from ledger.core.transaction_types.base import AccountMessage, Context, NumberRange


class Reverse(AccountMessage, frozen=True, tag="reverse"):
    """`account_id` is the reversed transaction's account, or one of its two. `of_account_id` is that one's home,
    if it isn't `account_id`.

    `amount` is above 0, in whichever direction it goes back; all that is left to reverse, if it isn't given.
    """

    numbers = (("amount", NumberRange.ABOVE_ZERO),)
    posted_event = "TransactionReversed"

    of_transaction_id: Id
    of_account_id: Id | None = None
    amount: Decimal | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of_account_id == self.account_id:
            force_setattr(self, "of_account_id", None)  # it says as much as none
        if self.of_account_id is None and self.of_transaction_id == self.transaction_id:
            raise ValueError("of_transaction_id: expected the id of another transaction, got the message's own")

    @property
    def referred_entries(self) -> tuple[EntryId, ...]:
        [home_id] = self.reversed_ids
        return (EntryId.on(self.account_id, *home_id),)

    @property
    def reversed_ids(self) -> tuple[EntryId, ...]:
        return (EntryId(self.of_account_id or self.account_id, self.of_transaction_id),)

    def all_account_ids(self, context: Context) -> tuple[str, ...]:
        """Raises InvalidMessage if the reversed transaction has more than two."""
        account_ids = tuple(dict.fromkeys((self.account_id, *self._reversed_entry(context).account_ids)))
        if len(account_ids) > 2:
            what = "a transaction of more than two accounts, expected one of two at most"
            raise InvalidMessage(f"of_transaction_id: {what}: send a compound with the opposite amounts")
        return account_ids

    def decide(self, accounts: Sequence[Account | None], context: Context) -> tuple[Decision, ...]:
        """Each decision has the reversal; a rejection's is as it was before."""
        decisions = super().decide(accounts, context)
        before, ids = self._reversed_before(context), self.all_account_ids(context)
        number = before.number if decisions[0].reason else before.number + 1
        reversed_after = normalized(EXACT.add(before.amount, decisions[0].amount.copy_abs()))
        others = reversed(ids) if len(ids) > 1 else [None]
        return tuple(
            replace(decision, reversal=Reversal(number, reversed_after, other))
            for decision, other in zip(decisions, others, strict=True)
        )

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        """If both accounts have a reason for a rejection, that of the account that is debited counts."""
        entry, before = self._reversed_entry(context), self._reversed_before(context)
        left = WIDE.normalize(WIDE.subtract(entry.outcome.amount.copy_abs(), before.amount))
        if left < 0:
            raise ValueError(f"{entry.entry_id}: more was reversed of it than its amount")
        amount = left if self.amount is None else self.amount
        if reason := _reason(entry, left, amount):
            return all_rejected(accounts, reason)
        try:
            EXACT.subtract(left, amount)  # so that the rest can be reversed, too
            EXACT.add(before.amount, amount)
        except Inexact:
            return all_rejected(accounts, RejectionReason.BALANCE_OUT_OF_RANGE)
        effect = amount.copy_negate() if entry.outcome.amount > 0 else amount
        effects = (effect, effect.copy_negate())  # the first account has the reversed entry
        decisions = tuple(moved(account, each) for account, each in zip(accounts, effects, strict=False))
        debited_first = 1 if effect < 0 else -1
        return all_or_none(accounts[::debited_first], decisions[::debited_first])[::debited_first]

    def _reversed_before(self, context: Context) -> Reversed:
        [home_id] = self.reversed_ids
        return context.find_reversed(home_id)

    def _reversed_entry(self, context: Context) -> JournalEntry:
        [entry_id] = self.referred_entries
        of = f" of account {self.of_account_id!r}" if self.of_account_id else ""
        sentence = f"of_transaction_id: account {self.account_id!r} has no transaction {self.of_transaction_id!r}{of}"
        return context.entry(entry_id, UnknownTransaction(sentence))


def _reason(entry: JournalEntry, left: Decimal, amount: Decimal) -> str | None:
    if entry.outcome.amount == 0:
        return RejectionReason.NOT_REVERSIBLE
    if left == 0:
        return RejectionReason.ALREADY_REVERSED
    return RejectionReason.REVERSAL_EXCEEDED if amount > left else None
