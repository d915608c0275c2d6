"""Overdraft interest: the accounts below zero, and the message that charges one of them for a day."""

import hashlib
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger.core.accounts import AccountStatus
from ledger.core.money import exact, is_json_number
from ledger.core.transaction_types.base import Range
from ledger.core.transaction_types.charge_interest import ChargeInterest

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class Page(Struct, frozen=True):
    """Accounts below zero. The next page begins after the account `after`; None: this is the last page."""

    account_ids: list[str]
    after: str | None


def overdrawn(client: "DynamoDBClient", accounts_table: str, after: str | None, looked_at: int) -> Page:
    """Scans the next `looked_at` accounts of the table, for those that are open and below zero now.

    One strongly consistent request. From page to page, each account is scanned once.
    """
    start: dict[str, Any] = {} if after is None else {"ExclusiveStartKey": to_dynamodb({"account_id": after})}
    response = client.scan(
        TableName=accounts_table,
        ConsistentRead=True,
        Limit=looked_at,
        FilterExpression="#balance < :zero AND #status = :open",
        ProjectionExpression="account_id",
        ExpressionAttributeNames={"#balance": "balance", "#status": "status"},
        ExpressionAttributeValues=to_dynamodb({":zero": 0, ":open": str(AccountStatus.OPEN)}),
        **start,
    )
    last = response.get("LastEvaluatedKey")
    account_ids = [from_dynamodb(item)["account_id"] for item in response["Items"]]
    return Page(account_ids, from_dynamodb(last)["account_id"] if last else None)


def charge(account_id: str, day: date, annual_rate: Decimal) -> ChargeInterest:
    """The account's message for this day. It depends on the arguments alone, so a second one is a repetition.

    Its id ends with a short hash of the account id, so that ids differ in a log.
    """
    account_hash = hashlib.sha256(account_id.encode()).hexdigest()[:16]
    return ChargeInterest(
        transaction_id=f"overdraft-interest-{day}-{account_hash}",
        account_id=account_id,
        annual_rate=annual_rate,
        occurred_at=datetime(day.year, day.month, day.day, tzinfo=UTC),
        description=f"Overdraft interest for {day}",
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
