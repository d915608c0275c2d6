"""The Accounts table page by page: a scan that can go on in another invocation."""

from typing import TYPE_CHECKING, Any, NamedTuple

from conditional_writes import Item
from conditional_writes.items import from_dynamodb, to_dynamodb
from workers.segments import Segment

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class AccountPage(NamedTuple):
    """Items of accounts, in the table's order. The next page begins after the account `after`; None: no more pages."""

    items: list[Item]
    after: str | None


def account_page(
    client: "DynamoDBClient", accounts_table: str, segment: Segment, after: str | None, limit: int, **filters: Any
) -> AccountPage:
    """The segment's next `limit` accounts, as they are now. From page to page, each account is read once.

    Each account is in one segment, and stays there while the number of segments is the same. Segments differ in length:
    DynamoDB divides the table by the hashes of the ids.

    One strongly consistent request. `filters` has further parameters of DynamoDB's Scan: an account that they leave out
    counts towards `limit`. Raises botocore's errors.
    """
    start: dict[str, Any] = {} if after is None else {"ExclusiveStartKey": to_dynamodb({"account_id": after})}
    if segment.of > 1:
        start |= {"Segment": segment.number - 1, "TotalSegments": segment.of}
    response = client.scan(TableName=accounts_table, ConsistentRead=True, Limit=limit, **filters, **start)
    last = response.get("LastEvaluatedKey")
    items = [from_dynamodb(item) for item in response["Items"]]
    return AccountPage(items, from_dynamodb(last)["account_id"] if last else None)
