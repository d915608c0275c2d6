"""DynamoDB writes that name what they assumed, and are planned again from what was found instead.

Exactly-once functions are in `conditional_writes.exactly_once`, models in `conditional_writes.models`, upserts of map
entries in `conditional_writes.upserts`, and locks in `conditional_writes.locks`. A function that needs none of them
starts faster without them.
"""

from typing import TYPE_CHECKING, Any

from conditional_writes.client import dynamodb_client
from conditional_writes.conditions import (
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
    version_is,
)
from conditional_writes.deadline import Deadline, DeadlinePassed
from conditional_writes.items import EXACT, Item, Key, key
from conditional_writes.loop import Observed, OutcomeUnknown, Plan, Stopped, UnsatisfiableCondition, Written, write
from conditional_writes.reading import read
from conditional_writes.requests import MAXIMUM_WRITES, Check, Condition, Delete, Put, Update, Write, replacing
from conditional_writes.table_errors import NoSuchTable, WrongKey
from conditional_writes.together import Conflict, VersionedItem, write_together

if TYPE_CHECKING:
    from conditional_writes.versioned import NoSuchItem, VersionedTable

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
    "read",
    "replacing",
    "version_is",
    "write",
    "write_together",
]


def __getattr__(name: str) -> Any:
    """A function that has no versioned tables starts faster without them."""
    if name in {"NoSuchItem", "VersionedTable"}:
        from conditional_writes import versioned  # noqa: PLC0415 (when it is asked for)

        return getattr(versioned, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
