"""Expired holds: the accounts with open holds, and the messages that release those that have expired."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from conditional_writes import Item
from conditional_writes.core.items import to_dynamodb
from ledger.core.holds import MOST_OPEN_HOLDS, holds_from_item
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode
from ledger.core.transaction_types.expire_hold import ExpireHold
from ledger.core.values import attribute
from ledger.sending_job import SkippedAccount

WITH_HOLDS: dict[str, Any] = {
    "FilterExpression": "#held > :zero",
    "ProjectionExpression": "account_id, #holds",
    "ExpressionAttributeNames": {"#held": "held", "#holds": "holds"},
    "ExpressionAttributeValues": to_dynamodb({":zero": 0}),
}
"""The parameters of a Scan for the accounts with open holds, as `{"account_id": …, "holds": …}`."""


def expiries(account: Item, now: datetime) -> Sequence[ExpireHold]:
    """A message for each hold of the account that has expired by now; at most for as many as an account may have.

    `account` is one of `WITH_HOLDS`. Raises SkippedAccount if its holds are none that Teller wrote.
    """
    try:
        holds = holds_from_item(attribute(account, "holds", dict))
        expired = [
            expire(account["account_id"], hold_id, datetime.fromisoformat(hold.expires_at))
            for hold_id, hold in holds.items()
            if hold.expires_at and hold.is_expired(now)
        ]
        return expired[:MOST_OPEN_HOLDS]
    except (KeyError, TypeError, ValueError, OverflowError, InvalidMessage) as error:
        raise SkippedAccount(f"{type(error).__name__}: {error}"[:1000]) from None


def expire(account_id: str, hold_id: str, expires_at: datetime) -> ExpireHold:
    """The message that releases the hold.

    Raises InvalidMessage if no message can have one of the ids, and OverflowError if the time has no date in UTC.
    """
    message = decode(json.dumps(ExpireHold.at(account_id, hold_id, expires_at).canonical_payload()))
    assert isinstance(message, ExpireHold)
    return message
