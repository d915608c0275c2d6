"""Counts clients' requests by operation, and their DynamoDB read and write units.

The units of a successful write are those that DynamoDB reports (`ReturnConsumedCapacity`), with those of its indexes.
DynamoDB Local reports nonsense for a transaction. Its units are computed by the published rule: two units per started
kB of each item in the table, and one unit per started kB in the index. Of an update's result only the key is known.
Those of a BatchWriteItem are computed, too, for not every engine reports them: as single writes, of which of a deletion
only the key is known.

DynamoDB charges a refused write too, but doesn't report the units. They are computed by the published rule: one unit
per started kB of the larger of the existing item and the refused one, and twice that in a transaction. No figure is
published for a cancelled transaction: all of its items are counted, as if it had been committed. An index has none of
them.

The units of a read are those that DynamoDB reports. ministack doesn't report those of a BatchGetItem, and half a unit,
or one, for each Query and Scan. They are computed by the published rule: half a unit per started 4 kB of each item, or
of all items of a Query and Scan together, or one unit if the read is consistent. An absent item and an empty page cost
the minimum. Items that a filter leaves out cost as much, but ministack doesn't say how large they are.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
"""

import functools
import json
import math
import threading
from collections import Counter, defaultdict
from typing import Any

from conditional_writes.core.items import Item, from_dynamodb, item_bytes
from conditional_writes.core.steps import ITEMS
from conditional_writes.core.unconditional import found_by_table, found_items
from tools.local_aws.tables import BY_VERSION

WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem")
READS = ("GetItem", "BatchGetItem", "Query", "Scan")
INDEX_KEY = [key["AttributeName"] for key in BY_VERSION["KeySchema"]]
"""An entry without one of these attributes isn't in the index of the journal, the only table that has one."""


