"""Overdraft interest: the accounts that have any, and the messages that charge what is due."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from conditional_writes import Item
from conditional_writes.core.items import to_dynamodb
from ledger.core.accounts import Account, AccountStatus, account_from_item, timestamp
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode
from ledger.core.transaction_types.charge_interest import ChargeInterest
from ledger.sending_job import SkippedAccount

WITH_INTEREST: dict[str, Any] = {
    "FilterExpression": "attribute_exists(#interest) AND #status = :open",
    "ProjectionExpression": ", ".join(f"#{name}" for name in Account.__struct_fields__),
    "ExpressionAttributeNames": {f"#{name}": name for name in Account.__struct_fields__},
    "ExpressionAttributeValues": to_dynamodb({":open": str(AccountStatus.OPEN)}),
}
"""The parameters of a Scan for the open accounts that ever had a rate."""


def last_month_end(time: datetime) -> datetime:
    """The beginning of the month, in UTC."""
    day = time.astimezone(UTC)
    return datetime(day.year, day.month, 1, tzinfo=UTC)


def charges(account: Item, month_end: datetime, to_account_id: str = "") -> Sequence[ChargeInterest]:
    """A message if something is due at the end of this month, or was before and isn't charged yet.

    `account` is one of `WITH_INTEREST`. The interest goes `to_account_id`, in which `{currency}` stands for the
    account's currency; out of the ledger, if it is empty.

    Raises SkippedAccount if `account` is none that Teller wrote, or has an id that no message
    may have.
    """
    try:
        found = account_from_item(account)
        if not found.at(timestamp(month_end)).interest.due:
            return []
        return [charge(found.account_id, month_end, to_account_id.replace("{currency}", found.currency))]
    except (KeyError, TypeError, ValueError, InvalidMessage) as error:
        raise SkippedAccount(f"{type(error).__name__}: {error}"[:1000]) from None


def charge(account_id: str, month_end: datetime, to_account_id: str = "") -> ChargeInterest:
    """The message that charges what is due. Raises InvalidMessage if no message can have the account's id, and
    ValueError if it is that of the account that gets the interest.
    """
    message = decode(json.dumps(ChargeInterest.at(account_id, month_end, to_account_id or None).canonical_payload()))
    assert isinstance(message, ChargeInterest)
    return message
