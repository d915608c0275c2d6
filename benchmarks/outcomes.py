"""Measures the time from a message to the event that tells of its outcome, by its parts, and counts what events cost.

The stack is deployed on a local AWS, which delivers one batch of the stream at a time and polls in one thread: the
times aren't AWS's. The counts are. Beside them: an EventBridge pipe from the same stream to the same bus.
"""

import contextlib
import io
import itertools
import json
import math
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.engine import new_ministack
from tools import prices
from tools.local_aws import functions, stack
from tools.local_aws.consumers import Consumer, new_consumer
from tools.local_aws.functions import Context, stream_record
from tools.local_aws.meter import Meter
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.stack import Stack
from tools.local_aws.tables import scan

PICTURE = PROJECT / "docs" / "pictures" / "outcomes.png"
ACCOUNTS = 20
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
LONGEST_SILENCE_SECONDS = 60

CHUNK_BYTES = 65_536
"""EventBridge counts each started chunk of an event as an event; of a pipe's batch, as a request."""
PIPE_BATCH = 10
"""A pipe's largest batch towards a bus."""
MEMORY_GB = 1

console = Console(highlight=False)

type Item = dict[str, Any]


class Load(NamedTuple):
    """Messages that are sent at a constant rate, some together in one request."""

    name: str
    together: int
    every_seconds: float
    requests: int

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.together / self.every_seconds


LOADS = (Load("1 message a second", 1, 1.0, 100), Load("50 messages a second", 10, 0.2, 200))


class Invocation(NamedTuple):
    """An invocation of publish_outcomes with entries of the stream. Times are in seconds since the epoch."""

    started_at: float
    entries: int


class Heard(NamedTuple):
    """The times of a message and of its event, in seconds since the epoch. All are of this machine's clock."""

    sent_at: float
    posted_at: float
    invoked_at: float
    delivered_at: float
    heard_at: float

    @property
    def seconds(self) -> dict[str, float]:
        """The whole time, and its parts. The posting's time is that of its decision, just before the commit."""
        return {
            "whole: sent → received": self.heard_at - self.sent_at,
            "sent → posted": self.posted_at - self.sent_at,
            "posted → publish_outcomes": self.invoked_at - self.posted_at,
            "publish_outcomes → consumer's queue": self.delivered_at - self.invoked_at,
            "consumer's queue → received": self.heard_at - self.delivered_at,
        }


class Cost(NamedTuple):
    """The requests and times of entries that were published in batches, and the requests of a pipe in their place."""

    batches: str
    entries: int
    invocations: int
    requests: int
    events: int
    event_bytes: int
    log_bytes: int
    seconds: float
    pipe_requests: int

    @property
    def dollars(self) -> dict[str, float]:
        """For a million entries, by what is paid."""
        gigabytes = self.log_bytes / 2**30
        return {
            "events": self.events / self.entries * prices.EVENTS.dollars,
            "invocations": self.invocations / self.entries * prices.INVOCATIONS.dollars,
            "GB-seconds": self.seconds * MEMORY_GB * prices.GB_SECONDS.dollars / self.entries * 1e6,
            "log": gigabytes * prices.LOG.dollars / self.entries * 1e6,
        }

    @property
    def pipe_dollars(self) -> float:
        """Of a pipe, for a million entries."""
        return (self.events * prices.EVENTS.dollars + self.pipe_requests * prices.PIPE_REQUESTS.dollars) / self.entries


def main() -> None:
    with new_ministack() as endpoint:
        console.print("Building and deploying the stack")
        stack.build()
        deployed = stack.deploy(endpoint)
        consumer = new_consumer(endpoint, deployed["OutcomesBusName"], "listener")
        _open_accounts(deployed, consumer)
        times, came = {}, {}
        for load in LOADS:
            console.print(f"Sending {load.requests * load.together:,} messages, {load.name}")
            times[load.name], came[f"as came, {load.rate:g} a second"] = measure(deployed, consumer, load)
        items = list(scan(endpoint, deployed["JournalTableName"]))
        console.print("Counting what publishing costs")
        batches = {"1 at a time": [1] * 200, "10 at a time": [10] * 20, "100 at a time": [100] * 10} | came
        costs = list(count_costs(endpoint, items, batches))
    console.print()
    console.print(time_table(times))
    console.print()
    console.print(cost_table(costs))
    console.print(FOOTNOTE)
    for cost, sizes in zip(costs, batches.values(), strict=True):
        check(cost, sizes)
    console.print("[green]The counts are exactly as expected: a PutEvents for each ten entries of a batch.[/]")
    draw(times)
    console.print(f"Drawn in {PICTURE.relative_to(PROJECT)}")


