"""Overdraft interest: which accounts are below zero, and the message that charges one of them for a day."""

import hashlib
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger.accounts import AccountStatus
from ledger.messages import ChargeInterest, decode

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class Page(Struct, frozen=True):
    """Accounts below zero; `after` is where the next page begins, None where this is the last."""

    account_ids: list[str]
    after: str | None


def overdrawn(client: "DynamoDBClient", accounts_table: str, after: str | None, looked_at: int) -> Page:
    """Of the next `looked_at` accounts of the table those that are open and below zero now.

    One request, strongly consistent. Page after page, each account that is there all the while is looked at once.
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
    """The account's message for this day. Nothing in it but these three, so one that is sent again is a repetition.

    Its id has a short hash of the account, to tell one from another where ids stand alone, as in a log.
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
    """The rate in a setting, held to what a message's is. Raises InvalidMessage."""
    fields = {"type": "charge_interest", "transaction_id": "-", "account_id": "-", "annual_rate": setting}
    message = decode(json.dumps(fields))
    assert isinstance(message, ChargeInterest)
    return message.annual_rate
