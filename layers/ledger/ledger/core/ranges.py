"""Ranges of an account's versions, and of times, in requests."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

Version = Annotated[int, msgspec.Meta(ge=1, le=10**15)]


def check_versions(from_version: int | None, to_version: int | None) -> None:
    """Raises ValueError if the range ends before it begins."""
    if from_version and to_version and to_version < from_version:
        raise ValueError(f"to_version: expected {from_version} or more, which is from_version")


def check_times(from_time: datetime | None, to_time: datetime | None) -> None:
    """Raises ValueError if the range ends before it begins."""
    if from_time and to_time and to_time <= from_time:
        raise ValueError("to: expected a time after from")


def change_times_to_utc(request: msgspec.Struct) -> None:
    for field in request.__struct_fields__:
        if isinstance(value := getattr(request, field), datetime):
            msgspec.structs.force_setattr(request, field, value.astimezone(UTC))
