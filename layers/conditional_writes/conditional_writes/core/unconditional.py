"""Requests without a condition: strongly consistent reads, such as a plan starts from, and writes of whole items."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import ClientError

from conditional_writes.core.items import Item, Key, from_dynamodb, no_key, to_dynamodb
from conditional_writes.core.loop import Observed
from conditional_writes.core.steps import (
    FOUND,
    Deadline,
    Pause,
    Request,
    Steps,
    blocking,
    deadline_or_default,
    growing_pauses,
    steps,
)
from conditional_writes.core.table_errors import explain

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

MAXIMUM_KEYS = 100
"""DynamoDB's limit for the keys of one BatchGetItem."""
MAXIMUM_BATCH_WRITES = 25
"""DynamoDB's limit for the writes of one BatchWriteItem."""


@blocking
def read(
    client: "DynamoDBClient",
    keys: Iterable[Key],
    deadline: Deadline | None,
    attributes: Mapping[str, Sequence[str]] = {},
) -> Steps[Observed]:
    """The items as they are now, None for each that doesn't exist. One request per 100 keys.

    `attributes` has names by table, those of its key among them: of that table's items only these attributes are read.
    The items of other tables are read whole.

    Raises DeadlinePassed if keys are unread at the deadline, NoSuchTable, WrongKey, and botocore's other errors.
    """
    deadline = deadline_or_default(deadline)
    observed: dict[Key, Item | None] = {}
    if isinstance(keys, Key):
        raise TypeError(f"{keys}: one key, expected a list: put it into one")
    keys = list(keys)
    for each in keys:
        if not isinstance(each, Key):
            raise no_key(each)
    unread = list(dict.fromkeys(keys))
    pauses = growing_pauses()
    while unread:
        batch = unread[:MAXIMUM_KEYS]
        found = yield from steps(read_once)(client, batch, deadline, attributes)
        observed.update(found)
        unread = [wanted for wanted in unread if wanted not in found]
        if len(found) < len(batch):  # throttled, or more than 16 MB: DynamoDB's documentation asks for a pause
            yield Pause(min(next(pauses), max(0.0, deadline.remaining_seconds)))
    return observed


@blocking
def read_once(
    client: "DynamoDBClient", keys: Iterable[Key], deadline: Deadline, attributes: Mapping[str, Sequence[str]] = {}
) -> Steps[Observed]:
    """As `read`, but one request for at most 100 keys: those that DynamoDB left unprocessed are missing."""
    deadline.check("reading")
    batch = list(dict.fromkeys(keys))
    tables: dict[str, Any] = {}
    for wanted in batch:
        if wanted.table not in tables:
            tables[wanted.table] = {"Keys": [], "ConsistentRead": True} | projection(attributes.get(wanted.table, ()))
        tables[wanted.table]["Keys"].append(to_dynamodb(dict(wanted.attributes)))
    try:
        response = yield Request(client, "batch_get_item", {"RequestItems": tables})
    except ClientError as error:
        explain(client, error, batch)
        raise
    unprocessed = {
        _key_of(table, from_dynamodb(key_attributes), batch)
        for table, rest in response.get("UnprocessedKeys", {}).items()
        for key_attributes in rest["Keys"]
    }
    found: dict[Key, Item | None] = {wanted: None for wanted in batch if wanted not in unprocessed}
    for table, items in found_by_table(response).items():
        for item in items:
            found[_key_of(table, item, batch)] = item
    return found


@blocking
def read_one(
    client: "DynamoDBClient", key: Key, deadline: Deadline | None, attributes: Sequence[str] = ()
) -> Steps[Item | None]:
    """The item as it is now, None if it doesn't exist. Takes less CPU time than a batch of one key.

    If `attributes` has names, only these attributes are read.

    Raises DeadlinePassed, NoSuchTable, WrongKey, and botocore's other errors.
    """
    deadline_or_default(deadline).check("reading")
    key_attributes = to_dynamodb(dict(key.attributes))
    request = {"TableName": key.table, "Key": key_attributes, "ConsistentRead": True, **projection(attributes)}
    try:
        answer = yield Request(client, "get_item", request)
    except ClientError as error:
        explain(client, error, [key])
        raise
    return found_item(answer)


@blocking
def read_page(
    client: "DynamoDBClient", method: Literal["query", "scan"], request: Mapping[str, Any], after: Item | None = None
) -> Steps[tuple[list[Item], Item | None]]:
    """The next page of a query or a scan, strongly consistent: its items, and the key of the last one.

    The page begins `after` the item of this key; None: with the first one. No key is returned if no more pages follow.
    Raises botocore's errors.
    """
    start = {"ExclusiveStartKey": to_dynamodb(after)} if after else {}
    answer = yield Request(client, method, {**request, "ConsistentRead": True, **start})
    last = answer.get("LastEvaluatedKey")
    return list(found_items(answer)), from_dynamodb(last) if last else None


@blocking
def write_all(
    client: "DynamoDBClient", table: str, requests: Iterable[dict[str, Any]], deadline: Deadline, doing: str
) -> Steps[None]:
    """Makes the requests, each `{"PutRequest": …}` or `{"DeleteRequest": …}` of another item of one table.

    25 a request, and one write unit for each KB. Throttled items are sent again. Raises DeadlinePassed, with the
    work that `doing` names, if not all are written by then, and botocore's errors.
    """
    unwritten, pauses = list(requests), growing_pauses()
    while unwritten:
        deadline.check(doing)
        batch, rest = unwritten[:MAXIMUM_BATCH_WRITES], unwritten[MAXIMUM_BATCH_WRITES:]
        answer = yield Request(client, "batch_write_item", {"RequestItems": {table: batch}})
        throttled = answer["UnprocessedItems"].get(table, [])
        if throttled:
            yield Pause(min(next(pauses), max(0.0, deadline.remaining_seconds)))
        unwritten = [*throttled, *rest]


def found_item(answer: dict[str, Any]) -> Item | None:
    """The item in the answer to a `get_item`."""
    if FOUND in answer:
        item: Item = answer[FOUND]
        return item
    return from_dynamodb(answer["Item"]) if "Item" in answer else None


def found_items(answer: dict[str, Any]) -> Iterable[Item]:
    """The items in the answer to a `query` or a `scan`."""
    return answer[FOUND] if FOUND in answer else map(from_dynamodb, answer["Items"])


def found_by_table(answer: dict[str, Any]) -> Mapping[str, Iterable[Item]]:
    """The items in the answer to a `batch_get_item`."""
    if FOUND in answer:
        tables: Mapping[str, Iterable[Item]] = answer[FOUND]
        return tables
    return {table: map(from_dynamodb, items) for table, items in answer["Responses"].items()}


def projection(names: Sequence[str]) -> dict[str, Any]:
    """The parameters that leave all other attributes out; none, if there are no names."""
    if not names:
        return {}
    placeholders = {f"#{number}": name for number, name in enumerate(names)}
    return {"ProjectionExpression": ",".join(placeholders), "ExpressionAttributeNames": placeholders}


def _key_of(table: str, item: Item, batch: list[Key]) -> Key:
    """The item's key. The names of its attributes are those of the other keys of its table."""
    names = next(wanted.attributes for wanted in batch if wanted.table == table)
    return Key(table, tuple((name, item[name]) for name, _ in names))