def _open_accounts(deployed: Stack, consumer: Consumer) -> None:
    """Opens the accounts, and waits until that is heard. So the functions are started, too."""
    opening = {"type": "open_account", "transaction_id": "open", "currency": "EUR"}
    bodies = [json.dumps(opening | {"account_id": f"account-{number}"}) for number in range(ACCOUNTS)]
    for batch in itertools.batched(bodies, 10, strict=True):
        _send(deployed, batch, "AdministrationQueueUrl")
    _listen(consumer, {("open", f"account-{number}") for number in range(ACCOUNTS)})


def _send(deployed: Stack, bodies: Sequence[str], queue: str = "TransactionsQueueUrl") -> None:
    entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies)]
    sqs = deployed.endpoint.client("sqs")
    assert not sqs.send_message_batch(QueueUrl=deployed[queue], Entries=entries).get("Failed")


def measure(deployed: Stack, consumer: Consumer, load: Load) -> tuple[list[Heard], list[int]]:
    """The times of each message, and the numbers of entries in the batches of the stream."""
    began = time.time()
    ids = [(f"{load.name} {n}", f"account-{n % ACCOUNTS}") for n in range(load.requests * load.together)]
    sent_at: dict[tuple[str, str], float] = {}

    def send_all() -> None:
        for number, batch in enumerate(itertools.batched(ids, load.together, strict=True)):
            time.sleep(max(0.0, began + number * load.every_seconds - time.time()))
            sent_at.update(dict.fromkeys(batch, time.time()))
            payment = {"amount": "12.34", "description": "A payment by card"}
            _send(deployed, [json.dumps({"transaction_id": one, "account_id": two} | payment) for one, two in batch])

    sender = threading.Thread(target=send_all)
    sender.start()
    heard = _listen(consumer, set(ids))
    sender.join()
    time.sleep(1)  # The last invocation's log comes after its end.
    invocations = list(_invocations(deployed, began))
    return [
        Heard(
            sent_at[key],
            datetime.fromisoformat(posted_at).timestamp(),
            max(each.started_at for each in invocations if each.started_at <= delivered_at),
            delivered_at,
            heard_at,
        )
        for key, (posted_at, delivered_at, heard_at) in heard.items()
    ], [each.entries for each in invocations]


def _listen(consumer: Consumer, missing: set[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, float, float]]:
    """Receives events until all of these transactions were heard of. Their `posted_at`, and when each event came."""
    sqs = consumer.endpoint.client("sqs")
    heard: dict[tuple[str, str], tuple[str, float, float]] = {}
    heard_at = time.time()
    while missing - heard.keys():
        assert time.time() < heard_at + LONGEST_SILENCE_SECONDS, f"never heard of {list(missing - heard.keys())[:3]}"
        response = sqs.receive_message(
            QueueUrl=consumer.queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=5, AttributeNames=["SentTimestamp"]
        )
        for message in response.get("Messages", []):
            heard_at, detail = time.time(), json.loads(message["Body"])["detail"]
            delivered_at = int(message["Attributes"]["SentTimestamp"]) / 1000
            key = (detail["transaction_id"], detail["account_id"])
            heard.setdefault(key, (detail["posted_at"], delivered_at, heard_at))
            sqs.delete_message(QueueUrl=consumer.queue_url, ReceiptHandle=message["ReceiptHandle"])
    return {key: heard[key] for key in missing}


def _invocations(deployed: Stack, began: float) -> Iterator[Invocation]:
    """From the function's log. The local AWS writes an invocation's log at its end, as a log stream of its own."""
    name = deployed["PublishOutcomesFunctionName"]
    function = deployed.endpoint.client("lambda").get_function_configuration(FunctionName=name)
    pages = deployed.endpoint.client("logs").get_paginator("filter_log_events")
    lines = defaultdict(list)
    for page in pages.paginate(logGroupName=function["LoggingConfig"]["LogGroup"], startTime=int(began * 1000)):
        for event in page["events"]:
            lines[event["logStreamName"], event["timestamp"] / 1000].append(event["message"])
    for (_, ended_at), texts in lines.items():
        log = "\n".join(texts)
        [milliseconds] = re.findall(r"^REPORT .*\tDuration: (\d+) ms", log, re.MULTILINE)
        published = re.findall(r'"Published":\[([\d.]+)\]', log)
        yield Invocation(ended_at - int(milliseconds) / 1000, sum(map(round, map(float, published))))


