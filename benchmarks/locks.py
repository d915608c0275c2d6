"""Counts the requests and units of a lock's steps: with this library, with two others, and by hand."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from unittest import mock

import boto3
from boto3.dynamodb.conditions import Attr
from dynamo_dlm import DynamoDbLock, LockNotAcquiredError
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient, DynamoDBLockError
from rich.console import Console
from rich.table import Table

from benchmarks.engine import new_ministack
from benchmarks.stock import CONFIG
from conditional_writes import dynamodb_client
from conditional_writes.locks import Lock, Locks, LockTaken
from tools.local_aws.meter import Meter
from tools.local_aws.server import REGION, Endpoint

LEASE_SECONDS = 60
DEAD_LEASE_SECONDS = 1
"""The lease of the holder that dies."""
LAPSE_SECONDS = 2.1
"""The time after which the lease has lapsed by any clock: one second, and one more for our clock skew."""
HEARTBEATS_A_LEASE = 6
"""python-dynamodb-lock's defaults: a lease of 30 s, and a heartbeat every 5 s."""

STEPS = ("acquire", "found taken", "refresh", "release", "take over")
EXPECTED = (1, 0, 1)
"""Our expected requests, read units and write units of each step."""

console = Console(highlight=False)

type Contender = Ours | JavaPort | Dlm | ByHand


class Ours:
    """`conditional_writes.locks`."""

    key_names = ("lock_key",)
    lock: Lock

    def __init__(self, endpoint: Endpoint, table: str, lease_seconds: int) -> None:
        with mock.patch.dict("os.environ", endpoint.environment):
            self.client = dynamodb_client()
        self.locks = Locks(self.client, table)
        self.lease_seconds = lease_seconds

    def acquire(self, name: str) -> bool:
        try:
            self.lock = self.locks.acquire(name, lease_seconds=self.lease_seconds)
        except LockTaken:
            return False
        return True

    take_over = acquire

    def refresh(self) -> None:
        self.lock.refresh(self.lease_seconds)

    def release(self) -> None:
        self.lock.release()


class JavaPort:
    """python-dynamodb-lock: AWS's Java client in Python, with its threads for heartbeats, here asleep for an hour."""

    key_names = ("lock_key", "sort_key")
    lock: Any

    def __init__(self, endpoint: Endpoint, table: str, lease_seconds: int) -> None:
        logging.getLogger("python_dynamodb_lock").setLevel(logging.ERROR)  # It warns about a lapsed lease.
        resource = _session().resource("dynamodb", endpoint_url=endpoint.url, config=CONFIG)
        self.client = resource.meta.client
        self.lease = timedelta(seconds=lease_seconds)
        self.locks = DynamoDBLockClient(
            resource, table_name=table, heartbeat_period=timedelta(hours=1), lease_duration=self.lease
        )

    def acquire(self, name: str) -> bool:
        return self._acquire(name, timedelta(microseconds=1))

    def take_over(self, name: str) -> bool:
        """Polls the record for the duration of its lease."""
        return self._acquire(name, timedelta(seconds=10 * DEAD_LEASE_SECONDS))

    def _acquire(self, name: str, timeout: timedelta) -> bool:
        period = timedelta(seconds=DEAD_LEASE_SECONDS) / HEARTBEATS_A_LEASE
        try:
            self.lock = self.locks.acquire_lock(name, retry_period=period, retry_timeout=timeout)
        except DynamoDBLockError:
            return False
        return True

    def refresh(self) -> None:
        """Sends a heartbeat. By default its thread does so every five seconds."""
        self.locks._send_heartbeat(self.lock)

    def release(self) -> None:
        self.lock.release(best_effort=False)


class Dlm:
    """dynamo-dlm: a lease by the clock, in whole seconds."""

    key_names = ("resource_id", "concurrency_id")
    refresh = None

    def __init__(self, endpoint: Endpoint, table: str, lease_seconds: int) -> None:
        with mock.patch.dict("os.environ", endpoint.environment), mock.patch("boto3.DEFAULT_SESSION", None):
            self.lock = DynamoDbLock("lock", duration=lease_seconds, table_name=table, wait_forever=False)
        self.client = self.lock._dynamo_db.meta.client

    def acquire(self, name: str) -> bool:
        self.lock._resource_id = name
        try:
            self.lock.acquire()
        except LockNotAcquiredError:
            self.lock._release_code = None  # Otherwise it refuses a second attempt.
            return False
        return True

    take_over = acquire

    def release(self) -> None:
        self.lock.release()


class ByHand:
    """The usual tutorial: a put if the record is missing or lapsed, an update to refresh, a delete to release.

    No condition checks the holder, so a late holder refreshes and releases its successor's lock.
    """

    key_names = ("name",)
    held: str

    def __init__(self, endpoint: Endpoint, table: str, lease_seconds: int) -> None:
        self.records = _session().resource("dynamodb", endpoint_url=endpoint.url, config=CONFIG).Table(table)
        self.client = self.records.meta.client
        self.lease_seconds = lease_seconds

    def acquire(self, name: str) -> bool:
        now = int(time.time())
        self.held = name
        try:
            self.records.put_item(
                Item={"name": name, "expires_at": now + self.lease_seconds},
                ConditionExpression=Attr("name").not_exists() | Attr("expires_at").lte(now),
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    take_over = acquire

    def refresh(self) -> None:
        self.records.update_item(
            Key={"name": self.held},
            UpdateExpression="SET expires_at = :until",
            ExpressionAttributeValues={":until": int(time.time()) + self.lease_seconds},
        )

    def release(self) -> None:
        self.records.delete_item(Key={"name": self.held})


def _session() -> boto3.Session:
    return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)


