"""A job's run in segments: the record of the run, the part that each segment adds, and the report made of the parts.

All of them are items of the locks' table. The first event of a scheduled time decides how many segments its run has.
The record keeps that number, so a changed setting counts from the next scheduled time on.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

from conditional_writes import Deadline, Item, Key, Observed, Plan, Put, Update, absent, key, read, write
from conditional_writes.locks import CALL_SECONDS, Locks

MOST_SEGMENTS = 100
KEPT_SECONDS = 400 * 24 * 3600
"""How long records, parts and reports stay, until DynamoDB's TTL removes them."""

type Report = Callable[[Sequence[Item]], Item]
"""Makes the fields of a run's report of the last checkpoints of its segments, in their order."""


class Segment(NamedTuple):
    """One of the segments of a table, which are scanned apart. `number` counts from 1 to `of`."""

    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        return f"segment {self.number} of {self.of}"

    def lock_of(self, job: str) -> str:
        """The name of the lock under which the segment is worked on."""
        return job if self.of == 1 else f"{job} {self}"


class RunRecord:
    """The record of a job's run for one scheduled time: its `segments`; once it is finished, `finished_at` and report.

    Its methods take a request or two each, and may raise DeadlinePassed, OutcomeUnknown and botocore's errors. After
    that, each may be called again.
    """

    def __init__(self, locks: Locks, job: str, scheduled_time: str) -> None:
        self._locks = locks
        self._name = f"{job} {scheduled_time}"
        self._key = key(locks.table, lock_key=self._name)

    def begin(self, segments: int) -> Item:
        """The record as it is now. If there is none, the run begins, in so many segments.

        Raises ValueError if the record has no number of segments, and the run isn't finished.
        """
        new: Item = {"segments": segments, "expires_at": self._expiry()}

        def plan(observed: Observed) -> Plan[Item]:
            record = observed.get(self._key)
            return Plan(record) if record else Plan(new, [Put(self._key, new, absent("lock_key"))])

        record = write(self._locks.client, plan, {}, Deadline.after(CALL_SECONDS)).result
        if "finished_at" not in record and not _is_number_of_segments(record.get("segments")):
            expected = f"expected a whole number from 1 to {MOST_SEGMENTS}, got {record.get('segments')!r}"
            raise ValueError(f"{self._key}: segments: {expected}. Delete this record, and the run begins anew")
        return record

    def is_begun(self) -> bool:
        """Whether the run has a record."""
        return read(self._locks.client, [self._key], Deadline.after(CALL_SECONDS))[self._key] is not None

    def part(self, segment: Segment, checkpoint: Item) -> Put:
        """The write of what the segment adds to the report: its last checkpoint."""
        return Put(self._key_of_part(segment), {"part": checkpoint, "expires_at": self._expiry()})

    def finish(self, segments: int, report: Report) -> str:
        """Finishes the run with its report if the parts of all segments are there.

        Returns `Done` if this call finished the run, `DoneBefore` if another did, and `Continued` if parts are missing.

        Any segment may be the last to end. Its part is there when it looks for the parts of the others, so of two that
        end at the same moment one at least finds all parts. If both do, the first to write makes the report.
        """
        deadline = Deadline.after(CALL_SECONDS)
        keys = [self._key_of_part(Segment(number, segments)) for number in range(1, segments + 1)]
        found = read(self._locks.client, keys, deadline)
        parts = [part["part"] for part in map(found.get, keys) if part]
        if len(parts) < segments:
            return "Continued"
        finished = report(parts) | {
            "segments": segments,
            "finished_at": datetime.fromtimestamp(self._locks.now(), UTC).isoformat(timespec="milliseconds"),
            "expires_at": self._expiry(),
        }

        def plan(observed: Observed) -> Plan[str]:
            if "finished_at" in (observed.get(self._key) or {}):
                return Plan("DoneBefore")
            return Plan("Done", [Update(self._key, finished, absent("finished_at"))])

        return write(self._locks.client, plan, {}, deadline).result

    def _key_of_part(self, segment: Segment) -> Key:
        return key(self._locks.table, lock_key=f"{self._name} {segment}")

    def _expiry(self) -> int:
        return int(self._locks.now()) + KEPT_SECONDS


def _is_number_of_segments(value: object) -> bool:
    return isinstance(value, int | Decimal) and value % 1 == 0 and 1 <= value <= MOST_SEGMENTS
