"""Publishes events on an EventBridge bus, in as few requests as it takes, and looks at what became of each event."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import Deadline, DeadlinePassed
from workers.parallel import in_parallel

if TYPE_CHECKING:
    from types_boto3_events import EventBridgeClient

MAXIMUM_EVENTS = 10
"""Of one PutEvents: EventBridge's quota."""
MAXIMUM_BYTES = 262_144
"""Of one PutEvents. EventBridge takes 1 MB by now, but not everywhere, and a target may take less."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
"""Before events are published again: each pause is at most twice as long as the one before."""
_ABOUT_THE_EVENT = {"InvalidArgument", "MalformedDetail"}
"""Of EventBridge's codes for an event, those that the same event always gets. Others may go away: throttling, a missing
permission. https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsResultEntry.html"""
_ABOUT_THE_REQUEST = {"SerializationException", "ValidationException"}
"""Codes of a refused request. One of its events may be the cause."""


class Event(NamedTuple):
    """`detail` is JSON, `time` the time of what happened."""

    detail_type: str
    detail: str
    time: datetime


class Failure(NamedTuple):
    """The reason why an event wasn't published. If it `is_final`, EventBridge never takes the event."""

    reason: str
    is_final: bool = False


class EventBus(NamedTuple):
    """A bus by its name, and the `source` of all events that are published on it."""

    client: "EventBridgeClient"
    name: str
    source: str

    def publish(self, events: Sequence[Event], deadline: Deadline) -> list[Failure | None]:
        """Publishes the events, again and again until the deadline. Returns for each None, or why it wasn't published.

        An event may be published twice: if a request gets no answer, or only some of its events are taken.
        """
        failures: list[Failure | None] = [None] * len(events)
        left = dict(enumerate(events))
        pause_seconds = FIRST_PAUSE_SECONDS
        while left:
            found = dict(zip(left, self.publish_once(list(left.values()), deadline), strict=True))
            for index, failure in found.items():
                failures[index] = failure
            left = {index: events[index] for index, failure in found.items() if failure and not failure.is_final}
            if pause_seconds >= deadline.remaining_seconds:
                break
            if left:
                time.sleep(random.uniform(0, pause_seconds))
                pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
        return failures

    def publish_once(self, events: Sequence[Event], deadline: Deadline) -> list[Failure | None]:
        """As `publish`, but each event is tried once. Requests are sent in parallel, and none after the deadline."""
        failures: list[Failure | None] = [None] * len(events)
        entries = {index: self._entry(event) for index, event in enumerate(events)}
        for index, entry in entries.items():
            if (size := _bytes_of(entry)) > MAXIMUM_BYTES:
                failures[index] = Failure(f"{size:,} bytes, an event has at most {MAXIMUM_BYTES:,}", is_final=True)
        small = {index: entry for index, entry in entries.items() if failures[index] is None}
        for found in in_parallel(lambda request: self._put(request, deadline), list(_requests(small))):
            for index, failure in found.items():
                failures[index] = failure
        return failures

    def _entry(self, event: Event) -> dict[str, Any]:
        fields = {"EventBusName": self.name, "Source": self.source, "DetailType": event.detail_type}
        return {**fields, "Detail": event.detail, "Time": event.time}

    def _put(self, entries: Mapping[int, Any], deadline: Deadline) -> dict[int, Failure | None]:
        """What became of the events of one request, by their indexes."""
        try:
            deadline.check("publishing")
            response = self.client.put_events(Entries=list(entries.values()))
        except (BotoCoreError, ClientError, DeadlinePassed) as error:
            is_about_events = isinstance(error, ClientError) and error.response["Error"]["Code"] in _ABOUT_THE_REQUEST
            if not is_about_events or len(entries) == 1:
                return dict.fromkeys(entries, Failure(str(error) or repr(error), is_about_events))
            alone = ({index: entry} for index, entry in entries.items())
            return {index: failure for entry in alone for index, failure in self._put(entry, deadline).items()}
        return dict(zip(entries, map(_failure, response["Entries"]), strict=True))


def _failure(result: Mapping[str, Any]) -> Failure | None:
    """From EventBridge's answer for one event."""
    code = result.get("ErrorCode")
    if code is None:
        return None
    return Failure(f"{code}: {result.get('ErrorMessage', '')}", code in _ABOUT_THE_EVENT)


def _requests(entries: Mapping[int, dict[str, Any]]) -> Iterator[dict[int, dict[str, Any]]]:
    """The entries of each PutEvents."""
    request: dict[int, dict[str, Any]] = {}
    bytes_taken = 0
    for index, entry in entries.items():
        bytes_needed = _bytes_of(entry)
        if request and (len(request) == MAXIMUM_EVENTS or bytes_taken + bytes_needed > MAXIMUM_BYTES):
            yield request
            request, bytes_taken = {}, 0
        request[index] = entry
        bytes_taken += bytes_needed
    if request:
        yield request


_TIME_BYTES = 14


def _bytes_of(entry: Mapping[str, Any]) -> int:
    """As EventBridge counts: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html"""
    texts = (entry["Source"], entry["DetailType"], entry["Detail"])
    return _TIME_BYTES + sum(len(text.encode(errors="replace")) for text in texts)
