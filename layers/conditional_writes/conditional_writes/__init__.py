"""DynamoDB writes that name what they assumed, and are planned again from what was found instead."""

from conditional_writes.client import dynamodb_client
from conditional_writes.conditions import Condition, absent, unchanged
from conditional_writes.deadline import Deadline, DeadlinePassed
from conditional_writes.items import EXACT, Item, Key, key
from conditional_writes.loop import Observed, Plan, Written, write
from conditional_writes.reading import read
from conditional_writes.requests import MAXIMUM_WRITES, Put, Update, Write

__all__ = [
    "EXACT",
    "MAXIMUM_WRITES",
    "Condition",
    "Deadline",
    "DeadlinePassed",
    "Item",
    "Key",
    "Observed",
    "Plan",
    "Put",
    "Update",
    "Write",
    "Written",
    "absent",
    "dynamodb_client",
    "key",
    "read",
    "unchanged",
    "write",
]
