"""Posts a hold, whole or in part: its money leaves the account, or moves to another one, or to several.

The money was held for it, so the overdraft limit never refuses the posting.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Self, override

from msgspec.structs import force_setattr, replace

from ledger.core.accounts import Account
from ledger.core.decoding import Id
from ledger.core.holds import Holds, OpenHold, after_taking, fit, total, without_hold
from ledger.core.journal import Outcome
from ledger.core.limits import Limits, Of, counted
from ledger.core.rules import (
    Decision,
    RejectionReason,
    StandIn,
    all_or_none,
    all_rejected,
    moved,
    moved_whatever_the_limit,
    rejected,
    too_much_for,
)
from ledger.core.transaction_types.base import Context, NumberRange, check_decimals, plain_stand_in
from ledger.core.transaction_types.hold_resolution import HoldResolution
from ledger.core.transaction_types.legs import (
    Leg,
    LegsOfPayees,
    check_decimals_of_legs,
    checked_legs,
    field_of_leg,
    legs_on_shards,
)
from ledger.core.values import WIDE, decimal_places, exact, format_decimal, sum_of


class PostHold(HoldResolution, frozen=True, tag="post_hold"):
    """`amount` is the sum of the `legs`, or all that remains if there are none, and it isn't given. What remains after
    it is released if the posting is `final`. The legs say what each of several payees gets.
    """

    account_fields = ("account_id", "to_account_id")
    pool_fields = ("to_account_id",)
    numbers = (("amount", NumberRange.ABOVE_ZERO),)
    nested = ("legs",)
    posted_event = "HoldPosted"

    amount: Decimal | None = None
    final: bool = True
    to_account_id: Id | None = None
    legs: LegsOfPayees | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to_account_id == self.account_id:
            raise ValueError("to_account_id: expected another account than account_id")
        if self.legs is not None:
            self._check_legs(self.legs)

    def _check_legs(self, given: Sequence[Leg]) -> None:
        legs = checked_legs(given, NumberRange.ABOVE_ZERO)
        if self.to_account_id is not None:
            raise ValueError("to_account_id: expected none beside legs")
        if any(leg.account_id == self.account_id for leg in legs):
            raise ValueError("legs: expected other accounts than account_id")
        amount = exact("legs: their sum", sum_of(leg.amount for leg in legs))
        if self.amount not in (None, amount):
            raise ValueError(f"amount: expected {format_decimal(amount)}, the sum of the legs, or none")
        force_setattr(self, "legs", legs)
        force_setattr(self, "amount", amount)  # it says as much as none

    @property
    @override
    def account_ids(self) -> tuple[str, ...]:
        return (*super().account_ids, *(leg.account_id for leg in self.legs or ()))

    @property
    @override
    def missing_side(self) -> str:
        return "to_account_id: expected one, or legs"

    @property
    @override
    def possible_pools(self) -> tuple[str, ...]:
        return self.account_ids[1:]

    @override
    def on_shards(self, numbers: Mapping[str, int]) -> Self:
        legs = None if self.legs is None else legs_on_shards(self.legs, numbers)
        return replace(super().on_shards(numbers), legs=legs) if numbers else self

    def decide_hold(self, accounts: Sequence[Account], hold: OpenHold) -> tuple[Decision, ...]:
        """If several accounts have a reason for a rejection, that of the hold's account counts, then that of the first
        payee.

        What remains of a hold may have more decimals than the payee's amounts. Raises InvalidMessage then.
        """
        payer, *payees = accounts
        amount = self.amount or hold.remaining
        if amount > hold.remaining:
            return all_rejected(accounts, RejectionReason.HOLD_EXCEEDED, payer)
        if any(payee.currency != payer.currency for payee in payees):
            return all_rejected(accounts, RejectionReason.CURRENCY_MISMATCH)
        holds = self._holds_after(payer)
        if not fit(holds):
            return all_rejected(accounts, RejectionReason.BALANCE_OUT_OF_RANGE, payer)
        for payee in payees if self.legs is None else ():
            check_decimals("amount", amount, payee)
        received = [leg.amount for leg in self.legs] if self.legs else [amount] * len(payees)
        taken = moved_whatever_the_limit(payer, amount.copy_negate())
        if payer.frozen.debits:
            taken = rejected(payer, RejectionReason.ACCOUNT_FROZEN)
        return all_or_none(accounts, [taken, *map(moved, payees, received)])

    @override
    def limits_after(self, account: Account, amount: Decimal, context: Context) -> Limits:
        """The hold was a debit by number: its postings are none."""
        if account.account_id != self.account_id:
            return super().limits_after(account, amount, context)
        return counted(account.limits, Of.DEBITS, amount.copy_negate(), 0)

    def changes(self, account: Account) -> Mapping[str, Any]:
        if account.account_id != self.account_id:
            return {}
        holds = self._holds_after(account)
        return {"holds": holds, "held": total(holds)}

    def stand_in(self, account: Account, mine: Outcome) -> StandIn:
        """The payer's hold was open, with what was taken of it left, unless the payer rejects for its hold.

        If the posting has no amount and was rejected, what was left isn't known here: it was too much for the payee, if
        any amount is.
        """
        stand_in = plain_stand_in(account, mine)
        if account.account_id != self.account_id or stand_in.rejects == RejectionReason.HOLD_NOT_OPEN:
            return stand_in
        remaining = self.amount or mine.amount.copy_abs() or _too_much_for(mine)
        if stand_in.rejects == RejectionReason.HOLD_EXCEEDED:
            remaining = _SMALLEST
        return replace(stand_in, holds={self.hold_id: OpenHold(remaining)})

    @override
    def _check_decimals(self, accounts: Sequence[Account]) -> None:
        """Each leg keeps to the decimals of its own account, their sum to those of the hold's."""
        super()._check_decimals(accounts[:1] if self.legs else accounts)
        if self.legs:
            check_decimals_of_legs(self.legs, accounts[1:])

    @override
    def _field_of(self, account_id: str) -> str:
        if self.legs and account_id != self.account_id:
            return field_of_leg(self.legs, account_id)
        return super()._field_of(account_id)

    def _holds_after(self, payer: Account) -> Holds:
        if self.final or self.amount is None or self.hold_id not in payer.open_holds:
            return without_hold(payer.open_holds, self.hold_id)
        return after_taking(payer.open_holds, self.hold_id, self.amount)


def _too_much_for(payee: Outcome) -> Decimal:
    """An amount that the payee's limit doesn't leave, or else one by which its balance can't rise, if there is one."""
    if payee.exceeded is None:
        return too_much_for(payee.balance_after)
    places = max(decimal_places(payee.exceeded.left), decimal_places(payee.balance_after))
    return WIDE.add(payee.exceeded.left, Decimal(1).scaleb(-places))


_SMALLEST = Decimal("1E-130")
