"""A tail of the outcomes' bus: a rule and a queue of its own, which are removed at the end.

The rule is made before the queue and removed after it. So the rules on the bus tell of each tail that was killed, and
the next tail removes what is older than a tail may be.
"""

import contextlib
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tools.teller.deployment import Deployment

PREFIX = "teller-tail-"
LONGEST = timedelta(days=1)
"""A tail ends by itself after that: its rule can't be told from that of a killed one by then."""
RETENTION_SECONDS = 3600
POLL_SECONDS = 2

type Event = dict[str, Any]
"""An event as EventBridge delivers it."""


@contextlib.contextmanager
def tail(deployment: Deployment, account_id: str | None, now: datetime) -> Iterator[Iterator[Event]]:
    """The events from now on, of all accounts or of one, as they come, in no order. They end after `LONGEST`."""
    with listening(deployment, account_id, now) as url:
        yield _events(deployment, url)


@contextlib.contextmanager
def listening(deployment: Deployment, account_id: str | None, now: datetime) -> Iterator[str]:
    """The URL of a queue to which the events come from now on, of all accounts or of one."""
    remove_leftovers(deployment, now)
    name = f"{PREFIX}{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    try:
        yield _begin(deployment, name, pattern(account_id))
    finally:
        _remove(deployment, name)


def take(deployment: Deployment, url: str) -> list[Event]:
    """Waits for up to ten events, and takes them off the queue. After POLL_SECONDS without one there are none."""
    sqs = deployment.client("sqs")
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=POLL_SECONDS).get(
        "Messages", []
    )
    if messages:
        handles = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)]
        sqs.delete_message_batch(QueueUrl=url, Entries=handles)
    return [json.loads(message["Body"]) for message in messages]


def pattern(account_id: str | None) -> dict[str, Any]:
    """The rule's pattern. A refused message has the ids of all its accounts, any other event that of one."""
    everything: dict[str, Any] = {"source": ["teller"]}
    if account_id is None:
        return everything
    return everything | {
        "$or": [{"detail": {"account_id": [account_id]}}, {"detail": {"account_ids": [account_id]}}],
    }


def remove_leftovers(deployment: Deployment, now: datetime) -> None:
    """Removes the rules and queues of tails that were killed."""
    pages = deployment.client("events").get_paginator("list_rules")
    for page in pages.paginate(EventBusName=deployment["OutcomesBusName"], NamePrefix=PREFIX):
        for rule in page["Rules"]:
            begun_at = _begun_at(rule["Name"])
            if begun_at and begun_at < now - LONGEST - timedelta(hours=1):
                _remove(deployment, rule["Name"])


def _begun_at(name: str) -> datetime | None:
    found = re.fullmatch(rf"{PREFIX}(\d{{8}}T\d{{6}})-[0-9a-f]{{8}}", name)
    return datetime.strptime(found[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC) if found else None


def _begin(deployment: Deployment, name: str, matched: Mapping[str, Any]) -> str:
    """Makes the rule and its queue, both of this name. Returns the queue's URL."""
    events, sqs, bus = deployment.client("events"), deployment.client("sqs"), deployment["OutcomesBusName"]
    description = "A tail of the command teller. It is removed at the end of the tail."
    rule = events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps(matched), Description=description)[
        "RuleArn"
    ]
    url: str = sqs.create_queue(
        QueueName=name, Attributes={"MessageRetentionPeriod": str(RETENTION_SECONDS), "SqsManagedSseEnabled": "true"}
    )["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": rule}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
    return url


def _remove(deployment: Deployment, name: str) -> None:
    """Removes the queue and then the rule, as far as they are there."""
    events, sqs, bus = deployment.client("events"), deployment.client("sqs"), deployment["OutcomesBusName"]
    with contextlib.suppress(sqs.exceptions.QueueDoesNotExist):
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=name)["QueueUrl"])
    with contextlib.suppress(events.exceptions.ResourceNotFoundException):
        events.remove_targets(Rule=name, EventBusName=bus, Ids=["queue"])
    with contextlib.suppress(events.exceptions.ResourceNotFoundException):
        events.delete_rule(Name=name, EventBusName=bus)


def _events(deployment: Deployment, url: str) -> Iterator[Event]:
    end = time.monotonic() + LONGEST.total_seconds()
    while time.monotonic() < end:
        yield from take(deployment, url)
