"""The base of the transaction types that resolve a hold: the first one that takes all of the hold closes it."""

from collections.abc import Mapping, Sequence
from typing import Any

from ledger.core.accounts import Account
from ledger.core.decoding import Id
from ledger.core.holds import OpenHold, total, without_hold
from ledger.core.journal import EntryId
from ledger.core.reason_codes import UnknownHold
from ledger.core.rules import Decision, RejectionReason, all_rejected
from ledger.core.transaction_types.base import AccountMessage, Context


class HoldResolution(AccountMessage, frozen=True):
    """`hold_id` is the transaction id of the `hold`. If the hold isn't open, the resolution is rejected.

    If the account has no journal entry with the hold's id, the resolution waits for it.
    """

    hold_id: Id

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hold_id == self.transaction_id:
            raise ValueError("hold_id: expected the id of a hold, got the message's own")

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        hold = accounts[0].open_holds.get(self.hold_id)
        if hold:
            return self.decide_hold(accounts, hold)
        missing = UnknownHold(f"hold_id: account {self.account_id!r} has no transaction {self.hold_id!r}")
        context.entry(EntryId(self.account_id, self.hold_id), missing)
        return all_rejected(accounts, RejectionReason.HOLD_NOT_OPEN, accounts[0])

    def decide_hold(self, accounts: Sequence[Account], hold: OpenHold) -> tuple[Decision, ...]:
        """The decision for each account. The hold is open, on the first of them."""
        raise NotImplementedError

    def changes(self, account: Account) -> Mapping[str, Any]:
        holds = without_hold(account.open_holds, self.hold_id)
        return {"holds": holds, "held": total(holds)}
