"""The messages of the profiles queue: which map entries to set and to remove, as of when; or to erase all of them.

A valid message may still not fit its profile, which may be full, or have another program's value in place of a map.
"""

import itertools
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec

from ledger.core.decoding import Id, Time, check_names, decode_json
from ledger.core.reason_codes import InvalidMessage
from ledger.core.values import exact

MAXIMUM_NAMES = 100
"""Of one message's entries and removals: one request takes them all if the path is short."""
MAXIMUM_VALUES = 5_000
"""Of one message's entries, nested values included. 128 kB of `1,1,1` would be 65,000 values. Writing them takes a
second of CPU time, as much as a whole batch has. An ordinary body has fewer than one value in 26 bytes."""
DEEPEST_PATH = 16
DEEPEST_VALUE = 20
DEEPEST_TOGETHER = 31
"""DynamoDB takes 32 levels: those of the path, the entry, and those of its value."""
ALLOWANCE = timedelta(minutes=5)
"""For clocks that differ. AWS refuses most requests whose time is further off, so a producer's clock isn't:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html"""
RESERVED_PREFIX = "cw:"
"""The prefix of the attributes that `conditional_writes` adds to an item."""
ERASE_PROFILE = "erase_profile"
"""The type of an erasure. An update has none."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Path = Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=DEEPEST_PATH)]


class ProfileUpdate(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Sets `entries` of the map at `path`, and removes the names in `removed`, both as of `as_of`.

    A message without `as_of` counts as of the time at which it was sent. No `as_of` may be more than 5 minutes later
    than that.
    """

    account_id: Id
    path: Path
    entries: dict[Name, Any] = {}
    removed: tuple[Name, ...] = ()
    as_of: Time | None = None

    def __post_init__(self) -> None:
        _check_attribute(self.path[0])
        _check_names(self.entries.keys(), self.removed)
        _check_number(self.entries.values())
        levels = min(DEEPEST_VALUE, DEEPEST_TOGETHER - len(self.path))
        entries = {name: _exact_value(f"entries.{name}", value, levels) for name, value in self.entries.items()}
        msgspec.structs.force_setattr(self, "entries", entries)

    @property
    def log_fields(self) -> dict[str, object]:
        """Names the message in a log line: never its payload."""
        return {"account_id": self.account_id, "entries": len(self.entries) + len(self.removed)}


class EraseProfile(
    msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag=ERASE_PROFILE
):
    """Erases everything of the profile that isn't later than `as_of`. No update as of that time brings anything back.

    `as_of` is as in a ProfileUpdate.
    """

    account_id: Id
    as_of: Time | None = None

    @property
    def log_fields(self) -> dict[str, object]:
        return {"account_id": self.account_id}


type ProfileMessage = ProfileUpdate | EraseProfile


def decode(body: str) -> ProfileMessage:
    """The update or erasure in a message's body. Raises InvalidMessage."""
    envelope = decode_json(body, _envelope_decoder)
    if envelope.type is not msgspec.UNSET and envelope.type != ERASE_PROFILE:
        raise InvalidMessage(f"type: got {envelope.type[:40]!r}, expected {ERASE_PROFILE}, or none for an update")
    message: ProfileMessage
    if envelope.type is msgspec.UNSET:
        message = decode_json(body, _update_decoder, _EXPECTATIONS)
    else:
        message = decode_json(body, _erasure_decoder)
    check_names(body)
    return message


def check_as_of(message: ProfileMessage, sent_at: datetime) -> None:
    """Raises InvalidMessage if `as_of` is later than the sending and ALLOWANCE: no other update could win over it."""
    if message.as_of and message.as_of > sent_at + ALLOWANCE:
        minutes = int(ALLOWANCE.total_seconds() / 60)
        sent = f"the message was sent at {sent_at.isoformat(timespec='seconds')}"
        raise InvalidMessage(f"as_of: expected at most {minutes} minutes after {sent}, got {message.as_of.isoformat()}")


def _decimal(spelled: str) -> Decimal:
    try:
        return Decimal(spelled)
    except InvalidOperation:  # an exponent of twenty digits
        return Decimal("1E+999999")  # as far out of range


class _Envelope(msgspec.Struct):
    type: str | msgspec.UnsetType = msgspec.UNSET


_envelope_decoder = msgspec.json.Decoder(_Envelope)
_update_decoder = msgspec.json.Decoder(ProfileUpdate, float_hook=_decimal)
_erasure_decoder = msgspec.json.Decoder(EraseProfile)
_EXPECTATIONS = {"Integer value out of range": "expected a number of at most 38 digits"}


def _check_attribute(name: str) -> None:
    """Raises ValueError for an attribute that the table needs for itself."""
    if name == "account_id" or name.startswith(RESERVED_PREFIX):
        raise ValueError(f"path: expected another first name than {name[:40]!r}, which the table needs for itself")


def _check_names(entries: Collection[str], removed: Collection[str]) -> None:
    if not entries and not removed:
        raise ValueError("entries: expected at least one name, there or in removed")
    if len(entries) + len(removed) > MAXIMUM_NAMES:
        names = len(entries) + len(removed)
        raise ValueError(f"entries: {names} names with those in removed, expected at most {MAXIMUM_NAMES}")
    for name in removed:
        if name in entries:
            raise ValueError(f"removed: expected no name that is in entries, too, got {name!r}")


def _check_number(level: Iterable[Any]) -> None:
    """Raises ValueError for too many values. Counts level by level: values may be nested deeper than Python's stack."""
    number = 0
    while values := list(level):
        number += len(values)
        level = itertools.chain.from_iterable(map(_inside, values))
    if number > MAXIMUM_VALUES:
        raise ValueError(f"entries: {number:,} values, those inside of others too, expected at most {MAXIMUM_VALUES:,}")


def _inside(value: Any) -> Iterable[Any]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()


def _exact_value(field: str, value: Any, levels: int) -> Any:
    """The value with its numbers as DynamoDB holds them. Raises ValueError if it is nested deeper than `levels`."""
    match value:
        case int() | Decimal() if not isinstance(value, bool):
            return exact(field, Decimal(value))
        case dict() | list() if levels == 0:
            expected = f"expected at most {DEEPEST_VALUE} levels, and {DEEPEST_TOGETHER} with those of the path"
            raise ValueError(f"{field}: nested too deep, {expected}")
        case dict():
            return {name: _exact_value(_inner(field, name), element, levels - 1) for name, element in value.items()}
        case list():
            return [_exact_value(field, element, levels - 1) for element in value]
    return value


def _inner(field: str, name: str) -> str:
    if not 1 <= len(name) <= 255:
        raise ValueError(f"{field}: a name of {len(name)} characters, expected 1 to 255")
    return f"{field}.{name}"
