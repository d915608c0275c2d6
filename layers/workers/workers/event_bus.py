"""Publishes events on an EventBridge bus, in as few requests as it takes, and looks at what became of each event."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import Deadline, DeadlinePassed
from conditional_writes.core.client import CONNECTIONS, new_client
from conditional_writes.core.packing import packed
from workers.failed_entries import until_deadline
from workers.parallel import in_parallel
from workers.sending import UNANSWERED

if TYPE_CHECKING:
    from types_boto3_events import EventBridgeClient

MAXIMUM_EVENTS = 10
"""Of one PutEvents: EventBridge's quota."""
MAXIMUM_BYTES = 262_144
"""Of one PutEvents. EventBridge takes 1 MB by now, but not everywhere, and a target may take less."""
_ABOUT_THE_EVENT = {"InvalidArgument", "MalformedDetail", "RedactionFailure"}
"""Of EventBridge's codes for an event, those that the same event always gets. Others may go away: throttling, a missing
permission. https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsResultEntry.html"""
_ABOUT_THE_REQUEST = {"SerializationException", "ValidationException"}
"""Codes of a refused request. One of its events may be the cause."""


def events_client(read_seconds: int) -> "EventBridgeClient":
    """Makes one attempt of each request: `EventBus` tries again by itself, and an event may come twice."""
    client: EventBridgeClient = new_client("events", retries={"total_max_attempts": 1}, read_timeout=read_seconds)
    return client


class Event(Protocol):
    """`detail` is JSON, `time` the time of what happened."""

    @property
    def detail_type(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def time(self) -> datetime: ...


class Failure(NamedTuple):
    """The reason why an event wasn't published. If it `is_final`, EventBridge never takes the event."""

    reason: str
    is_final: bool = False


class EventBus(NamedTuple):
    """A bus by its name, and the `source` of all events that are published on it. `parallel` limits the requests."""

    client: "EventBridgeClient"
    name: str
    source: str
    parallel: int = CONNECTIONS

    def publish(self, events: Sequence[Event], deadline: Deadline) -> list[Failure | None]:
        """Publishes the events, again and again until the deadline. Returns for each None, or why it wasn't published.

        If a request gets no answer, its events may be published twice.
        """
        return until_deadline(
            lambda left: self.publish_once(left, deadline), events, deadline, lambda failure: failure.is_final
        )

    def publish_once(self, events: Sequence[Event], deadline: Deadline) -> list[Failure | None]:
        """As `publish`, but each event is tried once. Requests are sent in parallel, and none after the deadline."""
        entries = [self._entry(event) for event in events]
        sizes = [_bytes_of(entry) for entry in entries]
        failures = dict(enumerate(map(_too_large, sizes)))
        small = [index for index, failure in failures.items() if failure is None]
        requests = [
            {index: entries[index] for index in request}
            for request in packed(small, sizes.__getitem__, MAXIMUM_EVENTS, MAXIMUM_BYTES)
        ]
        for found in in_parallel(lambda request: self._put(request, deadline), requests, self.parallel):
            failures |= found
        return list(failures.values())

    def _entry(self, event: Event) -> dict[str, Any]:
        fields = {"EventBusName": self.name, "Source": self.source, "DetailType": event.detail_type}
        return {**fields, "Detail": event.detail, "Time": event.time}

    def _put(self, entries: Mapping[int, Any], deadline: Deadline) -> dict[int, Failure | None]:
        """The results of one request's events, by their indexes."""
        try:
            deadline.check("publishing")
            response = self.client.put_events(Entries=list(entries.values()))
        except (BotoCoreError, ClientError, DeadlinePassed) as error:
            is_about_events = isinstance(error, ClientError) and error.response["Error"]["Code"] in _ABOUT_THE_REQUEST
            if not is_about_events or len(entries) == 1:
                return dict.fromkeys(entries, Failure(str(error) or repr(error), is_about_events))
            alone = {index: self._put({index: entry}, deadline)[index] for index, entry in entries.items()}
            if None in alone.values():
                return alone
            # If the bus takes none of them, the fault may be another than theirs.
            return {index: failure and failure._replace(is_final=False) for index, failure in alone.items()}
        results = response.get("Entries", [])
        if len(results) != len(entries):
            return dict.fromkeys(entries, Failure(UNANSWERED))
        return dict(zip(entries, map(_failure, results), strict=True))


def _failure(result: Mapping[str, Any]) -> Failure | None:
    """From EventBridge's answer for one event."""
    code = result.get("ErrorCode")
    if code is None:
        return None
    return Failure(f"{code}: {result.get('ErrorMessage', '')}", code in _ABOUT_THE_EVENT)


def _too_large(size: int) -> Failure | None:
    if size <= MAXIMUM_BYTES:
        return None
    return Failure(f"{size:,} bytes, an event has at most {MAXIMUM_BYTES:,}", is_final=True)


_TIME_BYTES = 14


def _bytes_of(entry: Mapping[str, Any]) -> int:
    """As EventBridge counts: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html"""
    texts = (entry["Source"], entry["DetailType"], entry["Detail"])
    return _TIME_BYTES + sum(len(text.encode(errors="replace")) for text in texts)
