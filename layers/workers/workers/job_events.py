"""The events of the scheduled jobs: their fields, and the scheduled times for which a run may begin."""

import reprlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from workers.segments import MOST_SEGMENTS, Segment

LONGEST_DELAY = timedelta(days=1)
"""Longer than the retries of EventBridge Scheduler, by the template's schedules, and those of Lambda after them."""
LONGEST_LEAD = timedelta(minutes=5)
"""For clocks that differ."""


class InvalidEvent(Exception):
    """The event isn't this scheduled job's: the text says which field is wrong, and what was expected."""


def fields_of(event: Any, job: str) -> Mapping[str, Any]:
    """The event's fields. Raises InvalidEvent if the event isn't this job's."""
    fields = event if isinstance(event, dict) else {}
    if fields.get("job") != job:
        raise InvalidEvent(f"job: expected {job!r}, got {_shown(fields.get('job'))}")
    return fields


def scheduled_time_of(fields: Mapping[str, Any]) -> datetime:
    """In UTC. Raises InvalidEvent."""
    text: Any = fields.get("scheduled_time")
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo:
            return parsed.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    expected = 'expected an ISO 8601 time with its offset, such as "2026-02-28T02:00:00Z"'
    raise InvalidEvent(f"scheduled_time: {expected}, got {_shown(text)}")


def segment_of(fields: Mapping[str, Any]) -> Segment | None:
    """The segment in the event; None if the event is that of the whole run. Raises InvalidEvent."""
    if not fields.keys() & {"segment", "segments"}:
        return None
    number, of = fields.get("segment"), fields.get("segments")
    if type(number) is int and type(of) is int and 1 <= number <= of <= MOST_SEGMENTS:
        return Segment(number, of)
    expected = f"expected whole numbers from 1, segment at most segments, segments at most {MOST_SEGMENTS}"
    raise InvalidEvent(f"segment and segments: {expected}, got {_shown(number)} and {_shown(of)}")


def flag_of(fields: Mapping[str, Any], name: str) -> bool:
    """The field of this name; false if the event has none. Raises InvalidEvent."""
    flag = fields.get(name, False)
    if not isinstance(flag, bool):
        raise InvalidEvent(f"{name}: expected true or false, got {_shown(flag)}")
    return flag


def why_not_begun(scheduled_time: datetime, now: datetime) -> str | None:
    """A sentence if no run may begin for this scheduled time without `"force": true` in the event; else None."""
    if -LONGEST_LEAD <= now - scheduled_time <= LONGEST_DELAY:
        return None
    expected = "expected a time at most a day ago and at most 5 minutes ahead, as no run was begun for it"
    got = f"got {scheduled_time.isoformat()}, and now it is {now.isoformat(timespec='seconds')}"
    return f'scheduled_time: {expected}, and the event has no "force": true; {got}'


def _shown(value: object) -> str:
    """The beginning of the value: the log has the text of an exception, and shouldn't have a whole event."""
    return reprlib.repr(value)[:40]
