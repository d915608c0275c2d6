"""Voids a hold: all that remains of it is released."""

from collections.abc import Sequence

from ledger.core.accounts import Account
from ledger.core.holds import OpenHold
from ledger.core.rules import Decision, posted
from ledger.core.transaction_types.hold_resolution import HoldResolution


class VoidHold(HoldResolution, frozen=True, tag="void_hold"):
    posted_event = "HoldVoided"

    def decide_hold(self, accounts: Sequence[Account], hold: OpenHold) -> tuple[Decision, ...]:
        [account] = accounts
        return (posted(account),)
