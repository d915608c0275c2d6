"""Open holds: money of an account that is promised, and can't be spent otherwise."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.values import EXACT, WIDE, attribute, sum_of

MOST_OPEN_HOLDS = 20
"""Of one account. They are on the account's item, and each KB of it costs 2 write units more in each commit:
docs/decisions/holds.md."""


class OpenHold(Struct, frozen=True):
    """`remaining` is above 0. `expires_at` is ISO 8601 in UTC; None if the hold never expires."""

    remaining: Decimal
    expires_at: str | None = None

    def is_expired(self, as_of: datetime) -> bool:
        return self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= as_of


type Holds = Mapping[str, OpenHold]
"""The open holds of an account by id, which is the transaction id of the `hold`."""


def expiry(time: datetime | None) -> str | None:
    """A hold's `expires_at`, as the account has it."""
    return time.astimezone(UTC).isoformat() if time else None


def total(holds: Holds) -> Decimal:
    """The sum of what remains of the holds."""
    amount = sum_of(hold.remaining for hold in holds.values())
    return WIDE.normalize(amount) if amount else Decimal(0)


def fit(holds: Holds) -> bool:
    """Whether DynamoDB can hold the sum exactly, whichever of them are resolved first.

    It can if the sum has at most 38 digits down to the last decimal of the finest hold: then so has each sum of some.
    """
    finest = min((WIDE.normalize(hold.remaining) for hold in holds.values()), key=_exponent, default=Decimal(0))
    try:
        EXACT.quantize(total(holds), finest)
    except InvalidOperation:
        return False
    return True


def without_hold(holds: Holds, hold_id: str) -> Holds:
    return {name: hold for name, hold in holds.items() if name != hold_id}


def after_taking(holds: Holds, hold_id: str, amount: Decimal) -> Holds:
    """The holds after a part of this one was taken. None of it is left if the amount is all that remains, or more."""
    rest = WIDE.subtract(holds[hold_id].remaining, amount)
    if rest <= 0:
        return without_hold(holds, hold_id)
    return {**holds, hold_id: replace(holds[hold_id], remaining=WIDE.normalize(rest))}


def holds_item(holds: Holds) -> dict[str, Any]:
    """The holds as a map of the account's item."""
    return {
        name: {"remaining": hold.remaining} | ({"expires_at": hold.expires_at} if hold.expires_at else {})
        for name, hold in holds.items()
    }


def holds_from_item(holds: dict[str, Any]) -> Holds:
    """The holds in a map of an account's item. Raises KeyError, TypeError or ValueError for a map of other things."""
    return {name: _hold(hold) for name, hold in holds.items()}


def _hold(item: Any) -> OpenHold:
    if not isinstance(item, dict):
        raise TypeError(f"holds: expected a map for each hold, got {type(item).__name__}")
    expires_at = attribute(item, "expires_at", str) if "expires_at" in item else None
    if expires_at is not None and datetime.fromisoformat(expires_at).tzinfo is None:
        raise ValueError(f"holds: expires_at: expected a time with its offset, got {expires_at[:40]!r}")
    remaining = attribute(item, "remaining", Decimal)
    if remaining <= 0:
        raise ValueError(f"holds: remaining: expected a number greater than zero, got {remaining}")
    return OpenHold(remaining, expires_at)


def _exponent(number: Decimal) -> int:
    return int(number.as_tuple().exponent)
