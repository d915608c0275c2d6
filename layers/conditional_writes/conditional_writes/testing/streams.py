"""A table's stream: one shard, whose records are kept for a day."""

from typing import Any

from conditional_writes.testing.database import Answer, Database
from conditional_writes.testing.errors import Refused, invalid, invalid_parameter, no_such_table
from conditional_writes.testing.tables import REGION, Record, Table
from conditional_writes.testing.values import item_bytes

RETENTION_SECONDS = 24 * 3600
ITERATOR_SECONDS = 15 * 60
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_GetShardIterator.html"""
MAXIMUM_RECORDS = 1000
TIME_TO_LIVE = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
"""The principal that deletes expired items.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-streams.html
"""
SHARD = "shardId-00000000000000000000-00000000"


def _streamed(database: Database, arn: str) -> Table:
    for table in database.tables.values():
        if table.stream_began and table.stream_arn == arn:
            return table
    raise no_such_table(f"Requested resource not found: Stream: {arn} not found")


def _kept(database: Database, table: Table) -> list[Record]:
    oldest = database.clock.time() - RETENTION_SECONDS
    return [record for record in table.records if record.seconds > oldest]


def list_streams(database: Database, request: dict[str, Any]) -> Answer:
    wanted = request.get("TableName")
    found = [table for name, table in database.tables.items() if table.view is not None and wanted in {None, name}]
    return {
        "Streams": [
            {"StreamArn": table.stream_arn, "TableName": table.name, "StreamLabel": table.stream_began}
            for table in found
        ]
    }


def describe_stream(database: Database, request: dict[str, Any]) -> Answer:
    table = _streamed(database, request["StreamArn"])
    shard = {"ShardId": SHARD, "SequenceNumberRange": {"StartingSequenceNumber": _number(1)}}
    return {
        "StreamDescription": {
            "StreamArn": table.stream_arn,
            "StreamLabel": table.stream_began,
            "StreamStatus": "DISABLED" if table.view is None else "ENABLED",
            "StreamViewType": table.view,
            "TableName": table.name,
            "KeySchema": table.description()["KeySchema"],
            "Shards": [shard],
        }
    }


def get_shard_iterator(database: Database, request: dict[str, Any]) -> Answer:
    table, number, kind = (
        _streamed(database, request["StreamArn"]),
        request.get("SequenceNumber"),
        request["ShardIteratorType"],
    )
    if request["ShardId"] != SHARD:
        raise no_such_table("Shard does not exist")
    if number is not None and not kind.endswith("_SEQUENCE_NUMBER"):
        raise invalid_parameter("SequenceNumber should not be passed for this iterator type")
    match kind, number:
        case "TRIM_HORIZON", None:
            following = 1
        case "LATEST", None:
            following = len(table.records) + 1
        case "AT_SEQUENCE_NUMBER", str():
            following = int(number)
        case "AFTER_SEQUENCE_NUMBER", str():
            following = int(number) + 1
        case _:
            raise invalid_parameter("Invalid SequenceNumber")
    oldest = next((record.number for record in _kept(database, table)), len(table.records) + 1)
    if following < oldest and "SequenceNumber" in request:
        raise Refused("TrimmedDataAccessException", "The operation attempted to read past the oldest stream record")
    return {"ShardIterator": _iterator(database, table, following)}


def _iterator(database: Database, table: Table, following: int) -> str:
    return f"{table.stream_arn}|{database.clock.time()}|{following}"


def get_records(database: Database, request: dict[str, Any]) -> Answer:
    arn, *when_and_following = request["ShardIterator"].split("|")
    if len(when_and_following) != 2:
        raise invalid("Invalid ShardIterator")
    when, following = when_and_following
    table, limit = _streamed(database, arn), request.get("Limit", MAXIMUM_RECORDS)
    if limit > MAXIMUM_RECORDS:
        raise invalid_parameter(f"Limit should be less than or equal to {MAXIMUM_RECORDS}")
    if database.clock.time() > float(when) + ITERATOR_SECONDS:
        raise Refused("ExpiredIteratorException", f"Iterator expired: it was made at {when}")
    found = [record for record in _kept(database, table) if record.number >= int(following)][:limit]
    after = found[-1].number + 1 if found else int(following)
    return {
        "Records": [_read(stream_record(table, record)) for record in found],
        "NextShardIterator": _iterator(database, table, after),
    }


def _read(record: dict[str, Any]) -> dict[str, Any]:
    """A record as `GetRecords` has it: it spells who has written otherwise than Lambda."""
    if "userIdentity" not in record:
        return record
    return record | {"userIdentity": {name[0].upper() + name[1:]: each for name, each in TIME_TO_LIVE.items()}}


def stream_record(table: Table, record: Record) -> dict[str, Any]:
    """A record as Lambda has it."""
    item = record.after if record.after is not None else record.before
    if item is None:
        raise AssertionError(record)
    images = {}
    if record.after is not None and table.view in {"NEW_IMAGE", "NEW_AND_OLD_IMAGES"}:
        images["NewImage"] = record.after
    if record.before is not None and table.view in {"OLD_IMAGE", "NEW_AND_OLD_IMAGES"}:
        images["OldImage"] = record.before
    name = "INSERT" if record.before is None else "REMOVE" if record.after is None else "MODIFY"
    keys = table.key_of(item)
    return {
        "eventID": f"{record.number:032x}",
        "eventName": name,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": REGION,
        "dynamodb": {
            "ApproximateCreationDateTime": int(record.seconds),
            "Keys": keys,
            **images,
            "SequenceNumber": _number(record.number),
            "SizeBytes": item_bytes(keys) + sum(map(item_bytes, images.values())),
            "StreamViewType": table.view,
        },
        **({"userIdentity": TIME_TO_LIVE} if record.is_expiry else {}),
    }


def _number(number: int) -> str:
    return f"{number:021d}"
