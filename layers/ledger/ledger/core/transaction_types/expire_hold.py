"""Releases what remains of a hold that has expired. Until then, the hold can be posted, whatever the time."""

from collections.abc import Sequence

from ledger.core.accounts import Account
from ledger.core.decoding import Time
from ledger.core.holds import OpenHold
from ledger.core.rules import Decision, RejectionReason, posted, rejected
from ledger.core.transaction_types.hold_resolution import HoldResolution


class ExpireHold(HoldResolution, frozen=True, tag="expire_hold"):
    """The hold has expired if its `expires_at` is at `as_of` or before: the decision depends on no clock."""

    posted_event = "HoldExpired"

    as_of: Time

    def decide_hold(self, accounts: Sequence[Account], hold: OpenHold) -> tuple[Decision, ...]:
        [account] = accounts
        if not hold.is_expired(self.as_of):
            return (rejected(account, RejectionReason.HOLD_NOT_EXPIRED),)
        return (posted(account),)
