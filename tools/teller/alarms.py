"""The stack's alarms: how many there are, and those that ring."""

import itertools
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from tools.teller.deployment import Deployment

MOST_NAMES = 100
"""Of one request to CloudWatch."""


class Ringing(NamedTuple):
    """An alarm by its name in template.yaml, and when it began to ring."""

    name: str
    since: datetime
    reason: str


class Alarms(NamedTuple):
    """`without_data` haven't been evaluated yet. A local AWS evaluates none."""

    number: int
    without_data: int
    ringing: list[Ringing]


def alarms_of(deployment: Deployment) -> Alarms:
    """All alarms of the stack. Their own names are CloudFormation's, so the stack's resources are asked for them."""
    pages = deployment.client("cloudformation").get_paginator("list_stack_resources")
    names = {
        resource["PhysicalResourceId"]: resource["LogicalResourceId"]
        for page in pages.paginate(StackName=deployment.name)
        for resource in page["StackResourceSummaries"]
        if resource["ResourceType"] == "AWS::CloudWatch::Alarm" and resource.get("PhysicalResourceId")
    }
    found = described(deployment, names)
    return Alarms(
        len(found),
        sum(alarm["StateValue"] == "INSUFFICIENT_DATA" for alarm in found),
        [
            Ringing(names[alarm["AlarmName"]], alarm["StateUpdatedTimestamp"], alarm.get("StateReason", ""))
            for alarm in found
            if alarm["StateValue"] == "ALARM"
        ],
    )


def described(deployment: Deployment, names: Iterable[str]) -> list[dict[str, Any]]:
    """The alarms with these names, as CloudWatch describes them."""
    cloudwatch = deployment.client("cloudwatch")
    return [
        alarm
        for some in itertools.batched(names, MOST_NAMES, strict=False)
        for alarm in cloudwatch.describe_alarms(AlarmNames=some, MaxRecords=MOST_NAMES)["MetricAlarms"]
    ]
