"""A clock as a text that sorts as the writes do, and the name of the attribute that has the clocks of a map.

An entry's clock is its time and a hash of its value; a removal's is its time alone. A map inside a map has a mark
instead, which sorts after every clock. The mark has a floor if the map's own name was written, too, as an entry or
as a removal: the time of the latest of those writes.
"""

import hashlib
import json
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any

from conditional_writes.own_attributes import CLOCKS_PREFIX
from conditional_writes.upserts.entries import REMOVED, MapEntry, MapPath

_MAP_MARK = "~"


def clocks_attribute(path: MapPath) -> str:
    """The attribute with the clocks of this map's entries: `cw:as_of ["preferences"]`."""
    return CLOCKS_PREFIX + json.dumps(path, ensure_ascii=False)


def path_of(clocks_attribute: str) -> MapPath:
    """The path of the map whose clocks are in this attribute."""
    return tuple(json.loads(clocks_attribute.removeprefix(CLOCKS_PREFIX)))


def time_text(time: datetime) -> str:
    """A time in UTC, to the microsecond."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def just_after(time: str) -> str:
    """A text that sorts after this time, and before every later one."""
    return time + " "


def time_of(clock: str) -> str:
    return clock.partition(" ")[0]


def clock(entry: MapEntry) -> str:
    """Sorts by time. Ties: a value beats a removal; the larger hash of two values beats the smaller."""
    assert entry.as_of is not None
    time = time_text(entry.as_of)
    if entry.value is REMOVED:
        return time
    return f"{time} {hashlib.sha256(_spelled(entry.value).encode()).hexdigest()[:16]}"


def map_mark(floor: str = "") -> str:
    return _MAP_MARK + floor


def is_map_mark(clock: str) -> bool:
    return clock.startswith(_MAP_MARK)


def is_removal(clock: str) -> bool:
    return not is_map_mark(clock) and " " not in clock


def floor_of(mark: str) -> str:
    """The time in a map's mark: everything earlier in the map is superseded. Empty if there is none."""
    return mark.removeprefix(_MAP_MARK)


def _spelled(value: Any) -> str:
    """The same text for all values that are the same in DynamoDB."""
    match value:
        case bool() | None | str():
            return repr(value)
        case int() | Decimal():
            return str(_ANY_NUMBER.normalize(Decimal(value)) or 0)
        case dict():
            return "{" + ",".join(f"{name!r}:{_spelled(value[name])}" for name in sorted(value)) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_spelled, value)) + "]"
        case set() | frozenset():
            return "(" + ",".join(sorted(map(_spelled, value))) + ")"
        case bytes() | bytearray():
            return repr(bytes(value))
    return repr(value)  # DynamoDB has no such type: the entry is refused when it is serialized


_ANY_NUMBER = Context(prec=1000)
