"""The table of records, in the layout of Powertools' `DynamoDBPersistenceLayer`, and the records of plain functions."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from conditional_writes.core.items import Item, Key, from_dynamodb, key, to_dynamodb
from conditional_writes.core.requests import Condition, absent, any_of, equals, less_than
from conditional_writes.exactly_once.payload import PayloadChanged, different, field_hashes, fields_of

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

ID, STATUS, EXPIRATION, IN_PROGRESS_EXPIRATION = "id", "status", "expiration", "in_progress_expiration"
COMPLETED, IN_PROGRESS = "COMPLETED", "INPROGRESS"
RESULT, PAYLOAD = "result", "payload"

DEFAULT_EXPIRY = timedelta(days=30)
MAXIMUM_KEY_BYTES = 2_048
"""DynamoDB's limit for a partition key."""


class Records:
    """A table of records: its partition key is the text `id`, and DynamoDB deletes what is over by `expiration` (TTL).

    That is the layout of Powertools' `DynamoDBPersistenceLayer`, so one table may serve both. `client` makes all
    requests of the functions: their other tables must be of the same account and region.
    """

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self.client, self.table = client, table

    def key(self, record_id: str) -> Key:
        return key(self.table, id=record_id)


class Recorded(NamedTuple):
    """A result, as its record has it, and the record."""

    result: Any
    record: Item


class Call(Protocol):
    """One call of a function: the id of its record, and what its record says."""

    @property
    def record_id(self) -> str: ...

    def recorded_in(self, found: Item | None) -> Recorded | None:
        """The result in the record that was found. None: there is none, or it is over, so the result is to be decided.

        Raises PayloadChanged, and ValueError for what is no record of such a function.
        """

    def record_of(self, result: Any) -> Recorded:
        """The record of a result that was decided. Raises TypeError or ValueError for one that a record can't hold."""


class Recording(Protocol):
    """How the calls of a function are recorded."""

    def begin(self, request: Any) -> Call:
        """The call for this request. Raises TypeError or ValueError for a request without a key."""


def is_over(record: Item) -> bool:
    """Whether the record doesn't count any more: it has expired, or Powertools' function that made it timed out."""
    now = time.time()
    if EXPIRATION in record and record[EXPIRATION] < int(now):
        return True
    return bool(
        record.get(STATUS) == IN_PROGRESS
        and IN_PROGRESS_EXPIRATION in record
        and record[IN_PROGRESS_EXPIRATION] < int(now * 1000)
    )


def free() -> Condition:
    """There is no such record, or it is over, as `is_over` says: Powertools' own condition."""
    now = time.time()
    timed_out = equals(STATUS, IN_PROGRESS) & less_than(IN_PROGRESS_EXPIRATION, int(now * 1000))
    return any_of([absent(ID), less_than(EXPIRATION, int(now)), timed_out])


class PlainRecording:
    """Records whose keys and payloads are given by functions. Results are kept in DynamoDB's own types."""

    def __init__(
        self,
        records: Records,
        prefix: str,
        key_of: Callable[[Any], str],
        payload_of: Callable[[Any], Any],
        expires_after: timedelta,
    ) -> None:
        if "#" in prefix:
            raise ValueError(f"prefix: {prefix!r} has a #, which ends the prefix: choose another character")
        if not isinstance(expires_after, timedelta) or expires_after < timedelta(seconds=1):
            raise ValueError(f"expires_after: {expires_after}, expected a timedelta of a second or more")
        self.records, self.prefix, self.expires_after = records, prefix, expires_after
        self._key_of, self._payload_of = key_of, payload_of

    def begin(self, request: Any) -> "PlainCall":
        name = self._key_of(request)
        if not isinstance(name, str):
            raise TypeError(f"{self.prefix}: the key is {name!r}, expected a text: use str(), or join several by a #")
        if not name:
            raise ValueError(f"{self.prefix}: the key is empty: all requests without one would be the same")
        record_id = f"{self.prefix}#{str.__str__(name)}"  # of a member of a str Enum its text, as JSON has it
        if len(record_id.encode()) > MAXIMUM_KEY_BYTES:
            raise ValueError(f"{record_id[:60]}…: prefix and key have over {MAXIMUM_KEY_BYTES} bytes: hash the key")
        hashes = field_hashes(record_id, self._payload_of(request))
        return PlainCall(self.records.key(record_id), record_id, hashes, self.expires_after)


class PlainCall(NamedTuple):
    record_key: Key
    record_id: str
    hashes: dict[str, str]
    expires_after: timedelta

    def recorded_in(self, found: Item | None) -> Recorded | None:
        if found is None or is_over(found):
            return None
        if PAYLOAD not in found:
            raise ValueError(
                f"{self.record_key}: is no record of an exactly-once function with `key`: choose another prefix"
            )
        fields = different(found[PAYLOAD], self.hashes)
        if fields:
            raise PayloadChanged(self.record_key, fields)
        return Recorded(found[RESULT], found)

    def record_of(self, result: Any) -> Recorded:
        if fields_of(result) is not result:
            raise TypeError(f"{self.record_key}: the result is {result!r}: return plain values, or a dict of the model")
        expiration = int(time.time() + self.expires_after.total_seconds())
        record = {ID: self.record_id, STATUS: COMPLETED, EXPIRATION: expiration, PAYLOAD: self.hashes, RESULT: result}
        record = from_dynamodb(to_dynamodb(record))
        return Recorded(record[RESULT], record)