def count_costs(endpoint: Endpoint, items: Sequence[Item], batches: Mapping[str, Sequence[int]]) -> Iterator[Cost]:
    """Publishes entries of a journal in batches of these sizes, by the function in this process."""
    function = functions.publish_outcomes(endpoint)
    client = function.bus.client
    meter, entries = Meter(client), list[dict[str, Any]]()
    client.meta.events.register(
        "provide-client-params.events.PutEvents", lambda params, **_: entries.extend(params["Entries"])
    )
    for name, sizes in batches.items():
        meter.reset()
        entries.clear()
        source, seconds, pipe_requests = itertools.cycle(items), 0.0, 0
        with contextlib.redirect_stdout(io.StringIO()) as log:
            for size in sizes:
                records = [stream_record(item) for item in itertools.islice(source, size)]
                started = time.monotonic()
                assert function.lambda_handler({"Records": records}, Context()) == {"batchItemFailures": []}
                seconds += time.monotonic() - started
                pipe_requests += sum(
                    map(_chunks, map(json.dumps, itertools.batched(records, PIPE_BATCH, strict=False)))
                )
        events = [entry["Detail"] + entry["DetailType"] + entry["Source"] for entry in entries]
        yield Cost(
            batches=name,
            entries=sum(sizes),
            invocations=len(sizes),
            requests=meter.requests["PutEvents"],
            events=sum(map(_chunks, events)),
            event_bytes=sum(len(event.encode()) for event in events),
            log_bytes=len(log.getvalue().encode()),
            seconds=seconds,
            pipe_requests=pipe_requests,
        )


def _chunks(text: str) -> int:
    return math.ceil(len(text.encode()) / CHUNK_BYTES)


def check(cost: Cost, sizes: Sequence[int]) -> None:
    """Asserts what the documentation says: an event for each entry, and a request for each ten of a batch."""
    assert cost.events == cost.entries, cost
    assert cost.requests == sum(math.ceil(size / 10) for size in sizes), cost


def at_share(values: Sequence[float], share: float) -> float:
    """The lowest of the values that so large a share of them doesn't exceed."""
    return sorted(values)[math.ceil(len(values) * share) - 1]


def _by_part(heard: Sequence[Heard]) -> dict[str, list[float]]:
    parts: dict[str, list[float]] = defaultdict(list)
    for each in heard:
        for part, seconds in each.seconds.items():
            parts[part].append(seconds)
    return parts


def time_table(times: Mapping[str, Sequence[Heard]]) -> Table:
    table = Table(
        title="Milliseconds, on the local AWS", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    table.add_column("")
    for name in SHARES:
        table.add_column(name, justify="right")
    for load, heard in times.items():
        table.add_row(f"[bold]{load}[/]")
        for part, seconds in _by_part(heard).items():
            table.add_row(part, *(f"{at_share(seconds, share) * 1000:,.0f}" for share in SHARES.values()))
    return table


def cost_table(costs: Sequence[Cost]) -> Table:
    title = "Dollars for a million outcomes"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1), pad_edge=False)
    table.add_column("entries in\na batch")
    counted = ("invo-\ncations", "Put-\nEvents", "bytes\neach")
    for name in (*counted, *(_SHORT.get(part, part) for part in costs[0].dollars), "in\nall", "a\npipe"):
        table.add_column(name, justify="right")
    for cost in costs:
        each = [f"{count / cost.entries:.3f}" for count in (cost.invocations, cost.requests)]
        dollars = [*cost.dollars.values(), sum(cost.dollars.values()), cost.pipe_dollars]
        size = f"{cost.event_bytes / cost.entries:,.0f}"
        table.add_row(cost.batches, *each, size, *(f"{value:.2f}" for value in dollars))
    return table


_SHORT = {"invocations": "invo-\ncations", "GB-seconds": "GB-s"}


def draw(times: Mapping[str, Sequence[Heard]]) -> None:
    from benchmarks.plot import draw_distributions  # noqa: PLC0415 (`make bench` alone has matplotlib)

    title = "Time from a message to its event, and its parts, on the local AWS: the share of messages within it"
    draw_distributions({load: _by_part(heard) for load, heard in times.items()}, title, PICTURE)


FOOTNOTE = f"""\
[dim]Times are those of one machine, on which the local AWS, the functions and the consumer share two cores. An entry \
is posted when it is decided, just before its commit. The local queue looks every 0.1 s for messages that a consumer \
waits for: that is most of the whole.

Counts are of the function's own requests: invocations and PutEvents for each outcome, bytes of each event. Dollars \
are those of benchmarks/prices.py. A pipe's batches have at most {PIPE_BATCH}, and each 64 KB is a request. Lambda \
reads the stream for nothing. The seconds are this machine's: each 10 ms that an invocation takes longer on AWS add \
{0.01 * MEMORY_GB * prices.GB_SECONDS.dollars * 1e6:.2f} dollars to a million lone outcomes.
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes-batching-concurrency.html[/]
"""
