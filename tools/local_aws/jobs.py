"""Runs the scheduled jobs of a deployed stack, as EventBridge Scheduler does, and reads the reconciliation's report."""

import json
from datetime import datetime
from typing import Any

from conditional_writes.core.items import from_dynamodb, to_dynamodb
from tools.local_aws.server import LocalAwsError
from tools.local_aws.stack import Stack


def run_job(deployed: Stack, name: str, scheduled_time: datetime) -> dict[str, Any]:
    """The function's answer, whatever the time is now. Raises LocalAwsError if the function fails."""
    event = json.dumps(event_of(name, scheduled_time))
    response = deployed.endpoint.client("lambda").invoke(FunctionName=function_name(deployed, name), Payload=event)
    answer: dict[str, Any] = json.loads(response["Payload"].read())
    if "FunctionError" in response:
        raise LocalAwsError(f"{name}: {answer}")
    return answer


def event_of(name: str, scheduled_time: datetime) -> dict[str, Any]:
    return {"job": name, "scheduled_time": scheduled_time.isoformat(), "force": True}


def function_name(deployed: Stack, job: str) -> str:
    return deployed[f"{job.title().replace('_', '')}FunctionName"]


def read_report(deployed: Stack, scheduled_time: datetime) -> dict[str, Any]:
    """The report of the reconciliation for that time."""
    wanted = to_dynamodb({"lock_key": f"reconcile_accounts {scheduled_time.isoformat()}"})
    client = deployed.endpoint.client("dynamodb")
    return from_dynamodb(client.get_item(TableName=deployed["LocksTableName"], Key=wanted)["Item"])