CONTENDERS: dict[str, type[Contender]] = {
    "ours": Ours,
    "python-dynamodb-lock": JavaPort,
    "dynamo-dlm": Dlm,
    "by hand": ByHand,
}


@dataclass(frozen=True)
class Count:
    """The requests and units of one step. No requests mean that the library doesn't have the step."""

    step: str
    by: str
    requests: Counter[str]
    read_units: float
    write_units: float
    seconds: float

    @property
    def figures(self) -> tuple[float, float, float]:
        return self.requests.total(), self.read_units, self.write_units


def count_all(endpoint: Endpoint, prefix: str, contenders: Iterable[str] = CONTENDERS) -> list[Count]:
    """Counts the steps of held locks, and then the takeover of locks whose holders died."""
    tables = {name: f"{prefix}-{name.replace(' ', '-')}" for name in contenders}
    for name, table in tables.items():
        create_table(endpoint, table, CONTENDERS[name].key_names)
        assert CONTENDERS[name](endpoint, table, DEAD_LEASE_SECONDS).acquire("dead")
    died_at = time.monotonic()
    counts = [count for name, table in tables.items() for count in count_held(endpoint, table, name)]
    time.sleep(max(0.0, died_at + LAPSE_SECONDS - time.monotonic()))
    return counts + [count_lapsed(endpoint, table, name) for name, table in tables.items()]


def create_table(endpoint: Endpoint, table: str, key_names: Sequence[str]) -> None:
    types = {"concurrency_id": "N"}
    endpoint.client("dynamodb").create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": types.get(name, "S")} for name in key_names],
        KeySchema=[
            {"AttributeName": name, "KeyType": kind} for name, kind in zip(key_names, ("HASH", "RANGE"), strict=False)
        ],
    )


def count_held(endpoint: Endpoint, table: str, name: str) -> Iterator[Count]:
    holder, other = (CONTENDERS[name](endpoint, table, LEASE_SECONDS) for _ in range(2))
    meter = Meter(holder.client, other.client)

    def acquire() -> None:
        assert holder.acquire("lock")

    def find_taken() -> None:
        assert not other.acquire("lock")

    yield count("acquire", name, meter, acquire)
    yield count("found taken", name, meter, find_taken)
    yield count("refresh", name, meter, holder.refresh or (lambda: None))
    yield count("release", name, meter, holder.release)
    assert other.acquire("lock"), f"{name}: it wasn't released"


def count_lapsed(endpoint: Endpoint, table: str, name: str) -> Count:
    contender = CONTENDERS[name](endpoint, table, LEASE_SECONDS)

    def take_over() -> None:
        assert contender.take_over("dead")

    return count("take over", name, Meter(contender.client), take_over)


def count(step: str, name: str, meter: Meter, run: Callable[[], None]) -> Count:
    meter.reset()
    started = time.monotonic()
    run()
    seconds = time.monotonic() - started
    return Count(step, name, meter.requests.copy(), meter.read_units, meter.write_units, seconds)


def check(counts: Sequence[Count]) -> None:
    """Raises AssertionError if our counts differ from the expected ones."""
    ours = {count.step: count for count in counts if count.by == "ours"}
    for step in STEPS:
        assert ours[step].figures == EXPECTED, (
            f"{step}: {ours[step].figures} requests, read units and write units, expected {EXPECTED};"
            f" it sent {dict(ours[step].requests)}"
        )


def report(counts: Sequence[Count]) -> Table:
    table = Table(title="The cost of a lock's steps", title_justify="left", title_style="bold")
    table.add_column("")
    table.add_column("by")
    table.add_column("requests", no_wrap=True)
    for heading in ("read\nunits", "write\nunits", "waits"):
        table.add_column(heading, justify="right")
    for step in STEPS:
        for each in (each for each in counts if each.step == step):
            ours = each.by == "ours"
            requests = "\n".join(f"{times} {name}" for name, times in sorted(each.requests.items()))
            table.add_row(
                step if ours else "",
                each.by,
                requests or "has none",
                f"{each.read_units:g}" if requests else "",
                f"{each.write_units:g}" if requests else "",
                "a lease" if each.seconds >= DEAD_LEASE_SECONDS else "",
                style="bold" if ours else "",
                end_section=each.by == list(CONTENDERS)[-1],
            )
    return table


FOOTNOTE = f"""\
[dim]Takeover: the holder died {LAPSE_SECONDS} s before, with a lease of {DEAD_LEASE_SECONDS} s, which has lapsed by \
any clock. python-dynamodb-lock uses no clock: it polls the record until it hasn't changed for a lease, here \
{HEARTBEATS_A_LEASE} times a lease, as it does by default (5 s and 30 s). Its refresh is its thread's heartbeat.

Found taken: our library and python-dynamodb-lock name the holder. By hand: as in tutorials, with a condition on the \
put, but none on the release and the refresh.[/]
"""


def main() -> None:
    with new_ministack() as endpoint:
        counts = count_all(endpoint, "locks")
    console.print(report(counts))
    console.print(FOOTNOTE)
    check(counts)
    console.print("[green]Our counts are as expected: one request and one write unit per step.[/]")


if __name__ == "__main__":
    main()
