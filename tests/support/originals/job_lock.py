"""A lock for a job's block, by a Japanese article, in Ruby: a conditional put, and the block under the same rescue."""

import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError


def acquire_lock(table: Any, key: str, block: Callable[[], Any], *, ttl: int = 60) -> Any:
    """Calls the block, and returns its result; None if the lock is taken."""
    current_time = int(time.time())
    expires_at = current_time + ttl
    try:
        table.put_item(
            Item={
                "Key": key,
                "ExpiresAt": expires_at,
            },
            ConditionExpression="attribute_not_exists(#key) OR #expires <= :now",
            ExpressionAttributeNames={
                "#key": "Key",
                "#expires": "ExpiresAt",
            },
            ExpressionAttributeValues={
                ":now": current_time,
            },
        )
        return block()
    except ClientError as error:  # In Ruby one class stands for the refusals of all clients.
        if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
            return None
        raise
