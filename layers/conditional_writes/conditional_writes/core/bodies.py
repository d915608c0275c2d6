"""The bodies of DynamoDB's answers, read in one pass over the JSON to items in Python's types.

botocore makes DynamoDB's types of the JSON, by its model, and boto3 Python's types of these: three times the CPU time.
"""

import base64
import functools
import json
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from conditional_writes.core.items import Item, from_dynamodb

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

_ITEM = "conditional_writes.item"
"""In botocore's answer: the item that was taken out of the body."""


class _Thread(threading.local):
    """Whether this thread is in `get_item`. Answers to a caller's own requests stay as they are."""

    is_getting = False


_thread = _Thread()


def get_item(client: "DynamoDBClient", **parameters: Any) -> Item | None:
    """The item of a prepared client's `get_item`, None if there is none.

    If botocore changes the event that is used here, botocore and boto3 read the item: as correctly, and more slowly.
    """
    _thread.is_getting = True
    try:
        answer: Any = client.get_item(**parameters)
    finally:
        _thread.is_getting = False
    if _ITEM in answer:
        item: Item = answer[_ITEM]
        return item
    return from_dynamodb(answer["Item"]) if "Item" in answer else None


def take_read_item(response_dict: Any = None, customized_response_dict: Any = None, **_: object) -> None:
    """A handler of botocore's event `before-parse`: takes the item out of the body, and leaves the rest to botocore."""
    if not _thread.is_getting or not response_dict or customized_response_dict is None:
        return
    if response_dict["status_code"] != 200:
        return
    try:
        answer = read_body(response_dict["body"])
        item = answer.pop("Item", None)
    except Exception:  # noqa: BLE001 (botocore says what is wrong with it)
        return
    if item:
        customized_response_dict[_ITEM] = item
        response_dict["body"] = json.dumps(answer).encode()


def read_body(body: bytes) -> Any:
    """A body of items, alone or in a transaction's reasons. Raises errors of any kind for what it can't be."""
    return json.loads(body, object_hook=_value_of)


def _value_of(read: dict[str, Any]) -> Any:
    """The value of an object in DynamoDB's JSON whose own values were read before.

    The value of `{"N": "1"}` is returned in a tuple, as no JSON is: `{"S": …}` may also be a map with the name `S`.
    """
    if len(read) == 1:
        name, value = read.popitem()
        if type(value) is tuple:
            return {name: value[0]}
        if name in _READERS:
            return _READERS[name](value)
        if name not in _FIELDS:
            raise ValueError(f"{name}: no type of DynamoDB's")
        return {name: value}
    return {name: value[0] if type(value) is tuple else value for name, value in read.items()}


_FIELDS = {"Code", "Item"}
"""What an object has alone that is no value: a transaction's reason `{"Code": "None"}`, or an answer `{"Item": …}`."""


@functools.lru_cache(1024)
def _number(digits: str) -> tuple[Decimal]:
    return (Decimal(digits),)


_READERS: dict[str, Callable[[Any], tuple[Any]]] = {
    "S": lambda text: (text,),
    "N": _number,
    "B": lambda text: (base64.b64decode(text),),
    "BOOL": {True: (True,), False: (False,)}.__getitem__,
    "NULL": {True: (None,)}.__getitem__,
    "M": lambda read: (read,),
    "L": lambda read: ([value for (value,) in read],),
    "SS": lambda texts: (set(texts),),
    "NS": lambda texts: (set(map(Decimal, texts)),),
    "BS": lambda texts: (set(map(base64.b64decode, texts)),),
}
