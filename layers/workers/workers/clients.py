"""Clients of SQS, Lambda and EventBridge, with the retries, timeouts and short start-up of DynamoDB's client."""

import functools
from typing import TYPE_CHECKING

from conditional_writes.client import new_client

if TYPE_CHECKING:
    from types_boto3_events import EventBridgeClient
    from types_boto3_lambda import LambdaClient
    from types_boto3_sqs import SQSClient


def sqs_client() -> "SQSClient":
    client: SQSClient = new_client("sqs")
    return client


@functools.cache
def lambda_client() -> "LambdaClient":
    """Made at the first call: only a job that is short of time needs it."""
    client: LambdaClient = new_client("lambda")
    return client


def events_client() -> "EventBridgeClient":
    """One attempt with a long timeout: `EventBus` tries again by itself, and an event may come twice."""
    client: EventBridgeClient = new_client("events", retries={"total_max_attempts": 1}, read_timeout=10)
    return client
