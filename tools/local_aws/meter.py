"""Counts what clients ask of AWS: requests by operation, and DynamoDB's read and write units.

A write that takes effect costs what DynamoDB says it did (`ReturnConsumedCapacity`). For one that is refused DynamoDB
charges too, but doesn't say how much: that is computed from the published rule, a unit per started kB of the larger
of the item that is there and the item that would have been, twice in a transaction. For a cancelled
transaction we found no published figure: all of its items are charged here, as if it had been committed.

A read costs what DynamoDB says, too. ministack doesn't for a BatchGetItem: that is computed from the published rule,
half a unit per started 4 kB of each item, a whole one where the read is consistent, and the least for an absent item.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
"""

import json
import math
import threading
from collections import Counter
from typing import Any

from conditional_writes.sizes import item_bytes

WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")
READS = ("GetItem", "BatchGetItem")


class Meter:
    """What its clients have sent since it was made, or since `reset`. Clients may be used by several threads."""

    def __init__(self, *clients: Any) -> None:
        self.requests: Counter[str] = Counter()
        self.read_units = 0.0
        self.write_units = 0.0
        self._lock = threading.Lock()
        for client in clients:
            self._watch(client.meta.events)

    def reset(self) -> None:
        self.requests.clear()
        self.read_units = 0.0
        self.write_units = 0.0

    def _watch(self, events: Any) -> None:
        events.register("before-send", self._count_request)  # the SDK's own retries are requests, too
        for operation in (*WRITES, *READS):
            events.register(f"provide-client-params.dynamodb.{operation}", self._ask_for_units)
            events.register(f"before-call.dynamodb.{operation}", self._keep_request)
            count = self._count_write_units if operation in WRITES else self._count_read_units
            events.register(f"after-call.dynamodb.{operation}", count)

    def _count_request(self, event_name: str, **_: Any) -> None:
        with self._lock:
            self.requests[event_name.rpartition(".")[2]] += 1

    def _ask_for_units(self, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return params | {"ReturnConsumedCapacity": "TOTAL"}

    def _keep_request(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["metered_body"] = params["body"]

    def _count_write_units(self, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        if "Error" in parsed:
            units = refused_units(json.loads(context["metered_body"]), parsed)
        else:
            units = consumed_units(parsed)
        with self._lock:
            self.write_units += units

    def _count_read_units(self, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        units = 0.0 if "Error" in parsed else read_units(json.loads(context["metered_body"]), parsed)
        with self._lock:
            self.read_units += units


def consumed_units(response: dict[str, Any]) -> float:
    """What DynamoDB says a write consumed: of one table, or of each table in a transaction."""
    consumed = response["ConsumedCapacity"]
    if isinstance(consumed, dict):
        return float(consumed["CapacityUnits"])
    # A transaction that was sent again, after a lost response, is answered for read units alone.
    return float(sum(table.get("WriteCapacityUnits", 0) for table in consumed))


def refused_units(request: dict[str, Any], error: dict[str, Any]) -> float:
    """What a refused write costs: nothing where it was throttled or invalid, so never looked at an item."""
    match error["Error"]["Code"]:
        case "ConditionalCheckFailedException":
            return _units(request, error.get("Item"))
        case "TransactionCanceledException":
            writes = [write for action in request["TransactItems"] for write in action.values()]
            return 2 * sum(
                _units(write, reason.get("Item"))
                for write, reason in zip(writes, error["CancellationReasons"], strict=True)
            )
        case _:
            return 0


def _units(write: dict[str, Any], found: dict[str, Any] | None) -> float:
    """Of an update's result only the key is known, and the item that it would have changed."""
    return math.ceil(max(item_bytes(write.get("Item") or write["Key"]), item_bytes(found or {})) / 1024)


def read_units(request: dict[str, Any], response: dict[str, Any]) -> float:
    """What DynamoDB says a read consumed, or what its rule says of a BatchGetItem."""
    match response.get("ConsumedCapacity"):
        case dict(consumed):
            return float(consumed["CapacityUnits"])
        case list(tables) if tables:
            return float(sum(table["CapacityUnits"] for table in tables))
    return sum(
        _batch_read_units(keys, response["Responses"].get(table, []), response.get("UnprocessedKeys", {}).get(table))
        for table, keys in request["RequestItems"].items()
    )


def _batch_read_units(asked: dict[str, Any], found: list[dict[str, Any]], unprocessed: dict[str, Any] | None) -> float:
    absent = len(asked["Keys"]) - len(found) - len((unprocessed or {"Keys": []})["Keys"])
    blocks = absent + sum(math.ceil(item_bytes(item) / 4096) for item in found)
    return blocks if asked.get("ConsistentRead") else blocks / 2
