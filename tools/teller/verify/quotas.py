"""Step 8: the stack is what was built and deployed last, the quotas have room for it, and its alarms reach somebody."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tools.teller.job_records import JOBS
from tools.teller.verify.code import check_code
from tools.teller.verify.run import Run
from tools.teller.verify.steps import Step, different

UNITS_PER_TRANSACTION = 5
"""Write units of a transaction that is alone in its batch, its index included."""
OF_OTHERS = 10
"""Concurrent executions for what the parameters don't bound: the stream, readers, and who publishes again."""
PUT_EVENTS = "PutEvents throttle limit in transactions per second"
"""A quota's name."""
PUT_EVENTS_OF_AN_INVOCATION = 10
"""Requests a second: a batch at once posts some 100 transactions a second, and a request has ten events."""
CLOCKS_DIFFER = timedelta(minutes=5)
TOPICS = ("AlarmTopicArn", "WorkingHoursAlarmTopicArn")
REACHED = "an alarm's topic has a confirmed subscription"


def quotas(run: Run, step: Step) -> None:
    [stack] = run.client("cloudformation").describe_stacks(StackName=run.deployment.name)["Stacks"]
    is_sound = "ROLLBACK" not in stack["StackStatus"] and not stack["StackStatus"].endswith("FAILED")
    step.check("the last deployment succeeded", *different("stack, status", True, is_sound))
    check_code(run, step)
    claims = (
        "the account has the concurrency that the parameters allow",
        "EventBridge takes the events of so many transactions",
    )
    if run.deployment.is_local:
        for claim in (*claims, "what prod keeps is kept in the processed template", REACHED):
            step.only_on_aws(claim, "a local AWS has no quotas, no processed template and no alarms that ring")
        return
    if run.resources.parameters.get("Stage") == "prod":
        protected = stack.get("EnableTerminationProtection", False)
        step.check("the stack is protected", *different("stack, termination protection", True, protected))
    step.check("what prod keeps is kept in the processed template", *_not_kept(run))
    limit = run.client("lambda").get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
    needed = concurrency_of(run.resources.parameters)
    short = [f"Lambda, concurrent executions: expected at least {needed:,}, got {limit:,}"] if limit < needed else []
    step.check(claims[0], *short)
    limits = run.client("dynamodb").describe_limits()
    units = limits["TableMaxWriteCapacityUnits"]
    step.measure(
        f"{limit:,} concurrent executions, {needed:,} needed; {units:,} write units a second of a table: "
        f"{units // UNITS_PER_TRANSACTION:,} transactions, each alone"
    )
    _check_alarms(run, step)
    step.measure(f"{_throttled(run):,.0f} throttled requests to tables during the run, as far as CloudWatch has them")
    _check_put_events(run, step, claims[1])


def _check_put_events(run: Run, step: Step, claim: str) -> None:
    needed = PUT_EVENTS_OF_AN_INVOCATION * int(run.resources.parameters["MaximumConcurrency"])
    pages = run.client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="events")
    [quota] = [each["Value"] for page in pages for each in page["Quotas"] if each["QuotaName"] == PUT_EVENTS] or [None]
    if quota is None:
        step.not_tried(claim, f"Service Quotas has no quota of this name: {PUT_EVENTS}")
        return
    short = f"EventBridge, PutEvents a second: expected at least {needed:,}, got {quota:,.0f}"
    step.check(claim, *([short] if quota < needed else []))


def _throttled(run: Run) -> float:
    """A new table takes 4,000 write units a second: docs/capacity.md"""
    cloudwatch, ended = run.client("cloudwatch"), datetime.now(UTC) + CLOCKS_DIFFER
    points = [
        point
        for table in ("AccountsTableName", "JournalTableName")
        for metric in ("ReadThrottleEvents", "WriteThrottleEvents")
        for point in cloudwatch.get_metric_statistics(
            Namespace="AWS/DynamoDB",
            MetricName=metric,
            Dimensions=[{"Name": "TableName", "Value": run.deployment[table]}],
            StartTime=run.began,
            EndTime=ended,
            Period=3600,
            Statistics=["Sum"],
        )["Datapoints"]
    ]
    return sum(point["Sum"] for point in points)


def _check_alarms(run: Run, step: Step) -> None:
    """Whether CloudWatch may publish to a topic is seen when an alarm rings: `aws cloudwatch set-alarm-state`."""
    sns = run.client("sns")
    for parameter in TOPICS:
        topic, claim = run.resources.parameters.get(parameter), f"{parameter}: {REACHED}"
        if not topic:
            step.not_tried(claim, f"{parameter} is empty: these alarms notify nobody")
            continue
        pages = sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
        arns = [each["SubscriptionArn"] for page in pages for each in page["Subscriptions"]]
        confirmed = [arn for arn in arns if arn.startswith("arn:")]
        step.check(claim, *different(f"{parameter}, confirmed", True, bool(confirmed)))


def concurrency_of(parameters: dict[str, str]) -> int:
    """The executions at once: of two queues and the administration's, and of the jobs, two each."""
    return 2 * int(parameters["MaximumConcurrency"]) + 2 + 2 * len(JOBS) + OF_OTHERS


def _not_kept(run: Run) -> Iterator[str]:
    """The conditions of these attributes are invisible in the resources themselves."""
    answer = run.client("cloudformation").get_template(StackName=run.deployment.name, TemplateStage="Processed")
    found: Any = answer["TemplateBody"]["Resources"]
    for name, resource in run.resources.expected.items():
        for attribute in ("DeletionPolicy", "UpdateReplacePolicy"):
            if attribute in resource:
                yield from different(f"{name}, {attribute}", resource[attribute], found.get(name, {}).get(attribute))
