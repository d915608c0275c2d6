"""The places where assumptions about AWS are tried: engines on this machine, and with `make assumptions AWS=1` AWS."""

import contextlib
import itertools
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config

from conditional_writes.testing import Clock
from tests.support.new_tables import definition, index

PREFIX = "teller-assumptions-"
"""Of the names of what is made on AWS: `python -m tests.assumptions --remove` removes it."""
KEY, INDEX_TYPES = {"id": "S", "part": "S"}, {"tally": "N"}

_numbers = itertools.count(1)


@dataclass
class Place:
    """`client` makes a client of a service. `clock` is that of the engine in the process; the others' is the wall's.

    `catch_up_seconds`: the longest that an index, a stream or a rule may lag behind.
    """

    name: str
    client: Callable[[str], Any]
    clock: Clock | None = None
    catch_up_seconds: float = 30
    prefix: str = field(default_factory=lambda: PREFIX + uuid.uuid4().hex[:8])

    def wait(self, seconds: float) -> None:
        (self.clock or time).sleep(seconds)

    def eventually[Found](self, find: Callable[[], Found]) -> Found:
        """The first result that is true, or the last one."""
        for _ in range(int(self.catch_up_seconds)):
            if found := find():
                return found
            self.wait(1)
        return find()

    def new_name(self) -> str:
        return f"{self.prefix}-{next(_numbers)}"


def on_aws() -> Place:
    """The account and region of the credentials that boto3 finds."""
    config = Config(retries={"mode": "standard", "total_max_attempts": 5})
    return Place("aws", lambda service: boto3.client(service, config=config))


@contextlib.contextmanager
def table(place: Place) -> Iterator[str]:
    """A table with an index and a stream, which all tests share: each has partition keys of its own."""
    client, name = place.client("dynamodb"), place.new_name()
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    indexes = [index("by_tally", "id", "tally")]
    client.create_table(
        **definition(name, KEY, INDEX_TYPES, GlobalSecondaryIndexes=indexes, StreamSpecification=stream)
    )
    try:
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        yield name
    finally:
        client.delete_table(TableName=name)


@contextlib.contextmanager
def queue(place: Place, **attributes: str) -> Iterator[str]:
    """The address of a queue."""
    client = place.client("sqs")
    url = client.create_queue(QueueName=place.new_name(), Attributes=attributes)["QueueUrl"]
    try:
        yield url
    finally:
        client.delete_queue(QueueUrl=url)


def queue_arn(place: Place, url: str) -> str:
    arn: str = place.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    return arn


@contextlib.contextmanager
def heard(place: Place, pattern: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The name of a bus, and the address of the queue to which a rule brings what fits the pattern."""
    events, sqs, name = place.client("events"), place.client("sqs"), place.new_name()
    with queue(place) as url:
        arn = queue_arn(place, url)
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": "*",
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        events.create_event_bus(Name=name)
        try:
            events.put_rule(Name=name, EventBusName=name, EventPattern=json.dumps(pattern))
            events.put_targets(Rule=name, EventBusName=name, Targets=[{"Id": "heard", "Arn": arn}])
            yield name, url
        finally:
            _remove_bus(events, name)


@contextlib.contextmanager
def bucket(place: Place) -> Iterator[str]:
    """The name of a bucket with Object Lock, without a retention of its own."""
    client, name = place.client("s3"), place.new_name()
    region = client.meta.region_name
    where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True, **where)
    try:
        yield name
    finally:
        _remove_bucket(client, name)


def _remove_bucket(client: Any, name: str) -> None:
    for page in client.get_paginator("list_object_versions").paginate(Bucket=name):
        for each in (*page.get("Versions", []), *page.get("DeleteMarkers", [])):
            of = {"Key": each["Key"], "VersionId": each["VersionId"]}
            client.delete_object(Bucket=name, **of, BypassGovernanceRetention=True)
    client.delete_bucket(Bucket=name)


def remove_leftovers() -> list[str]:
    """Removes from AWS what a killed run has left there. Returns the names."""
    place, removed = on_aws(), []
    dynamodb, sqs, events = map(place.client, ("dynamodb", "sqs", "events"))
    for page in dynamodb.get_paginator("list_tables").paginate():
        for name in filter(_is_ours, page["TableNames"]):
            dynamodb.delete_table(TableName=name)
            removed.append(name)
    for page in sqs.get_paginator("list_queues").paginate(QueueNamePrefix=PREFIX):
        for url in page.get("QueueUrls", []):
            sqs.delete_queue(QueueUrl=url)
            removed.append(url)
    s3 = place.client("s3")
    for name in filter(_is_ours, (each["Name"] for each in s3.list_buckets()["Buckets"])):
        _remove_bucket(s3, name)
        removed.append(name)
    for bus in events.list_event_buses(NamePrefix=PREFIX)["EventBuses"]:
        _remove_bus(events, bus["Name"])
        removed.append(bus["Name"])
    return removed + _remove_functions(place.client("lambda"), place.client("iam"))


def _remove_functions(functions: Any, iam: Any) -> list[str]:
    """The functions with their mappings, and the roles."""
    names = [
        each["FunctionName"]
        for page in functions.get_paginator("list_functions").paginate()
        for each in page["Functions"]
    ]
    for name in filter(_is_ours, names):
        for mapping in functions.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]:
            functions.delete_event_source_mapping(UUID=mapping["UUID"])
        functions.delete_function(FunctionName=name)
    roles = [each["RoleName"] for page in iam.get_paginator("list_roles").paginate() for each in page["Roles"]]
    for name in filter(_is_ours, roles):
        iam.delete_role_policy(RoleName=name, PolicyName="queues")
        iam.delete_role(RoleName=name)
    return list(filter(_is_ours, [*names, *roles]))


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX)


def _remove_bus(events: Any, name: str) -> None:
    """With its one rule, which has the bus's name. What isn't there is removed already."""
    for call in (
        lambda: events.remove_targets(Rule=name, EventBusName=name, Ids=["heard"]),
        lambda: events.delete_rule(Name=name, EventBusName=name),
        lambda: events.delete_event_bus(Name=name),
    ):
        with contextlib.suppress(events.exceptions.ResourceNotFoundException):
            call()
