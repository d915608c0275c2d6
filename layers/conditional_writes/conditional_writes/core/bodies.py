"""The bodies of DynamoDB's answers, read in one pass over the JSON to items in Python's types.

botocore makes DynamoDB's types of the JSON, by its model, and boto3 Python's types of these: three times the CPU time.
"""

import base64
import functools
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any


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
