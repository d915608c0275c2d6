"""Releases what remains of a hold that has expired. Until then, the hold can be posted, whatever the time."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Self

from ledger.core.accounts import Account
from ledger.core.decoding import TELLERS_OWN, Time
from ledger.core.holds import OpenHold, expiry
from ledger.core.reason_codes import InvalidMessage
from ledger.core.rules import Decision, RejectionReason, posted, rejected
from ledger.core.transaction_types.base import Door
from ledger.core.transaction_types.hold_resolution import HoldResolution


class ExpireHold(HoldResolution, frozen=True, tag="expire_hold"):
    """The hold has expired if its `expires_at` is at `as_of` or before: the decision depends on no clock."""

    door = Door.ADMINISTRATION
    posted_event = "HoldExpired"
    job_prefix = f"{TELLERS_OWN}expire-hold-"

    as_of: Time

    @classmethod
    def at(cls, account_id: str, hold_id: str, expires_at: datetime) -> Self:
        """The job's message for a hold. It depends on the arguments alone, so a second message is a repetition.

        The id follows from the expiry, too: a hold may have the id of an imported one that has expired. Raises
        OverflowError if the time has no date in UTC.
        """
        as_of = expires_at.astimezone(UTC)
        of_hold = json.dumps([account_id, hold_id, as_of.isoformat()])
        return cls(
            transaction_id=f"{cls.job_prefix}{hashlib.sha256(of_hold.encode()).hexdigest()[:32]}",
            account_id=account_id,
            hold_id=hold_id,
            as_of=as_of,
            description="The hold has expired",
        )

    @property
    def of_job(self) -> Self:
        return self.at(self.account_id, self.hold_id, self.as_of)

    def decide_hold(self, accounts: Sequence[Account], hold: OpenHold) -> tuple[Decision, ...]:
        """Raises InvalidMessage if the id is the job's, and `as_of` isn't the hold's own expiry: a rejection that is
        recorded under that id would keep the job's message out.
        """
        [account] = accounts
        if self.transaction_id.startswith(self.job_prefix) and hold.expires_at != expiry(self.as_of):
            raise InvalidMessage("as_of: expected the hold's own expires_at, as in the job's message of this id")
        if not hold.is_expired(self.as_of):
            return (rejected(account, RejectionReason.HOLD_NOT_EXPIRED),)
        return (posted(account),)
