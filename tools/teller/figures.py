"""The figures of the last hour: from CloudWatch's metrics, or on a local AWS from the functions' own log lines.

A local AWS makes no metrics of the lines, and has none of its own for queues and streams: those figures are None.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tools.teller.deployment import Deployment, function_of
from tools.teller.message_queues import MessageQueue

HOUR = timedelta(hours=1)
FRESH = timedelta(minutes=10)
"""An age that CloudWatch measured before is none of the present."""
PERIOD_SECONDS = 60
MOST_EVENTS = 10_000
"""A local AWS answers with no more log lines, and doesn't say that there are others."""


class Counted(NamedTuple):
    """The metrics that tell what became of a kind of thing. `service` is their dimension."""

    service: str
    metrics: Mapping[str, str]


BECAME = {
    "transactions": Counted(
        "process_transactions",
        {
            "Posted": "posted",
            "Rejected": "rejected",
            "Duplicates": "decided before",
            "Waiting": "came too early",
            "ReturnedToQueue": "returned to the queue",
            "DeadLettered": "dead",
        },
    ),
    "profiles": Counted(
        "upsert_profiles",
        {
            "Upserted": "upserted",
            "Superseded": "superseded",
            "Erased": "erased",
            "Waiting": "came too early",
            "ReturnedToQueue": "returned to the queue",
            "DeadLettered": "dead",
        },
    ),
    "outcomes": Counted(
        "publish_outcomes",
        {
            "Published": "published",
            "NotPublished": "not published",
            "DeadLettered": "dead",
            "EntriesChanged": "of changed entries",
        },
    ),
}
"""The metrics, and the words for them."""


class Figures(NamedTuple):
    """`became` has sums by kind and metric. `came` has the messages sent to each queue.

    The ages are in seconds, and None if CloudWatch has no fresh one. On a local AWS all but `became` is None.
    """

    became: dict[str, dict[str, int]]
    came: dict[str, int] | None
    oldest_message_seconds: dict[str, int | None] | None
    oldest_outcome_seconds: int | None


def figures(deployment: Deployment, now: datetime) -> Figures:
    if deployment.is_local:
        return Figures(_became_by_logs(deployment, now), None, None, None)
    return _by_cloudwatch(deployment, now)


def _by_cloudwatch(deployment: Deployment, now: datetime) -> Figures:
    namespace = f"Teller/{deployment.name}"
    wanted: dict[Any, dict[str, Any]] = {}
    for kind, (service, metrics) in BECAME.items():
        for metric in metrics:
            wanted["became", kind, metric] = _query(namespace, metric, "service", service, "Sum")
    for queue in MessageQueue:
        name = deployment[queue.output].rpartition("/")[2]
        wanted["came", queue] = _query("AWS/SQS", "NumberOfMessagesSent", "QueueName", name, "Sum")
        wanted["age", queue] = _query("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", name, "Maximum")
    publisher = deployment["PublishOutcomesFunctionName"].partition(":")[0]  # the metrics are of all versions
    wanted["age", "outcomes"] = _query("AWS/Lambda", "IteratorAge", "FunctionName", publisher, "Maximum")

    keys = list(wanted)
    queries = [{"Id": f"m{number}", **wanted[key]} for number, key in enumerate(keys)]
    pages = (
        deployment.client("cloudwatch")
        .get_paginator("get_metric_data")
        .paginate(MetricDataQueries=queries, StartTime=now - HOUR, EndTime=now, ScanBy="TimestampDescending")
    )
    sums, latest = Counter[Any](), dict[Any, int]()
    for result in (result for page in pages for result in page["MetricDataResults"]):
        key = keys[int(result["Id"][1:])]
        sums[key] += sum(result["Values"])
        if result["Values"] and result["Timestamps"][0] >= now - FRESH:
            latest.setdefault(key, int(result["Values"][0]))
    iterator_age = latest.get(("age", "outcomes"))
    return Figures(
        {
            kind: {metric: int(sums["became", kind, metric]) for metric in metrics}
            for kind, (_, metrics) in BECAME.items()
        },
        {queue: int(sums["came", queue]) for queue in MessageQueue},
        {queue: latest.get(("age", queue)) for queue in MessageQueue},
        None if iterator_age is None else iterator_age // 1000,
    )


def _query(namespace: str, metric: str, dimension: str, value: str, statistic: str) -> dict[str, Any]:
    measured = {"Namespace": namespace, "MetricName": metric, "Dimensions": [{"Name": dimension, "Value": value}]}
    return {"MetricStat": {"Metric": measured, "Period": PERIOD_SECONDS, "Stat": statistic}}


def _became_by_logs(deployment: Deployment, now: datetime) -> dict[str, dict[str, int]]:
    became = {}
    for kind, (service, metrics) in BECAME.items():
        sums = logged_sums(deployment, service, now - HOUR, now)
        became[kind] = {metric: int(sums[metric]) for metric in metrics}
    return became


def logged_sums(deployment: Deployment, service: str, start: datetime, end: datetime) -> Counter[str]:
    """The sums of the metrics in a function's log lines between two times, by the metrics' names."""
    sums: Counter[str] = Counter()
    for line in _metric_lines(deployment, deployment[f"{function_of(service)}LogGroupName"], start, end):
        sums += _sums_in(line, service)
    return sums


def _metric_lines(deployment: Deployment, group: str, start: datetime, end: datetime) -> Iterator[dict[str, Any]]:
    """The lines of the embedded metric format in the log group. If there are too many, each half of the time apart."""
    times = {"startTime": round(start.timestamp() * 1000), "endTime": round(end.timestamp() * 1000) - 1}
    pages = deployment.client("logs").get_paginator("filter_log_events")
    found = [
        event["message"]
        for page in pages.paginate(logGroupName=group, filterPattern='"CloudWatchMetrics"', **times)
        for event in page["events"]
    ]
    if len(found) >= MOST_EVENTS and end - start > timedelta(seconds=1):
        middle = start + (end - start) / 2
        yield from _metric_lines(deployment, group, start, middle)
        yield from _metric_lines(deployment, group, middle, end)
        return
    for line in found:
        try:
            fields = json.loads(line)
        except ValueError:
            continue  # a line of a library that quotes the word
        if isinstance(fields, dict) and "_aws" in fields:
            yield fields


def _sums_in(line: dict[str, Any], service: str) -> Counter[str]:
    """The sums of the line's metrics whose one dimension is the service."""
    sums: Counter[str] = Counter()
    for directive in line["_aws"].get("CloudWatchMetrics", []):
        if directive["Dimensions"] == [["service"]] and line.get("service") == service:
            for metric in directive["Metrics"]:
                value = line[metric["Name"]]
                sums[metric["Name"]] += sum(value) if isinstance(value, list) else value
    return sums
