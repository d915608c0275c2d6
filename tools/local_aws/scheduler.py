"""Runs the scheduled jobs of a deployed stack, as EventBridge Scheduler does, and reads the reconciliation's report."""

import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from conditional_writes.core.items import from_dynamodb, to_dynamodb
from tools.local_aws.queues import waiting_messages
from tools.local_aws.server import LocalAwsError
from tools.local_aws.stack import Stack

LONGEST_SECONDS = 120


def send(deployed: Stack, name: str, scheduled_time: datetime, **fields: Any) -> None:
    """Sends a message of the job that begins a run whatever the time is now."""
    body = json.dumps({"job": name, "scheduled_time": scheduled_time.isoformat(), "force": True} | fields)
    deployed.endpoint.client("sqs").send_message(QueueUrl=queue_url(deployed, name), MessageBody=body)


def run_job(deployed: Stack, name: str, scheduled_time: datetime, **fields: Any) -> dict[str, Any]:
    """Sends a message of the job, and returns the report when its queue is empty. Raises LocalAwsError if it stays."""
    send(deployed, name, scheduled_time, **fields)
    sqs, until = deployed.endpoint.client("sqs"), time.monotonic() + LONGEST_SECONDS
    while waiting_messages(sqs, queue_url(deployed, name)):
        if time.monotonic() > until:
            raise LocalAwsError(f"{name}: its message is still on its queue after {LONGEST_SECONDS} s")
        time.sleep(0.05)
    return read_report(deployed, scheduled_time, name)


def queue_url(deployed: Stack, job: str) -> str:
    return deployed[f"{job.title().replace('_', '')}QueueUrl"]


def function_name(deployed: Stack, job: str) -> str:
    return deployed[f"{job.title().replace('_', '')}FunctionName"]


def read_report(deployed: Stack, scheduled_time: datetime, job: str = "reconcile_accounts") -> dict[str, Any]:
    """The report of the job for that time. Raises KeyError if there is none."""
    wanted: Mapping[str, Any] = to_dynamodb({"lock_key": f"{job} {scheduled_time.isoformat()}"})
    client = deployed.endpoint.client("dynamodb")
    return from_dynamodb(client.get_item(TableName=deployed["LocksTableName"], Key=wanted)["Item"])
