"""Clients of SQS and EventBridge, as quickly made as DynamoDB's. That of SQS retries as that one does."""

from typing import TYPE_CHECKING

from conditional_writes.core.client import new_client

if TYPE_CHECKING:
    from types_boto3_events import EventBridgeClient
    from types_boto3_sqs import SQSClient


def sqs_client() -> "SQSClient":
    client: SQSClient = new_client("sqs")
    return client


def events_client(read_seconds: int) -> "EventBridgeClient":
    """Makes one attempt of each request: `EventBus` tries again by itself, and an event may come twice."""
    client: EventBridgeClient = new_client("events", retries={"total_max_attempts": 1}, read_timeout=read_seconds)
    return client
