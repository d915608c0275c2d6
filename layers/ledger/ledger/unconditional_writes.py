"""Writes items of one table as they are, without conditions: 25 a request, and one write unit for each KB."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from conditional_writes import Deadline
from conditional_writes.core.steps import growing_pauses

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

MOST_WRITES = 25
"""Of one BatchWriteItem: DynamoDB's limit."""


def write_all(
    client: "DynamoDBClient", table: str, requests: Iterable[dict[str, Any]], deadline: Deadline, doing: str
) -> None:
    """Makes the requests, each `{"PutRequest": …}` or `{"DeleteRequest": …}` of another item.

    What DynamoDB throttles is sent again. Raises DeadlinePassed if not all are written by then, and botocore's errors.
    """
    unwritten = list(requests)
    pauses = growing_pauses()
    while unwritten:
        deadline.check(doing)
        batch, rest = unwritten[:MOST_WRITES], unwritten[MOST_WRITES:]
        refused = client.batch_write_item(RequestItems={table: batch})["UnprocessedItems"]  # type: ignore[dict-item]
        throttled: list[Any] = refused.get(table, [])
        if throttled:
            time.sleep(min(next(pauses), max(0.0, deadline.remaining_seconds)))
        unwritten = [*throttled, *rest]
