"""The places where assumptions about AWS are tried: engines on this machine, and with `make assumptions AWS=1` AWS."""

import contextlib
import functools
import itertools
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes.testing import Clock
from tests.assumptions.bill import Bill
from tests.support.new_tables import definition, index

PREFIX = "teller-assumptions-"
"""Of the names of what is made on AWS, and before the part of a run: `--remove` removes what any run has left."""
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
    bill: Bill | None = None

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


@functools.cache
def on_aws() -> Place:
    """The account and region of the credentials that boto3 finds."""
    config = Config(retries={"mode": "standard", "total_max_attempts": 5})
    bill = Bill()
    return Place("aws", functools.cache(lambda service: bill.counting(boto3.client(service, config=config))), bill=bill)


@contextlib.contextmanager
def table(place: Place) -> Iterator[str]:
    """A table with an index and a stream, which all tests share: each has partition keys of its own."""
    client, name = place.client("dynamodb"), place.new_name()
    more = {"GlobalSecondaryIndexes": [index("by_tally", "id", "tally")]}
    more |= {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}
    client.create_table(**definition(name, KEY, INDEX_TYPES, **more))
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
    answer = place.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(answer["Attributes"]["QueueArn"])


@contextlib.contextmanager
def heard(place: Place, pattern: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The name of a bus, and the address of the queue to which a rule brings what fits the pattern."""
    events, sqs, name = place.client("events"), place.client("sqs"), place.new_name()
    with queue(place) as url:
        arn = queue_arn(place, url)
        statement = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}}
        statement |= {"Action": "sqs:SendMessage", "Resource": "*"}
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


def remove_leftovers(place: Place, prefix: str) -> list[str]:
    """Removes what was made with names that begin with the prefix. Says what became of each.

    What can't be listed or removed, for lack of a right, keeps nothing else.
    """
    said = []
    for kind, (listed, remove) in _KINDS.items():
        try:
            names = [name for name in listed(place) if name.rpartition("/")[2].startswith(prefix)]
        except (ClientError, BotoCoreError) as error:
            said.append(f"{kind}: not looked at: {error}")
            continue
        for name in names:
            try:
                remove(place, name)
                said.append(f"{name}: removed")
            except (ClientError, BotoCoreError) as error:
                said.append(f"{name}: not removed: {error}")
    return said


def _pages(place: Place, service: str, operation: str, member: str, **given: str) -> list[Any]:
    pages = place.client(service).get_paginator(operation).paginate(**given)
    return [each for page in pages for each in page.get(member, [])]


def _remove_function(place: Place, name: str) -> None:
    """With its mappings."""
    functions = place.client("lambda")
    for mapping in functions.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]:
        functions.delete_event_source_mapping(UUID=mapping["UUID"])
    functions.delete_function(FunctionName=name)


def _remove_role(place: Place, name: str) -> None:
    """With its policies."""
    iam = place.client("iam")
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)


type _Listed = Callable[[Place], list[str]]
type _Remove = Callable[[Place, str], object]
_KINDS: dict[str, tuple[_Listed, _Remove]] = {
    "functions": (
        lambda place: [each["FunctionName"] for each in _pages(place, "lambda", "list_functions", "Functions")],
        _remove_function,
    ),
    "roles": (lambda place: [each["RoleName"] for each in _pages(place, "iam", "list_roles", "Roles")], _remove_role),
    "buckets": (
        lambda place: [each["Name"] for each in place.client("s3").list_buckets(Prefix=PREFIX)["Buckets"]],
        lambda place, name: _remove_bucket(place.client("s3"), name),
    ),
    "buses": (
        lambda place: [bus["Name"] for bus in place.client("events").list_event_buses(NamePrefix=PREFIX)["EventBuses"]],
        lambda place, name: _remove_bus(place.client("events"), name),
    ),
    "queues": (
        lambda place: _pages(place, "sqs", "list_queues", "QueueUrls", QueueNamePrefix=PREFIX),
        lambda place, url: place.client("sqs").delete_queue(QueueUrl=url),
    ),
    "tables": (
        lambda place: _pages(place, "dynamodb", "list_tables", "TableNames"),
        lambda place, name: place.client("dynamodb").delete_table(TableName=name),
    ),
}


def _remove_bus(events: Any, name: str) -> None:
    """With its one rule, which has the bus's name. What isn't there is removed already."""
    for call in (
        lambda: events.remove_targets(Rule=name, EventBusName=name, Ids=["heard"]),
        lambda: events.delete_rule(Name=name, EventBusName=name),
        lambda: events.delete_event_bus(Name=name),
    ):
        with contextlib.suppress(events.exceptions.ResourceNotFoundException):
            call()
