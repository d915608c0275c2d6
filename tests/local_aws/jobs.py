"""The scheduled jobs of a deployed stack: run as EventBridge Scheduler does, and what they must leave."""

import json
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

from conditional_writes.items import from_dynamodb, to_dynamodb
from tests.local_aws.checker import Books
from tests.local_aws.server import LocalAwsError
from tests.local_aws.stack import Stack

CLAIMS = (
    "a job that is delivered twice has one effect",
    "each overdrawn account was charged a day's interest, once",
    "the nightly reconciliation finds nothing",
)


def run_job(deployed: Stack, name: str, scheduled_time: datetime) -> dict[str, Any]:
    """The function's answer. Raises LocalAwsError where it has none."""
    event = json.dumps({"job": name, "scheduled_time": scheduled_time.isoformat()})
    response = deployed.endpoint.client("lambda").invoke(FunctionName=function_name(deployed, name), Payload=event)
    answer: dict[str, Any] = json.loads(response["Payload"].read())
    if "FunctionError" in response:
        raise LocalAwsError(f"{name}: {answer}")
    return answer


def function_name(deployed: Stack, job: str) -> str:
    return deployed[f"{job.title().replace('_', '')}FunctionName"]


def read_report(deployed: Stack, scheduled_time: datetime) -> dict[str, Any]:
    """Of a night's reconciliation."""
    wanted = to_dynamodb({"lock_key": f"reconcile_accounts {scheduled_time.isoformat()}"})
    client = deployed.endpoint.client("dynamodb")
    return from_dynamodb(client.get_item(TableName=deployed["LocksTableName"], Key=wanted)["Item"])


def wrongly_charged(before: Books, after: Books, day: date) -> Iterator[str]:
    """A sentence for each account that should have been charged interest on this day, and wasn't, or the other way."""
    overdrawn = {name for name, account in before.accounts.items() if account.balance < 0}
    charged = {
        entry.account_id for entry in after.entries if entry.transaction_id.startswith(f"overdraft-interest-{day}")
    }
    for name in sorted(overdrawn - charged):
        yield f"{name} was overdrawn, and not charged"
    for name in sorted(charged - overdrawn):
        yield f"{name} was charged, and not overdrawn"
