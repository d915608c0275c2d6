"""DynamoDB writes that name what they assumed, and are planned again from what was found instead.

What every write needs is in `core`: the loop, items, conditions, reads. `locks` and `upserts` are built on it. Teller
uses these three. `versioned` (items, queries), `models` and `exactly_once` (functions) are for others, and
`testing` is for tests. A function imports what it needs: it starts faster without the rest.
"""

from typing import TYPE_CHECKING, Any

from conditional_writes.core.client import dynamodb_client
from conditional_writes.core.items import EXACT, Item, Key, key
from conditional_writes.core.loop import Observed, OutcomeUnknown, Plan, Stopped, UnsatisfiableCondition, Written, write
from conditional_writes.core.requests import (
    MAXIMUM_WRITES,
    Check,
    Condition,
    Delete,
    Put,
    Update,
    Write,
    absent,
    at_least,
    at_most,
    begins_with,
    between,
    contains,
    equals,
    exists,
    less_than,
    more_than,
    replacing,
    version_is,
)
from conditional_writes.core.steps import Deadline, DeadlinePassed
from conditional_writes.core.table_errors import NoSuchTable, WrongKey
from conditional_writes.core.together import Conflict, VersionedItem, write_together
from conditional_writes.core.unconditional import read

if TYPE_CHECKING:
    from conditional_writes.versioned import NoSuchItem, VersionedTable, new_id

__all__ = [
    "EXACT",
    "MAXIMUM_WRITES",
    "Check",
    "Condition",
    "Conflict",
    "Deadline",
    "DeadlinePassed",
    "Delete",
    "Item",
    "Key",
    "NoSuchItem",
    "NoSuchTable",
    "Observed",
    "OutcomeUnknown",
    "Plan",
    "Put",
    "Stopped",
    "UnsatisfiableCondition",
    "Update",
    "VersionedItem",
    "VersionedTable",
    "Write",
    "Written",
    "WrongKey",
    "absent",
    "at_least",
    "at_most",
    "begins_with",
    "between",
    "contains",
    "dynamodb_client",
    "equals",
    "exists",
    "key",
    "less_than",
    "more_than",
    "new_id",
    "read",
    "replacing",
    "version_is",
    "write",
    "write_together",
]


def __getattr__(name: str) -> Any:
    """A function that has no versioned tables starts faster without them."""
    if name in {"NoSuchItem", "VersionedTable", "new_id"}:
        from conditional_writes import versioned  # noqa: PLC0415 (when it is asked for)

        return getattr(versioned, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
