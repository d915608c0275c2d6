"""Workers deliver messages to their functions, as the event source of a queue would. Messages' times and costs.

A message that a function returns is delivered again to the same worker, after `RETURNED_SECONDS`.
"""

import contextlib
import io
import json
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from benchmarks.workers import Team
from tools.local_aws.functions import again, invoke, record
from tools.local_aws.meter import Meter

ADDED_SECONDS = 0.005
"""Seconds added to each request: the engine is nearer to the functions than DynamoDB and SQS are."""
RETURNED_SECONDS = 2.0
LONGEST_DRAIN_SECONDS = 120
"""For the returned messages at the end of a run. A message that is returned for longer fails the run."""
CONFLICTS = ("ConditionalCheckFailedException", "TransactionCanceledException")

type Message = dict[str, str]
type Record = dict[str, Any]
type Messages = Callable[[int, int], list[Message]]
"""Makes messages for a batch: of this number in the run, and so many."""


class Loaded(NamedTuple):
    """A function after its cold start, and its clients."""

    function: Any
    clients: tuple[Any, ...]


type Load = Callable[[int], Loaded]
"""Loads the function of the worker with this number."""


class Ended(NamedTuple):
    """A message that the function didn't return. Times are those of the monotonic clock, which all processes share.

    It was first delivered, or was to be delivered, at `first_at`. The call that ended it returned at `ended_at`. The
    commit with its journal entry was answered at `committed_at`, which is None if its function keeps no journal.
    """

    message: Message
    first_at: float
    ended_at: float
    committed_at: float | None

    @property
    def seconds(self) -> float:
        return self.ended_at - self.first_at


class Work(NamedTuple):
    """A worker's result. `conflicts` is the number of refused writes.

    The rate is that of the worker's own time: until the last call returned that it began in the time of the run. It
    doesn't count the messages that come again after that. `busy` is the share of this time that was spent in calls.
    """

    per_second: float
    busy: float
    ended: list[Ended]
    write_units: float
    read_units: float
    requests: int
    conflicts: int


class Deliveries:
    """The deliveries of a worker to its function."""

    def __init__(self, loaded: Loaded) -> None:
        self.ended: list[Ended] = []
        self._function, self._meter = loaded.function, Meter(*loaded.clients)
        self._busy_seconds, self._conflicts = 0.0, 0
        self._first_at: dict[str, float] = {}
        self._committed_at: dict[str, float] = {}
        self._returned: list[tuple[float, Record]] = []
        for client in loaded.clients:
            events = client.meta.events
            events.register("before-send", lambda **_: time.sleep(ADDED_SECONDS))
            events.register("provide-client-params.dynamodb.TransactWriteItems", _keep_ids)
            events.register("after-call", self._look_at_answer)

    def finish(self, started: float, batch: int) -> Work:
        """Ends the worker's time, which began at `started`, and drains what was returned."""
        seconds = time.monotonic() - started
        per_second, busy = len(self.ended) / seconds, self._busy_seconds / seconds
        self._drain(batch)
        return Work(
            per_second,
            busy,
            self.ended,
            self._meter.write_units,
            self._meter.read_units,
            self._meter.requests.total(),
            self._conflicts,
        )

    def deliver(self, records: Iterable[Record], first_at: float | None = None) -> None:
        """Calls the handler. Its logs and metrics aren't printed. New messages' time begins at `first_at`, or now."""
        records, called_at = list(records), time.monotonic()
        for each in records:
            self._first_at.setdefault(each["messageId"], first_at or called_at)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            returned_ids = invoke(self._function, records)
        now = time.monotonic()
        self._busy_seconds += now - called_at
        for each in records:
            if each["messageId"] in returned_ids:
                self._returned.append((now + RETURNED_SECONDS, again(each)))
            else:
                message = json.loads(each["body"])
                committed_at = self._committed_at.get(message["transaction_id"])
                self.ended.append(Ended(message, self._first_at[each["messageId"]], now, committed_at))

    def due(self, limit: int) -> list[Record]:
        """Takes returned messages that are to be delivered again by now, no more than `limit`."""
        now = time.monotonic()
        due = [each for each in self._returned if each[0] <= now][:limit]
        self._returned = self._returned[len(due) :]  # They are in the order of their times.
        return [each for _, each in due]

    def _drain(self, limit: int) -> None:
        """Delivers returned messages until none is left. Raises AssertionError if that takes too long."""
        give_up_at = time.monotonic() + LONGEST_DRAIN_SECONDS
        while self._returned:
            assert time.monotonic() < give_up_at, f"{len(self._returned)} messages are returned again and again"
            if due := self.due(limit):
                self.deliver(due)
            else:
                time.sleep(0.01)

    def _look_at_answer(self, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        if "Error" in parsed:
            self._conflicts += parsed["Error"]["Code"] in CONFLICTS
        else:
            self._committed_at |= dict.fromkeys(context.get("transaction_ids", ()), time.monotonic())


def _keep_ids(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    """Keeps the ids of the transactions whose journal entries are in the commit."""
    items = [action["Put"]["Item"] for action in params["TransactItems"] if "Put" in action]
    context["transaction_ids"] = [item["transaction_id"]["S"] for item in items if "transaction_id" in item]


def deliver_for(team: Team, number: int, load: Load, messages: Messages, batch: int, seconds: float) -> Work:
    """Delivers a batch after another for so long. Returned messages are in the first batch after they are due."""
    deliveries = Deliveries(load(number))
    started = team.start()
    while time.monotonic() < started + seconds:
        due = deliveries.due(batch)
        deliveries.deliver([*due, *map(record, messages(team.take(), batch - len(due)))])
    return deliveries.finish(started, batch)


def deliver_arriving(
    team: Team,
    number: int,
    load: Load,
    messages: Messages,
    batch: int,
    batches: int,
    together: int,
    every_seconds: float,
) -> Work:
    """Delivers batches that arrive at a fixed rate, some together. Each waits until a worker is free.

    Returned messages are in batches of their own, which come first when they are due.
    """
    deliveries = Deliveries(load(number))
    started = team.start()
    while True:
        if due := deliveries.due(batch):
            deliveries.deliver(due)
            continue
        if (taken := team.take()) >= batches:
            break
        records = list(map(record, messages(taken, batch)))
        arrives_at = started + taken // together * every_seconds
        time.sleep(max(0.0, arrives_at - time.monotonic()))
        deliveries.deliver(records, arrives_at)
    return deliveries.finish(started, batch)
