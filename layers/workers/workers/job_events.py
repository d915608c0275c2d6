"""The bodies of the scheduled jobs' messages: their fields, and the scheduled times for which a run may begin."""

import json
import os
import reprlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

LONGEST_DELAY = timedelta(days=1)
"""Longer than the retries of EventBridge Scheduler, by the template's schedules."""
LONGEST_LEAD = timedelta(minutes=5)
"""For clocks that differ."""
UNRESOLVED = "<aws.scheduler.scheduled-time>"
"""The placeholder for the time in a schedule's input. A local AWS may leave it as it is; on AWS that is invalid."""


class InvalidEvent(Exception):
    """The message isn't this scheduled job's: the text says which field is wrong, and what was expected."""


class Refusal(StrEnum):
    """The attribute `reason_code` of a job's dead letter."""

    INVALID_EVENT = "INVALID_EVENT"


def event_in(body: str, job: str) -> Mapping[str, Any]:
    """The fields of a message's body. Raises InvalidEvent if it isn't this job's."""
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidEvent(f"expected JSON, got {_shown(body)}") from None
    fields = event if isinstance(event, dict) else {}
    if fields.get("job") != job:
        raise InvalidEvent(f"job: expected {job!r}, got {_shown(fields.get('job'))}")
    return fields


def scheduled_time_of(event: Mapping[str, Any], sent_at: datetime) -> datetime:
    """In UTC. Raises InvalidEvent, also for a time that is far from the message's, unless it has `"force": true`.

    On a local AWS that left the placeholder as it is, the time is the beginning of the message's day: a job runs once.
    """
    text = event.get("scheduled_time")
    if text == UNRESOLVED and os.environ.get("AWS_ENDPOINT_URL"):
        return sent_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    scheduled_time = _time_of(text)
    if not flag_of(event, "force") and (refusal := why_not_begun(scheduled_time, sent_at)):
        raise InvalidEvent(refusal)
    return scheduled_time


def flag_of(event: Mapping[str, Any], name: str) -> bool:
    """The field of this name; false if the event has none. Raises InvalidEvent."""
    flag = event.get(name, False)
    if not isinstance(flag, bool):
        raise InvalidEvent(f"{name}: expected true or false, got {_shown(flag)}")
    return flag


def why_not_begun(scheduled_time: datetime, sent_at: datetime) -> str | None:
    """A sentence if a message for this time, sent then, begins no run without `"force": true`; else None.

    A message may wait on its queue for days, so its delivery has no such limits.
    """
    if -LONGEST_LEAD <= sent_at - scheduled_time <= LONGEST_DELAY:
        return None
    expected = "expected a time at most a day before the message was sent and at most 5 minutes after"
    got = f"got {scheduled_time.isoformat()}, sent at {sent_at.isoformat(timespec='seconds')}"
    return f'scheduled_time: {expected}, and the event has no "force": true; {got}'


def _time_of(text: Any) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo:
            return parsed.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    expected = 'expected an ISO 8601 time with its offset, such as "2026-02-28T02:00:00Z"'
    raise InvalidEvent(f"scheduled_time: {expected}, got {_shown(text)}")


def _shown(value: object) -> str:
    """The beginning of the value: the log has the text of an exception, and shouldn't have a whole event."""
    return reprlib.repr(value)[:40]
