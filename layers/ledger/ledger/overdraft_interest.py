"""Overdraft interest: the accounts below zero, and the rate that they are charged."""

from decimal import Decimal, InvalidOperation
from typing import Any

from conditional_writes.core.items import to_dynamodb
from ledger.core.accounts import AccountStatus
from ledger.core.money import exact, is_json_number
from ledger.core.transaction_types.base import NumberRange

OVERDRAWN: dict[str, Any] = {
    "FilterExpression": "#balance < :zero AND #status = :open",
    "ProjectionExpression": "account_id",
    "ExpressionAttributeNames": {"#balance": "balance", "#status": "status"},
    "ExpressionAttributeValues": to_dynamodb({":zero": 0, ":open": str(AccountStatus.OPEN)}),
}
"""The parameters of a Scan for the accounts that are open and below zero, as `{"account_id": …}`."""


def annual_rate_of(setting: str) -> Decimal:
    """The rate in a setting: a decimal number above 0 and at most 1, spelled as in a message. Raises ValueError."""
    try:
        rate = exact("annual_rate", Decimal(setting))
    except InvalidOperation:
        rate = Decimal(0)
    if not (is_json_number(setting) and NumberRange.RATE.holds(rate)):
        raise ValueError(f"annual_rate: expected {NumberRange.RATE.value}, got {setting[:40]!r}")
    return rate
