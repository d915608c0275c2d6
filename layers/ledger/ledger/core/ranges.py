"""Ranges of an account's versions, and of times, in requests."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from ledger.core.decoding import check_time

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
    """Raises InvalidMessage for a time without a date in UTC."""
    for field in msgspec.structs.fields(request):
        value = getattr(request, field.name)
        if isinstance(value, datetime):
            check_time(field.encode_name, value)
            msgspec.structs.force_setattr(request, field.name, value.astimezone(UTC))
