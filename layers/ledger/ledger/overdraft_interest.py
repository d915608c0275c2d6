"""Overdraft interest: the accounts below zero, and the rate that they are charged."""

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from conditional_writes.core.items import to_dynamodb
from ledger.account_pages import AccountPage, account_page
from ledger.core.accounts import AccountStatus
from ledger.core.money import exact, is_json_number
from ledger.core.transaction_types.base import Range
from workers.segments import Segment

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


def overdrawn(
    client: "DynamoDBClient", accounts_table: str, segment: Segment, after: str | None, limit: int
) -> AccountPage:
    """Of the segment's next `limit` accounts those that are open and below zero now, as `{"account_id": …}`."""
    return account_page(
        client,
        accounts_table,
        segment,
        after,
        limit,
        FilterExpression="#balance < :zero AND #status = :open",
        ProjectionExpression="account_id",
        ExpressionAttributeNames={"#balance": "balance", "#status": "status"},
        ExpressionAttributeValues=to_dynamodb({":zero": 0, ":open": str(AccountStatus.OPEN)}),
    )


def annual_rate_of(setting: str) -> Decimal:
    """The rate in a setting: a decimal number above 0 and at most 1, spelled as in a message. Raises ValueError."""
    try:
        rate = exact("annual_rate", Decimal(setting))
    except InvalidOperation:
        rate = Decimal(0)
    if not (is_json_number(setting) and Range.RATE.holds(rate)):
        raise ValueError(f"annual_rate: expected {Range.RATE.value}, got {setting[:40]!r}")
    return rate
