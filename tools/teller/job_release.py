"""Frees the lock of a job whose holder never released it."""

from datetime import UTC, datetime
from enum import Enum
from typing import Any

from conditional_writes import Deadline, Item, Observed, Plan, Update, absent, equals, key, write
from conditional_writes.core.requests import all_of
from tools.teller.deployment import Deployment
from tools.teller.job_records import LockRecord

RELEASING_SECONDS = 30
OF_A_HOLDER = ("owner", "token", "leased_until")
"""The attributes that are a holder's own: each holder has another owner and token, and a lease may be prolonged."""


class Release(Enum):
    RELEASED = "released"
    FREE = "free"
    """The holder has released the lock since it was looked at, or its record is gone."""
    CHANGED = "changed"
    """Another holder has taken the lock over, or the holder has prolonged its lease: the lock stays as it is."""


def release(deployment: Deployment, lock: LockRecord) -> Release:
    """Releases the lock if it is still held as in `lock`, so that a holder that came since isn't thrown out.

    The checkpoint stays, and so does `last_released`: the next holder learns that this one never released the lock. It
    may be called again after an error. Raises DeadlinePassed and botocore's errors.
    """
    wanted = key(deployment["LocksTableName"], lock_key=lock.name)
    released = {"released_at": datetime.now(UTC).isoformat(timespec="microseconds")}
    as_seen = all_of(equals(name, lock.item[name]) if name in lock.item else absent(name) for name in OF_A_HOLDER)

    def plan(observed: Observed) -> Plan[Release]:
        record = observed[wanted]
        if record is None or "leased_until" not in record:
            return Plan(Release.FREE)
        if _holder(record) != _holder(lock.item):
            return Plan(Release.CHANGED)
        return Plan(Release.RELEASED, [Update(wanted, released, as_seen, removed=("owner", "leased_until"))])

    return write(deployment.client("dynamodb"), plan, {wanted: lock.item}, Deadline.after(RELEASING_SECONDS)).result


def _holder(record: Item) -> list[Any]:
    return [record.get(name) for name in OF_A_HOLDER]
