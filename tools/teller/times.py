"""Times, as people write them to the command, and as they read them from it. All that is shown is in UTC."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import typer


def moment(text: str) -> datetime:
    """A time that a person wrote: ISO 8601, in UTC if it has no offset. Raises BadParameter."""
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"expected an ISO 8601 time, such as 2026-11-01 or 2026-11-01T12:30:00Z, got {text!r}"
        ) from None


def time_of_answer(answer: Mapping[str, Any]) -> datetime:
    """When AWS gave this answer, by its clock, to the second."""
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return parsedate_to_datetime(date) if date else datetime.now(UTC).replace(microsecond=0)


TO_THE_MINUTE = len("2026-11-22 02:00")
"""Of a text of `shown`."""


def shown(time: datetime | str | None) -> str:
    """To the second, in UTC. A text that is no time stays as it is; None is an empty text."""
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            return time
    return "" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def duration(length: timedelta) -> str:
    """In the largest unit of which there are two or more: 95 s, 12 min, 30 h, 6 days."""
    seconds = int(length.total_seconds())
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
