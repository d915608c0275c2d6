"""The DynamoDB client, with its retries and timeouts chosen."""

from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

CONNECTIONS = 32
"""Requests in flight at most from one client; more threads than this would wait for a connection."""

CONFIG = Config(
    # The SDK settles what has no answer in it: throttles, 5xx, lost connections, and the outcome of a transaction
    # that was still in progress (it resends with the same ClientRequestToken). "standard" jitters its back-off and
    # has a retry quota; the older "legacy" default has neither. Conflicts are answers: the loop plans again.
    retries={"mode": "standard", "total_max_attempts": 3},
    # DynamoDB answers in milliseconds. botocore's own 60 s would let one lost packet eat the whole invocation.
    connect_timeout=1,
    read_timeout=2,
    max_pool_connections=CONNECTIONS,
    # Requests are made by this library, not by hand: checking their shape again costs a fifth of the CPU time.
    parameter_validation=False,
)

SLOWEST_CALL_SECONDS = 3 * (1 + 2) + 3
"""What one call can take with those settings: three attempts, and the back-off of throttles (1 s, then 2 s)."""


def dynamodb_client() -> "DynamoDBClient":
    """A client for the loop. Make it once, outside of the handler: it is thread-safe, and costs 30 ms to make."""
    client: DynamoDBClient = boto3.client("dynamodb", config=CONFIG)
    return client