class Meter:
    """The requests and units of its clients since its creation or since `reset`. Clients may be shared by threads.

    `answered` and `units` are by operation, those of an index apart, such as "Query by_version", and those of the table
    Checkpoints, "Query checkpoints". `answered` counts each request once, however often the SDK sent it.
    """

    def __init__(self, *clients: Any) -> None:
        self.requests: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.units: dict[str, float] = defaultdict(float)
        self.read_units = 0.0
        self.write_units = 0.0
        self._lock = threading.Lock()
        for client in clients:
            self._watch(client.meta.events)

    def reset(self) -> None:
        self.requests.clear()
        self.answered.clear()
        self.units.clear()
        self.read_units = 0.0
        self.write_units = 0.0

    def _watch(self, events: Any) -> None:
        events.register("before-send", self._count_request)  # The SDK's own retries are counted, too.
        for operation in (*WRITES, *READS):
            events.register(f"provide-client-params.dynamodb.{operation}", self._ask_for_units)
            events.register(f"before-call.dynamodb.{operation}", self._keep_request)
            count: Any = self._count_write_units if operation in WRITES else self._count_read_units
            events.register(f"after-call.dynamodb.{operation}", functools.partial(count, operation))

    def _count_request(self, event_name: str, **_: Any) -> None:
        with self._lock:
            self.requests[event_name.rpartition(".")[2]] += 1

    def _ask_for_units(self, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return params | {"ReturnConsumedCapacity": "TOTAL"}

    def _keep_request(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["metered_body"] = params["body"]

    def _count_write_units(self, operation: str, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        request = json.loads(context["metered_body"])
        units = refused_units(request, parsed) if "Error" in parsed else written_units(request, parsed)
        with self._lock:
            self.write_units += units
            self.answered[operation] += 1
            self.units[operation] += units

    def _count_read_units(self, operation: str, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        request = json.loads(context["metered_body"])
        units = 0.0 if "Error" in parsed else read_units(request, parsed)
        name = f"{operation} {request['IndexName']}" if "IndexName" in request else operation
        name += " checkpoints" if operation == "Query" and request["TableName"].endswith("-checkpoints") else ""
        with self._lock:
            self.read_units += units
            self.answered[name] += 1
            self.units[name] += units


def written_units(request: dict[str, Any], response: dict[str, Any]) -> float:
    """The units that DynamoDB reports for a write, in tables and indexes. Those of a DynamoDB Local are computed."""
    if "RequestItems" in request:
        return _batch_write_units(request) - _batch_write_units({"RequestItems": response["UnprocessedItems"]})
    consumed = response["ConsumedCapacity"]
    if isinstance(consumed, dict):
        return float(consumed["CapacityUnits"])
    # If a transaction is sent again after a lost response, DynamoDB reports read units alone.
    units = sum(table["CapacityUnits"] - table.get("ReadCapacityUnits", 0) for table in consumed)
    if units and _is_dynamodb_local(response):
        writes = _transaction_writes(request)
        return sum(2 * _units(write, {}) + _index_units(write["TableName"], write) for write in writes)
    return float(units)


def _batch_write_units(request: dict[str, Any]) -> float:
    by_table = request["RequestItems"].items()
    writes = [(table, write) for table, sent in by_table for each in sent for write in each.values()]
    return float(sum(_units(write, {}) + _index_units(table, write) for table, write in writes))


def _is_dynamodb_local(response: dict[str, Any]) -> bool:
    server: str = response["ResponseMetadata"]["HTTPHeaders"].get("server", "")
    return server.startswith("Jetty")


def _transaction_writes(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [write for action in request["TransactItems"] for write in action.values()]


def _index_units(table: str, write: dict[str, Any]) -> int:
    is_indexed = table.endswith("-journal") and all(name in write.get("Item", {}) for name in INDEX_KEY)
    return _units(write, {}) if is_indexed else 0


def refused_units(request: dict[str, Any], error: dict[str, Any]) -> float:
    """The units of a refused write. A throttled or invalid write costs nothing, for DynamoDB read no item for it."""
    match error["Error"]["Code"]:
        case "ConditionalCheckFailedException":
            [found] = _found_items(error, [error])
            return _units(request, found)
        case "TransactionCanceledException":
            writes = _transaction_writes(request)
            return 2 * sum(map(_units, writes, _found_items(error, error["CancellationReasons"])))
        case _:
            return 0


def _found_items(error: dict[str, Any], reasons: list[dict[str, Any]]) -> list[Item]:
    """The existing items, empty if there is none. `conditional_writes` takes large ones out of the error."""
    large: list[Item | None] | None = error.get(ITEMS)
    return [item or {} for item in large] if large else [from_dynamodb(reason.get("Item", {})) for reason in reasons]


def _units(write: dict[str, Any], found: Item) -> int:
    """The units of one write in its table. Of an update's result only the key and the existing item are known."""
    written = from_dynamodb(write.get("Item") or write["Key"])
    return math.ceil(max(item_bytes(written), item_bytes(found)) / 1024)


def read_units(request: dict[str, Any], response: dict[str, Any]) -> float:
    """The units that DynamoDB reports for a read. Those that an engine doesn't report are computed."""
    if "RequestItems" in request:
        return _batch_read_units(request, response)
    reported = float(response["ConsumedCapacity"]["CapacityUnits"])
    is_page = not request.keys() & {"Key", "TransactItems"}
    return max(reported, _page_units(request, response)) if is_page else reported


def _page_units(request: dict[str, Any], response: dict[str, Any]) -> float:
    """The units of the items in a Query's or Scan's page."""
    page_bytes = sum(map(item_bytes, found_items(response)))
    blocks = max(1, math.ceil(page_bytes / 4096))
    return blocks if request.get("ConsistentRead") else blocks / 2


def _batch_read_units(request: dict[str, Any], response: dict[str, Any]) -> float:
    if reported := response.get("ConsumedCapacity"):
        return float(sum(table["CapacityUnits"] for table in reported))
    found = found_by_table(response)
    return sum(
        _table_read_units(keys, [*found.get(table, [])], response.get("UnprocessedKeys", {}).get(table))
        for table, keys in request["RequestItems"].items()
    )


def _table_read_units(asked: dict[str, Any], found: list[Item], unprocessed: dict[str, Any] | None) -> float:
    absent = len(asked["Keys"]) - len(found) - len((unprocessed or {"Keys": []})["Keys"])
    blocks = absent + sum(math.ceil(item_bytes(item) / 4096) for item in found)
    return blocks if asked.get("ConsistentRead") else blocks / 2
