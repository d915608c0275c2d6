"""Reverses a posted transaction: the opposite amount on each of its accounts, in one commit.

That of one or two accounts is reversed whole or in part, that of more accounts whole.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal, Inexact
from typing import Self, override

from msgspec import convert
from msgspec.structs import force_setattr, replace

from ledger.core.accounts import Account
from ledger.core.decoding import Id
from ledger.core.journal import EntryId, JournalEntry
from ledger.core.limits import Limits, Of, given_back
from ledger.core.pools import Pool, home_number, on_shard
from ledger.core.reason_codes import InvalidMessage, UnknownTransaction
from ledger.core.reversals import Reversal, Reversed
from ledger.core.rules import Decision, RejectionReason, all_or_none, all_rejected, moved
from ledger.core.transaction_types.base import AccountMessage, Context, NumberRange
from ledger.core.values import EXACT, WIDE, normalized


class Reverse(AccountMessage, frozen=True, tag="reverse"):
    """`account_id` is an account of the reversed transaction. `of_account_id` is that one's home, if it isn't
    `account_id`, or the pool of that.

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

    @property
    @override
    def possible_pools(self) -> tuple[str, ...]:
        return (self.of_account_id,) if self.of_account_id else ()

    @override
    def shards_in(self, pools: Mapping[str, Pool], first_shard: int) -> Mapping[str, int]:
        """The home of the reversed transaction is a shard if it names a pool."""
        of_homes = {
            name: home_number(self.of_transaction_id, pools[name]) for name in self.possible_pools if name in pools
        }
        return {**super().shards_in(pools, first_shard), **of_homes}

    @override
    def on_shards(self, numbers: Mapping[str, int]) -> Self:
        home_id = self.of_account_id and on_shard(self.of_account_id, numbers)
        is_itself = (home_id, self.of_transaction_id) == self.home_entry_id
        return self if is_itself else replace(self, of_account_id=home_id)

    @property
    @override
    def missing_side(self) -> str:
        return "of_transaction_id: expected a transaction of several accounts"

    def all_account_ids(self, context: Context) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.account_id, *self._reversed_entry(context).account_ids)))

    def decide(self, accounts: Sequence[Account | None], context: Context) -> tuple[Decision, ...]:
        """Each decision has the reversal; a rejection's is as it was before."""
        decisions = super().decide(accounts, context)
        originals, before = self._originals(context), self._reversed_before(context)
        number = before.number if decisions[0].reason else before.number + 1
        found = []
        for decision, (account_id, original) in zip(decisions, originals.items(), strict=True):
            reversed_after = normalized(EXACT.add(before.of(original, len(originals)), decision.amount.copy_abs()))
            others = tuple(other for other in originals if other != account_id)
            found.append(replace(decision, reversal=Reversal(number, reversed_after, others)))
        return tuple(found)

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        """If several accounts have a reason for a rejection, the first of those that are debited counts, or else the
        first of the others.

        Raises InvalidMessage for a part of a transaction of more than two accounts.
        """
        originals, before = self._originals(context), self._reversed_before(context)
        if self.amount is not None and len(originals) > 2:
            raise InvalidMessage("amount: expected none: a transaction of more than two accounts is reversed whole")
        original = originals[self.account_id]
        reversed_before = before.of(original, len(originals))
        left = WIDE.normalize(WIDE.subtract(original.copy_abs(), reversed_before))
        if left < 0:
            raise ValueError(f"{self.referred_entries[0]}: more was reversed of it than its amount")
        amount = left if self.amount is None else self.amount
        if reason := _reason(original, left, amount):
            return all_rejected(accounts, reason)
        try:
            EXACT.subtract(left, amount)  # so that the rest can be reversed, too
            EXACT.add(reversed_before, amount)
        except Inexact:
            return all_rejected(accounts, RejectionReason.BALANCE_OUT_OF_RANGE)
        sizes = [each if len(originals) > 2 else amount.copy_sign(each) for each in originals.values()]
        effects = [size.copy_negate() for size in sizes]
        return _moved_debits_first(accounts, effects, is_counted=_is_reversal(self._reversed_entry(context)))

    def _originals(self, context: Context) -> dict[str, Decimal]:
        """The reversed transaction's change of each of its accounts, in the order of `all_account_ids`."""
        entry, account_ids = self._reversed_entry(context), self.all_account_ids(context)
        amount = entry.outcome.amount
        if len(account_ids) <= 2:
            return dict(zip(account_ids, (amount, amount.copy_negate()), strict=False))
        entries = (context.entry(entry.on(account_id), self._missing) for account_id in account_ids)
        return {each.account_id: each.outcome.amount for each in entries}

    @override
    def limits_after(self, account: Account, amount: Decimal, context: Context) -> Limits:
        """A reversal gives back what was counted. That of a reversal counts."""
        [entry_id] = self.referred_entries
        entry = context.find_entry(entry_id)
        if entry and _is_reversal(entry):
            return super().limits_after(account, amount, context)
        if entry is None or not _was_counted(entry) or not amount:
            return account.limits
        of = Of.DEBITS if amount > 0 else Of.CREDITS
        return given_back(account.limits, of, amount.copy_abs(), entry.outcome.posted_at)

    def _reversed_before(self, context: Context) -> Reversed:
        [home_id] = self.reversed_ids
        return context.find_reversed(home_id)

    def _reversed_entry(self, context: Context) -> JournalEntry:
        [entry_id] = self.referred_entries
        return context.entry(entry_id, self._missing)

    @property
    def _missing(self) -> UnknownTransaction:
        of = f" of account {self.of_account_id!r}" if self.of_account_id else ""
        sentence = f"of_transaction_id: account {self.account_id!r} has no transaction {self.of_transaction_id!r}{of}"
        return UnknownTransaction(sentence)


def _was_counted(entry: JournalEntry) -> bool:
    from ledger.core.transaction_types import RULE_SETS  # noqa: PLC0415 (the registry imports this type)

    return convert(entry.request, RULE_SETS[entry.rules][entry.request["type"]]).is_counted


def _is_reversal(entry: JournalEntry) -> bool:
    return entry.request.get("type") == "reverse"


def _moved_debits_first(
    accounts: Sequence[Account], amounts: Sequence[Decimal], *, is_counted: bool
) -> tuple[Decision, ...]:
    """If several accounts have a reason for a rejection, that of one that is debited counts."""
    order = sorted(range(len(accounts)), key=lambda at: amounts[at] > 0)
    moves = [moved(accounts[at], amounts[at], is_counted=is_counted) for at in order]
    decided = dict(zip(order, all_or_none([accounts[at] for at in order], moves), strict=True))
    return tuple(decided[at] for at in range(len(accounts)))


def _reason(original: Decimal, left: Decimal, amount: Decimal) -> str | None:
    if original == 0:
        return RejectionReason.NOT_REVERSIBLE
    if left == 0:
        return RejectionReason.ALREADY_REVERSED
    return RejectionReason.REVERSAL_EXCEEDED if amount > left else None
