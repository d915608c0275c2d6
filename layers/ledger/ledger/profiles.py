"""The messages of the profiles queue, validated at the door: what gets past here can be written, where it fits.

It doesn't fit where what is there is no map, or no entry: only the table can tell.
"""

import itertools
from collections.abc import Collection, Iterable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec

from conditional_writes.own_attributes import is_own
from conditional_writes.upserts import REMOVED, MapEntry
from ledger.decoding import Id, Time, check_time, decoded, exact

MAXIMUM_NAMES = 100
"""Of one message's entries: of a map that isn't deep, one request takes them all."""
MAXIMUM_VALUES = 5_000
"""Of one message's entries, those inside of others counted: 128 kB of `1,1,1` are 65,000, and take a processor a second
to write, where all of a batch has a few. An ordinary body has fewer than one in 26 bytes."""
DEEPEST_PATH = 16
DEEPEST_VALUE = 20
DEEPEST_TOGETHER = 31
"""DynamoDB takes 32 levels: the path's, the entry, and those of its value."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Path = Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=DEEPEST_PATH)]


class ProfileUpdate(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Sets `entries` of the map at `path`, and removes those that are in `removed`, all of them since `as_of`.

    Without `as_of` they are so since the message was sent.
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
    def names(self) -> int:
        """How many entries it is about."""
        return len(self.entries) + len(self.removed)

    def as_entries(self, sent_at: datetime) -> list[MapEntry]:
        values = self.entries | dict.fromkeys(self.removed, REMOVED)
        return [MapEntry((*self.path, name), value, self.as_of or sent_at) for name, value in values.items()]


def decode(body: str) -> ProfileUpdate:
    """The message in a queue message's body. Raises InvalidMessage."""
    update = decoded(body, _decoder, _EXPECTATIONS)
    check_time("as_of", update.as_of)
    return update


def _decimal(spelled: str) -> Decimal:
    try:
        return Decimal(spelled)
    except InvalidOperation:  # an exponent of twenty digits
        return Decimal("1E+999999")  # is out of range, too


_decoder = msgspec.json.Decoder(ProfileUpdate, float_hook=_decimal)
_EXPECTATIONS = {"Integer value out of range": "expected a number of at most 38 digits"}


def _check_attribute(name: str) -> None:
    """The table has attributes of its own. Raises ValueError, as `upsert` would."""
    if name == "account_id" or is_own(name):
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
    """Raises ValueError where there are too many values. Level by level: they may be deeper than Python's stack."""
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
    """The value with its numbers as DynamoDB has them, where it has no more levels than these. Raises ValueError."""
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
